"""Tables as datasets, on cases worked out by hand."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from entrofed.data.files import rows as rows_module
from entrofed.data.files.memory import memory_rows
from entrofed.data.own import stratified_rows
from entrofed.data.tabular import table as table_module
from entrofed.data.tabular.choice import Choice
from entrofed.data.tabular.table import table_dataset
from entrofed.errors import ConfigError, DataError

VISITS: dict[str, list[Any]] = {
    "age": [30, 50, None, 70, 20, 90],
    "ward": ["A", "B", "A", None, "A", "C"],
    "ill": ["yes", "no", "no", "yes", "no", "yes"],
    "clinic": ["Zug", "Basel", "Zug", "Basel", "Zug", "Bern"],
    "part": ["train", "train", "train", "train", "test", "test"],
}


def test_by_hand() -> None:
    choice = Choice(label="ill", client="clinic", test="part", missing="impute")
    data = table_dataset(memory_rows(VISITS), choice, name="visits")
    # the median of 30, 50, 70 is 50; A is in two training rows, B in one; C is in the test part only
    expected = np.array([[30, 1, 0], [50, 0, 1], [50, 1, 0], [70, 1, 0]], np.float32)
    np.testing.assert_array_equal(data.train_x, expected, strict=True)
    np.testing.assert_array_equal(data.test_x, np.array([[20, 1, 0], [90, 0, 0]], np.float32), strict=True)
    assert data.classes == ("no", "yes")
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([1, 0, 0, 1], [0, 1])
    assert data.role_names == ("Basel", "Zug"), "Bern has no training rows"
    assert data.roles is not None
    assert data.roles.tolist() == [1, 0, 1, 0]
    assert data.preprocessing == {
        "columns": [
            {"name": "age", "kind": "number", "fill": 50.0},
            {"name": "ward", "kind": "category", "categories": ["A", "B"], "fill": "A"},
        ],
        "label": "ill",
    }


def test_rows_with_missing_values_can_be_left_out() -> None:
    data = table_dataset(memory_rows(VISITS), Choice("ill", "clinic", "part", missing="drop_rows"), name="visits")
    np.testing.assert_array_equal(data.train_x, [[30, 1, 0], [50, 0, 1]])
    assert data.train_y.tolist() == [1, 0]


@pytest.mark.parametrize("batch", [1, 2, 5, 1000])
def test_batches_do_not_matter(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    choice = Choice("ill", "clinic", "part", missing="impute")
    whole = table_dataset(memory_rows(VISITS), choice, name="visits")
    monkeypatch.setattr(rows_module, "BATCH", batch)
    cut = table_dataset(memory_rows(VISITS), choice, name="visits")
    for name in ("train_x", "train_y", "test_x", "test_y", "roles"):
        np.testing.assert_array_equal(getattr(cut, name), getattr(whole, name), strict=True)
    assert cut.preprocessing == whole.preprocessing


def test_a_share_is_drawn_as_from_arrays() -> None:
    rows = 50
    columns = {"a": list(range(rows)), "b": [i % 7 for i in range(rows)], "y": [i % 3 for i in range(rows)]}
    data = table_dataset(memory_rows(columns), Choice(label="y", test=0.3), name="x")
    for_test = stratified_rows(np.arange(rows) % 3, 0.3)
    assert data.test_x[:, 0].astype(int).tolist() == for_test.tolist()
    assert data.train_x[:, 0].astype(int).tolist() == np.setdiff1d(np.arange(rows), for_test).tolist()
    default = table_dataset(memory_rows(columns), Choice(label="y"), name="x")
    assert len(default.test_y) == 10


def test_a_test_table_of_its_own() -> None:
    train = {
        "b": ["u", "v", "u", "v"],
        "a": [1, 2, 3, 4],
        "y": ["no", "yes", "no", "yes"],
        "site": ["x", "x", "y", "y"],
    }
    test = {"y": ["yes", "no"], "a": [None, 9], "b": ["w", "v"]}
    choice = Choice(label="y", client="site", missing="impute")
    data = table_dataset(memory_rows(train), choice, name="x", test=memory_rows(test))
    np.testing.assert_array_equal(data.train_x, [[1, 0, 1], [0, 1, 2], [1, 0, 3], [0, 1, 4]])
    np.testing.assert_array_equal(data.test_x, [[0, 0, 2.5], [0, 1, 9]])
    assert data.test_y.tolist() == [1, 0]
    refused = replace(choice, missing="refuse")
    with pytest.raises(DataError, match="column 'a' has no value in 1 of 2 rows"):
        table_dataset(memory_rows(train), refused, name="x", test=memory_rows(test))
    with pytest.raises(ConfigError, match="unknown column 'b'"):
        table_dataset(memory_rows(train), choice, name="x", test=memory_rows({"a": [1], "y": ["no"]}))
    with pytest.raises(DataError, match="'y' is 'maybe' in some rows, which is none of the classes no, yes"):
        table_dataset(memory_rows(train), choice, name="x", test=memory_rows({**test, "y": ["maybe", "no"]}))
    with pytest.raises(DataError, match="column 'a' holds numbers, and 'old' is none"):
        table_dataset(memory_rows(train), choice, name="x", test=memory_rows({**test, "a": ["old", "9"]}))


@pytest.mark.parametrize(
    ("labels", "classes", "y"),
    [
        ([10, 2, 10, 2], ("2", "10"), [1, 0, 1, 0]),
        ([1.0, 0.0, 1.0, 0.0], ("0", "1"), [1, 0, 1, 0]),
        ([True, False, True, False], ("false", "true"), [1, 0, 1, 0]),
        (["b", "a ", " b", "a"], ("a", "b"), [1, 0, 1, 0]),
    ],
)
def test_classes_are_sorted_and_named(labels: list[Any], classes: tuple[str, ...], y: list[int]) -> None:
    columns = {"a": [1, 2, 3, 4, 5, 6], "y": [*labels, *labels[:2]], "t": [0, 0, 0, 0, 1, 1]}
    data = table_dataset(memory_rows(columns), Choice(label="y", test="t"), name="x")
    assert (data.classes, data.train_y.tolist()) == (classes, y)


def test_clients_that_are_numbers_are_sorted_as_numbers() -> None:
    columns = {"a": range(8), "y": [0, 1] * 4, "t": [0, 0, 0, 0, 0, 0, 1, 1], "who": [10, 9, 10, 9, 100, 9, 10, 9]}
    data = table_dataset(memory_rows(pa.table(columns)), Choice("y", "who", "t"), name="x")
    assert data.role_names == ("9", "10", "100")


def test_features_are_chosen_by_name_and_in_that_order() -> None:
    choice = Choice("ill", test="part", features=("ward", "age"), missing="impute")
    data = table_dataset(memory_rows(VISITS), choice, name="visits")
    assert [column["name"] for column in data.preprocessing["columns"]] == ["ward", "age"]
    dropped = table_dataset(memory_rows(VISITS), Choice("ill", test="part", drop=("age",), missing="impute"), name="x")
    assert [column["name"] for column in dropped.preprocessing["columns"]] == ["ward", "clinic"]


def test_a_table_that_would_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_module, "SIZE_LIMIT", 50)
    with pytest.raises(DataError, match=r"6 rows of 3 features take .* leave out columns with many categories, 'ward'"):
        table_dataset(memory_rows(VISITS), Choice("ill", "clinic", "part", missing="impute"), name="visits")


def test_rows_that_change_between_the_two_passes() -> None:
    first = memory_rows(VISITS)
    reads = iter([first.read, memory_rows({name: values[:-1] for name, values in VISITS.items()}).read])
    rows = replace(first, read=lambda names: next(reads)(names))
    with pytest.raises(DataError, match="has changed while it was read"):
        table_dataset(rows, Choice("ill", "clinic", "part", missing="impute"), name="visits")


def test_a_column_that_training_rows_do_not_have() -> None:
    columns = {**VISITS, "age": [None, None, None, None, 20, 90]}
    with pytest.raises(DataError, match="'age' has no value in the training part; leave it out"):
        table_dataset(memory_rows(columns), Choice("ill", "clinic", "part", missing="impute"), name="visits")
