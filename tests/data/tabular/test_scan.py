"""What one pass over a table finds."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrofed.data.files import rows as rows_module
from entrofed.data.files.csv import open_csv
from entrofed.data.files.memory import memory_rows
from entrofed.data.tabular.scan import CATEGORIES, Column, scan


def column(values: list[Any]) -> Column:
    return scan(memory_rows({"a": values}), ["a"]).columns["a"]


def csv_column(folder: Path, values: list[str]) -> Column:
    path = folder / "a.csv"
    path.write_text("a,b\n" + "".join(f"{value},1\n" for value in values))
    return scan(open_csv(path), ["a"]).columns["a"]


@pytest.mark.parametrize("batch", [2, 1000])
def test_numbers(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows_module, "BATCH", batch)
    found = column([3, None, -1, 7, 3])
    assert (found.kind, found.low, found.high, found.missing, found.first_missing) == ("number", -1, 7, 1, 1)
    assert (found.values, found.codes.tolist()) == (("3", "-1", "7"), [0, -1, 1, 2, 0])
    assert found.counts().tolist() == [2, 1, 1]
    assert found.counts(np.array([True, False, False, True, False])).tolist() == [1, 0, 1]
    assert found.problem is None


@pytest.mark.parametrize("batch", [2, 1000])
def test_csv_columns_are_numbers_if_all_their_values_are(
    batch: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "BATCH", batch)
    found = csv_column(tmp_path, ["1", " 2.5", "?", "NaN", "-3e1", ""])
    assert (found.kind, found.low, found.high, found.missing) == ("number", -30, 2.5, 3)
    rooms = csv_column(tmp_path, ["1", "2", "3+", "3+", "1", "x"])
    assert (rooms.kind, rooms.values, rooms.texts, rooms.first_text) == ("category", ("1", "2", "3+", "x"), 3, "3+")
    assert rooms.codes.tolist() == [0, 1, 2, 2, 0, 3]
    assert rooms.problem is None


def test_the_same_number_written_in_two_ways_is_one_value(tmp_path: Path) -> None:
    found = csv_column(tmp_path, ["1.0", "0", "1", "?", "01", "0.0"])
    assert (found.values, found.codes.tolist()) == (("1", "0"), [0, 1, 0, -1, 0, 1])
    assert csv_column(tmp_path, ["1", "1.0"]).problem == "holds nothing but '1'"


def test_a_text_far_down_a_column_of_numbers_is_found(tmp_path: Path) -> None:
    found = csv_column(tmp_path, [*map(str, range(200_000)), "old"])
    assert found.problem == "mixes numbers and texts (200,000 and 1 rows, such as 'old'); correct them"


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        (["a", "b"] * 5, None),
        ([True, False], None),
        ([0.5, 0.25], None),
        ([f"p{i}" for i in range(CATEGORIES)] * 2, None),
        ([f"p{i}" for i in range(CATEGORIES + 1)] * 2, "more than 1,000 different texts"),
        ([f"p{i}" for i in range(20)], None),
        ([f"p{i}" for i in range(21)], "21 different texts in 21 rows; does it name things?"),
        (["2024-01-01", "2024-01-02 10:00"], "holds dates"),
        (["2024-01-01", "never"], None),
        ([1, 1, None], "holds nothing but '1'"),
        ([None, None], "is empty"),
        ([1.0, float("inf")], "not finite"),
        ([1.0, 1e39], "not finite"),
        ([[1], [2]], "type list<item: int64>, neither numbers nor categories"),
        ([*["1"] * 9, "old"], "mixes numbers and texts"),
        ([*["1"] * 8, "old", "new"], None),
    ],
)
def test_what_can_be_no_feature(values: list[Any], problem: str | None) -> None:
    found = column(values).problem
    assert found is None if problem is None else problem in str(found)


def test_the_column_of_clients_may_have_any_number_of_values() -> None:
    names = [f"p{i}" for i in range(3000)]
    found = scan(memory_rows({"who": names, "id": names}), ["who", "id"], unlimited="who")
    assert found.columns["who"].values == tuple(names)
    assert found.columns["who"].codes.tolist() == list(range(3000))
    assert (found.columns["id"].many, found.columns["id"].values) == (True, ())


def test_incomplete_rows() -> None:
    found = scan(memory_rows({"a": [1, None, 3], "b": ["?", "x", "y"]}), ["a", "b"])
    assert found.incomplete.tolist() == [True, True, False]
    assert found.rows == 3
