"""Columns as features: learned from training rows, applied by one function."""

import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.data.files.memory import memory_rows
from entrofed.data.tabular.choice import Choice
from entrofed.data.tabular.encode import encode, feature_names
from entrofed.data.tabular.table import table_dataset
from entrofed.errors import DataError

AGE = {"name": "age", "kind": "number", "fill": None}
WARD = {"name": "ward", "kind": "category", "categories": ["A", "B"], "fill": None}


def test_numbers_and_categories() -> None:
    x = encode([AGE, WARD], {"ward": ["B", "A", "C"], "age": [1, 2.5, 3], "other": [0, 0, 0]})
    np.testing.assert_array_equal(x, np.array([[1, 0, 1], [2.5, 1, 0], [3, 0, 0]], np.float32), strict=True)
    assert feature_names([AGE, WARD]) == ["age", "ward = A", "ward = B"]


def test_missing_values_are_filled_or_nan() -> None:
    rows = {"age": [None, 4], "ward": ["A", None]}
    x = encode([AGE, WARD], rows)
    np.testing.assert_array_equal(x, [[np.nan, 1, 0], [4, np.nan, np.nan]])
    x = encode([{**AGE, "fill": 7.0}, {**WARD, "fill": "B"}], rows)
    np.testing.assert_array_equal(x, [[7, 1, 0], [4, 0, 1]])


def test_rows_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="the patients: there is no column 'ward'"):
        encode([AGE, WARD], {"age": [1]}, "the patients")
    with pytest.raises(DataError, match="column 'age' holds numbers, and 'old' is none"):
        encode([AGE], {"age": ["old"]})
    with pytest.raises(DataError, match="column 'age' holds numbers"):
        encode([AGE], {"age": [[1], [2]]})


cells = st.one_of(st.none(), st.sampled_from(["a", "b", "c", "dd"]))
values = st.one_of(st.none(), st.floats(-1e6, 1e6, width=32))


@given(st.lists(st.tuples(values, cells, st.booleans()), min_size=12, max_size=40), st.data())
def test_what_is_stored_gives_the_training_features_again(
    rows: list[tuple[float | None, str | None, bool]], data: st.DataObject
) -> None:
    """The preprocessing, taken through JSON, makes of the raw rows what training had, bit for bit."""
    columns = {
        "number": [0.0, 1.0, *(row[0] for row in rows)],
        "text": ["a", "b", *(row[1] for row in rows)],
        "label": [i % 2 for i in range(len(rows) + 2)],
        "test": [False, False, True, True, *(row[2] for row in rows[2:])],
    }
    made = table_dataset(memory_rows(columns), Choice(label="label", test="test", missing="impute"), name="x")
    stored = json.loads(json.dumps(made.preprocessing))["columns"]
    again = encode(stored, pa.table({"number": columns["number"], "text": columns["text"]}))
    test = np.array(columns["test"])
    assert again[~test].tobytes() == made.train_x.tobytes()
    assert again[test].tobytes() == made.test_x.tobytes()
    assert np.isfinite(again).all()
