"""What datasets there are, on what terms, which files they need, and how they are read."""

import math
import os
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from entrofed.core.plugins import announced
from entrofed.data import images, tables
from entrofed.data.activity import activity
from entrofed.data.adult import adult
from entrofed.data.dataset import Dataset
from entrofed.data.hospitals import heart_hospitals
from entrofed.data.shakespeare import shakespeare
from entrofed.data.sources import ARCHIVES, File, files, place
from entrofed.data.verified import check_files
from entrofed.errors import DataError, unknown
from entrofed.files import cache_folder

SHIPPED = Path(__file__).parent / "shipped"
"""The folder of the tables that come with the package."""


@dataclass(frozen=True)
class DatasetEntry:
    """A dataset: its shape, its terms, and where to get it."""

    description: str
    train: int
    test: int
    classes: int
    shape: tuple[int, ...]
    licence: str
    source: str
    """A page about it."""
    read: Callable[[Path], Dataset]
    valid: int = 0
    files: tuple[File, ...] = ()
    archive: File | None = None
    """What ``files`` can be taken from."""
    folders: tuple[tuple[str, int], ...] = ()
    """Folders, with the number of files in each, that serve instead of ``files``."""
    packages: tuple[str, ...] = ()
    """Packages that carry exact copies of the files."""
    shipped: bool = False

    def here(self, root: Path) -> bool:
        """Whether its files (not their content) are in the data directory."""
        unpacked = bool(self.folders) and all((root / folder).is_dir() for folder, _ in self.folders)
        return self.shipped or unpacked or all(place(root, file).is_file() for file in self.files)

    @property
    def samples(self) -> int:
        """Samples in all parts."""
        return self.train + self.valid + self.test


def data_directory(option: Path | None = None) -> Path:
    """Where datasets lie: ``option``, else $ENTROFED_DATA, else ``entrofed/data`` in the user's cache."""
    if option is not None:
        return option
    if chosen := os.environ.get("ENTROFED_DATA"):
        return Path(chosen)
    return cache_folder() / "data"


def datasets() -> dict[str, DatasetEntry]:
    """All datasets by name: ours, and the entries of other packages (entry points ``entrofed.datasets``)."""
    theirs = {name: entry for name, entry in announced("dataset").items() if isinstance(entry, DatasetEntry)}
    return {**theirs, **CATALOG}


def dataset_entry(name: str) -> DatasetEntry:
    """The entry of a dataset, or a ConfigError that names the nearest."""
    found = datasets()
    if name not in found:
        raise unknown("dataset", name, found)
    return found[name]


def load(name: str, directory: Path | None = None) -> Dataset:
    """Read a dataset from the data directory (or the package); it must be complete.

    >>> load("iris").train_x.shape
    (90, 4)
    """
    entry = dataset_entry(name)
    root = SHIPPED if entry.shipped else data_directory(directory)
    unpacked = entry.folders and all((root / folder).is_dir() for folder, _ in entry.folders)
    missing = [file for file in entry.files if not place(root, file).is_file()]
    if missing and not unpacked:
        raise DataError(f"{name} is not in {root}. Fetch it, or get it by hand:\n{how_to_get(name, root, missing)}")
    check_files(name, entry.files, root)
    data = entry.read(root)
    for part, expected, found in (("training", entry.train, data.train_y), ("test", entry.test, data.test_y)):
        if len(found) != expected:
            raise DataError(
                f"{name} in {root}: its {part} part has {expected:,} samples; found {len(found):,}. "
                "Replace its files with intact copies."
            )
    return data


def how_to_get(name: str, root: Path, missing: Iterable[File]) -> str:
    """Where missing files belong, and every place to get them from."""
    entry = dataset_entry(name)
    lines = []
    for file in missing:
        lines += [f"Put it at {root / file.path}", *(f"  from {url}" for url in file.urls)]
    if entry.archive is not None:
        lines += [f"Or put the archive at {root / entry.archive.path} and fetch {name}, which unpacks it"]
        lines += [f"  from {url}" for url in entry.archive.urls]
    if entry.folders:
        lines += [f"Or unpack the pictures into {root / entry.folders[0][0]} and its neighbours"]
    lines += [f"An exact copy is in {package}" for package in entry.packages]
    return "\n".join([*lines, f"About it: {entry.source}"])


READERS: dict[str, Callable[[Path], Dataset]] = {
    "digits": lambda _: tables.digits(),
    "mnist": images.mnist,
    "mnist-writers": images.mnist_writers,
    "fashion-mnist": images.fashion_mnist,
    "emnist-digits": images.emnist_digits,
    "cifar-10": images.cifar_10,
    "cifar-100": images.cifar_100,
    "cifar-100-coarse": images.cifar_100_coarse,
    "cinic-10": images.cinic_10,
    "heart-hospitals": heart_hospitals,
    "adult": adult,
    "activity": activity,
    "shakespeare": shakespeare,
    **{name: partial(tables.load_table, name) for name in tables.TABLES},
}
FOLDERS = {
    "cinic-10": tuple((f"cinic-10/{part}/{name}", 9000) for part in ("train", "test") for name in images.CIFAR_10)
}


def _entry(name: str, listed: dict[str, Any]) -> DatasetEntry:
    if name in tables.TABLES:
        listed = {**listed, **_of_table(tables.TABLES[name])}
    return DatasetEntry(
        **{
            **listed,
            "shape": tuple(listed["shape"]),
            "files": files(*_prefixes(listed)) if "files" in listed else (),
            "archive": ARCHIVES[listed["archive"]] if "archive" in listed else None,
            "packages": tuple(listed.get("packages", ())),
        },
        read=READERS[name],
        folders=FOLDERS.get(name, ()),
    )


def _prefixes(listed: dict[str, Any]) -> list[str]:
    return [listed["files"]] if isinstance(listed["files"], str) else list(listed["files"])


def _of_table(table: tables.Table) -> dict[str, Any]:
    """What follows from how a table is stored: 40 % of its rows are set aside, half of them for testing."""
    test = sum(table.test_counts)
    held_out = math.ceil(table.rows * 0.4)
    counts = {"train": table.rows - held_out, "valid": held_out - test, "test": test, "classes": len(table.classes)}
    return {**counts, "shape": [table.features], "files": table.path}


CATALOG = {
    name: _entry(name, listed)
    for name, listed in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
