"""A fixed assignment of samples to clients, from a file or an array."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import federate
from entrofed.experiment.sections.data import DataSection

X, Y = np.eye(6), np.array([0, 1] * 3)
OWNERS = ["Chur", "Bern", "Chur", "Bern", "Bern", "Arth"]


def of(owners: Any, **options: Any) -> Federation:
    return Federation.partition(X, Y, "assignment", owners=owners, test=(X, Y), **options)


def shards(federation: Federation) -> list[list[int]]:
    return [rows.tolist() for rows in federation.shards]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", "\n".join(OWNERS)),
        ("a.csv", "\n".join(["client", *OWNERS, ""])),
        ("a.csv", "\ufeff" + "\r\n".join(f'"{owner}"' for owner in OWNERS)),
        ("a.npy", np.array(OWNERS)),
    ],
)
def test_names_in_a_file(tmp_path: Path, name: str, content: Any) -> None:
    path = tmp_path / name
    if isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        np.save(path, content)
    federation = of(path)
    assert federation.names == ("Arth", "Bern", "Chur")
    assert shards(federation) == [[5], [1, 3, 4], [0, 2]]
    assert federation.dealt == "assignment"
    assert shards(of(str(path))) == shards(federation)
    assert shards(of(OWNERS)) == shards(federation)


@pytest.mark.parametrize("lines", ["10\n9\n10\n9\n9\n2\n", "client\n10\n9\n10\n9\n9\n2"])
def test_numbers_are_in_their_order(tmp_path: Path, lines: str) -> None:
    (tmp_path / "a.csv").write_text(lines)
    federation = of(tmp_path / "a.csv")
    assert (federation.names, shards(federation)) == (("2", "9", "10"), [[5], [1, 3, 4], [0, 2]])


def test_a_file_names_all_training_samples_also_those_set_aside() -> None:
    federation = of(OWNERS, validation=0.4)
    assert federation.data.validation_size == 2
    owners = {tuple(row): owner for row, owner in zip(X.tolist(), OWNERS, strict=True)}
    for name, rows in zip(federation.names, federation.shards, strict=True):
        assert all(owners[tuple(federation.data.train_x[row].tolist())] == name for row in rows)


def test_from_an_experiment_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("\n".join(str(k % 3) for k in range(90)))
    federation = federate(DataSection(name="iris", partition="assignment", owners=str(tmp_path / "a.csv")), 0)
    assert federation.sizes.tolist() == [30, 30, 30]
    assert federation.names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", b"a\nb\n", "expected the client of each of 6 training samples, found 2"),
        ("a.csv", b"", "expected the client of each of 6 training samples, found 0"),
        ("a.csv", b"a,1\nb,2\n", "expected one client per line, found 2 columns in row 1"),
        ("a.csv", b"\xff\xfe\x00", "not readable as .npy"),
        ("a.npy", b"nonsense", "not readable as .npy"),
        ("a.npy", None, "there is no such file"),
    ],
)
def test_bad_files(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=said):
        of(tmp_path / name)


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([*OWNERS[:5], None], object), allow_pickle=True)
    with pytest.raises(DataError, match=r"not readable as \.npy"):
        of(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        (np.zeros((6, 2)), r"found an array of shape \(6, 2\)"),
        ([*OWNERS[:5], None], "sample 5 is missing"),
        ([0, 1, np.nan, 1, 1, 0], "sample 2 is missing"),
    ],
)
def test_bad_owners(owners: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        of(owners)


def test_bad_options() -> None:
    with pytest.raises(ConfigError, match="clients = 3 does not apply to partition 'assignment'"):
        of(OWNERS, clients=3)
    with pytest.raises(ConfigError, match="partition 'assignment' needs owners"):
        Federation.partition(X, Y, "assignment", test=(X, Y))
    with pytest.raises(ConfigError, match="unknown option of partition 'assignment' 'path'"):
        of(OWNERS, path="a.csv")
