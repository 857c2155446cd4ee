"""The catalogue is complete and consistent, and loading checks what it finds."""

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from entrofed.data import catalog
from entrofed.data.catalog import CATALOG, DatasetEntry, data_directory, load
from entrofed.data.shakespeare import ALPHABET, LENGTH
from entrofed.errors import ConfigError, DataError

READY = [name for name, entry in CATALOG.items() if entry.shipped or not entry.files]


def check(name: str, directory: Path | None = None) -> None:
    entry, data = CATALOG[name], load(name, directory)
    assert data.name == name
    assert data.train_x.shape == (entry.train, *entry.shape)
    assert data.test_x.shape == (entry.test, *entry.shape)
    assert (0 if data.valid_y is None else len(data.valid_y)) == entry.valid
    assert len(data.classes) == entry.classes
    for x, y in ((data.train_x, data.train_y), (data.test_x, data.test_y)):
        assert x.dtype == (np.float32 if data.kind in ("table", "tensor") else np.uint8)
        assert x.flags.writeable
        assert y.dtype == np.int64
        assert 0 <= y.min() <= y.max() < entry.classes


def test_names() -> None:
    assert tuple(CATALOG) == (
        "digits",
        "mnist",
        "mnist-writers",
        "fashion-mnist",
        "emnist-digits",
        "cifar-10",
        "cifar-100",
        "cifar-100-coarse",
        "cinic-10",
        "iris",
        "wheat-seeds",
        "heart",
        "heart-unique",
        "heart-cleveland",
        "heart-hospitals",
        "adult",
        "activity",
        "pumpkin-seeds",
        "shakespeare",
    )


@pytest.mark.parametrize("entry", CATALOG.values(), ids=CATALOG)
def test_entries_are_complete(entry: DatasetEntry) -> None:
    assert entry.description
    assert entry.licence
    assert re.search(r"https?://\S+", entry.source)
    assert entry.samples == entry.train + entry.valid + entry.test > 0
    for file in (*entry.files, *([entry.archive] if entry.archive else [])):
        assert re.fullmatch("[0-9a-f]{64}", file.sha256) or re.fullmatch("[0-9a-f]{32}", file.md5)
        assert file.size > 0
        assert not Path(file.path).is_absolute()
        assert all(re.match("https?://", url) for url in file.urls)


def test_shakespeare_has_a_class_for_each_character() -> None:
    assert (CATALOG["shakespeare"].classes, CATALOG["shakespeare"].shape) == (len(ALPHABET) + 1, (LENGTH,))


def test_files_are_where_users_are_told() -> None:
    first = {name: entry.files[0].path for name, entry in CATALOG.items() if entry.files}
    assert first["mnist"] == "mnist/train-images-idx3-ubyte.gz"
    assert first["cifar-10"] == "cifar-10-batches-bin/data_batch_1.bin"
    assert first["cifar-100-coarse"] == first["cifar-100"] == "cifar-100-binary/train.bin"
    assert first["heart"] == first["heart-unique"] == "heart-disease/heart.csv"
    assert [len(CATALOG[name].files) for name in ("mnist", "emnist-digits", "cifar-10", "cifar-100")] == [
        4,
        4,
        6,
        2,
    ]
    assert CATALOG["emnist-digits"].files[0].member == "gzip/emnist-digits-train-images-idx3-ubyte.gz"
    assert CATALOG["cifar-10"].files[0].member == "cifar-10-batches-bin/data_batch_1.bin"


@pytest.mark.parametrize("name", READY)
def test_datasets_that_need_no_download(name: str, tmp_path: Path) -> None:
    check(name, tmp_path)


@pytest.mark.parametrize("name", sorted(set(CATALOG) - set(READY)))
def test_datasets_on_this_machine(name: str) -> None:
    place = os.environ.get("ENTROFED_TEST_DATA")
    if place is None or not CATALOG[name].here(Path(place)):
        pytest.skip(f"set ENTROFED_TEST_DATA to a data directory that holds {name}")
    check(name, Path(place))


@pytest.mark.parametrize("name", sorted(set(CATALOG) - set(READY)))
def test_a_missing_dataset_says_how_to_get_it(name: str, tmp_path: Path) -> None:
    entry = CATALOG[name]
    with pytest.raises(DataError) as caught:
        load(name, tmp_path)
    message = str(caught.value)
    for file in entry.files:
        assert f"Put it at {tmp_path / file.path}\n" in message
        assert all(url in message for url in file.urls)
    assert entry.source in message
    assert all(package in message for package in entry.packages)
    assert entry.archive is None or entry.archive.urls[0] in message


def test_an_incomplete_dataset_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOG, "iris", replace(CATALOG["iris"], test=31))
    with pytest.raises(DataError, match=r"its test part has 31 samples; found 30"):
        load("iris")


def test_unpacked_folders_serve_instead_of_the_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entry = CATALOG["cinic-10"]
    monkeypatch.setitem(CATALOG, "cinic-10", replace(entry, read=CATALOG["digits"].read, train=1437, test=360))
    for folder, _ in entry.folders[:-1]:
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(DataError, match="is not in"):
        load("cinic-10", tmp_path)
    (tmp_path / entry.folders[-1][0]).mkdir()
    assert load("cinic-10", tmp_path).name == "digits"


def test_an_unknown_name() -> None:
    with pytest.raises(ConfigError, match="unknown dataset 'cifar10'; did you mean 'cifar-10'"):
        load("cifar10")


def test_the_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.delenv("ENTROFED_DATA", raising=False)
    assert data_directory() == tmp_path / ".cache/entrofed/data"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_directory() == tmp_path / "cache/entrofed/data"
    monkeypatch.setenv("ENTROFED_DATA", str(tmp_path / "data"))
    assert data_directory() == tmp_path / "data"
    assert data_directory(tmp_path / "option") == tmp_path / "option"
    with pytest.raises(DataError, match=str(tmp_path / "data/mnist")):
        load("mnist")


def test_every_shipped_file_is_attributed() -> None:
    text = (catalog.SHIPPED / "ATTRIBUTION.md").read_text()
    files = {path.name for path in catalog.SHIPPED.iterdir()} - {"ATTRIBUTION.md"}
    assert files == {file.path for entry in CATALOG.values() if entry.shipped for file in entry.files}
    assert all(f"`{name}`" in text for name in files)


def test_importing_the_catalogue_is_light() -> None:
    code = "import sys, entrofed.data.catalog; print({'sklearn', 'torch', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
