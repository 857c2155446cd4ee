"""Tables: the paper's splits, and refusal of files that are not the published ones."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrofed.data import tables
from entrofed.data.catalog import SHIPPED
from entrofed.data.tables import TABLES, digits, load_table
from entrofed.errors import DataError

NOT_SHIPPED = [name for name, table in TABLES.items() if not (SHIPPED / table.path).exists()]


@pytest.mark.parametrize(
    ("name", "train", "valid", "test"),
    [
        ("iris", [27, 31, 32], [12, 6, 12], [11, 13, 6]),
        ("wheat-seeds", [42, 41, 43], [13, 17, 12], [15, 12, 15]),
        ("heart-cleveland", [100, 78], [27, 32], [33, 27]),
    ],
)
def test_shipped_tables(name: str, train: list[int], valid: list[int], test: list[int]) -> None:
    data = load_table(name, SHIPPED)
    assert data.valid_x is not None
    assert data.valid_y is not None
    assert np.bincount(data.train_y).tolist() == train
    assert np.bincount(data.valid_y).tolist() == valid
    assert np.bincount(data.test_y).tolist() == test
    for x in (data.train_x, data.valid_x, data.test_x):
        assert x.dtype == np.float32
        assert x.shape[1] == TABLES[name].features
        assert np.isfinite(x).all()


def test_iris_agrees_with_scikit_learn() -> None:
    from sklearn.datasets import load_iris
    from sklearn.model_selection import train_test_split

    x, y = load_iris(return_X_y=True)
    train_x, rest_x, train_y, rest_y = train_test_split(x, y, test_size=0.4, random_state=42)
    valid_x, test_x, _, test_y = train_test_split(rest_x, rest_y, test_size=0.5, random_state=42)
    data = load_table("iris", SHIPPED)
    assert data.valid_x is not None
    for found, expected in ((data.train_x, train_x), (data.valid_x, valid_x), (data.test_x, test_x)):
        np.testing.assert_array_equal(found, expected.astype(np.float32), strict=True)
    np.testing.assert_array_equal(data.train_y, train_y)
    np.testing.assert_array_equal(data.test_y, test_y)


def test_first_wheat_row_is_where_the_split_puts_it() -> None:
    data = load_table("wheat-seeds", SHIPPED)
    parts = np.concatenate([data.train_x, data.valid_x, data.test_x])
    first = np.array([15.26, 14.84, 0.871, 5.763, 3.312, 2.221, 5.22], np.float32)
    assert (parts == first).all(1).sum() == 1


def rows_of(name: str) -> list[str]:
    return (SHIPPED / TABLES[name].path).read_text().splitlines()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda rows: rows[:-1], "150 usable rows; found 149"),
        (lambda rows: [*rows, rows[-1]], "150 usable rows; found 151"),
        (lambda rows: rows[:1], "150 usable rows; found 0"),
        (lambda rows: [rows[0], *reversed(rows[1:])], "are the rows in their original order"),
        (lambda rows: [*rows[:-1], "1,2,3,4,7"], "one of 0, 1, 2; found 7"),
        (lambda rows: [*rows[:-1], "?,2,3,4,1"], "150 usable rows; found 149"),
    ],
)
def test_a_file_that_differs(tmp_path: Path, change: object, found: str) -> None:
    assert callable(change)
    (tmp_path / "iris.csv").write_text("\n".join(change(rows_of("iris"))))
    with pytest.raises(DataError, match=found):
        load_table("iris", tmp_path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(sorted(TABLES)), st.binary(max_size=100))
def test_random_bytes(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / TABLES[name].path
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(DataError):
        load_table(name, tmp_path)


def test_only_the_first_of_equal_rows_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = replace(TABLES["heart-unique"], path="x.csv", features=1, rows=5, test_counts=(1, 0), header=False)
    monkeypatch.setitem(tables.TABLES, "heart-unique", table)
    (tmp_path / "x.csv").write_text("3,0\n1,0\n3,0\n2,0\n3,1\n0,0\n1,0\n")
    data = load_table("heart-unique", tmp_path)
    assert data.valid_x is not None
    kept = np.array([3, 1, 2, 3, 0], np.float32)
    train, valid, test = tables._split(5)
    np.testing.assert_array_equal(data.train_x[:, 0], kept[train])
    np.testing.assert_array_equal(data.valid_x[:, 0], kept[valid])
    np.testing.assert_array_equal(data.test_x[:, 0], kept[test])


@pytest.mark.parametrize("name", NOT_SHIPPED)
def test_tables_that_are_not_shipped(name: str) -> None:
    place = os.environ.get("ENTROFED_TEST_DATA")
    if place is None or not (Path(place) / TABLES[name].path).exists():
        pytest.skip(f"set ENTROFED_TEST_DATA to a data directory with {TABLES[name].path}")
    data = load_table(name, Path(place))
    assert tuple(np.bincount(data.test_y)) == TABLES[name].test_counts


def test_digits() -> None:
    data = digits()
    assert data.train_x.shape == (1437, 1, 8, 8)
    assert data.test_x.shape == (360, 1, 8, 8)
    assert data.train_x.dtype == np.uint8
    assert (data.train_x.max(), data.full_scale) == (16, 16.0)
    share = np.bincount(data.test_y) / np.bincount(np.concatenate([data.train_y, data.test_y]))
    assert np.abs(share - 0.2).max() < 0.01
