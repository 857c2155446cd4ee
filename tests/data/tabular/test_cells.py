"""Values of columns as texts and numbers."""

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from entrofed.data.tabular.cells import NotANumberError, coded, kind_of, numbers


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, 2]), "number"),
        (pa.array([1.5], pa.float16()), "number"),
        (pa.array([1], pa.decimal128(5, 2)), "number"),
        (pa.array(["a"]), "category"),
        (pa.array(["a"], pa.large_string()), "category"),
        (pa.array(["a"], pa.string_view()), "category"),
        (pa.array([True]), "category"),
        (pa.array([None]), "category"),
        (pa.array(["a"]).dictionary_encode(), "category"),
        (pa.array([3]).dictionary_encode(), "category"),
        (pa.array([datetime.date(2024, 1, 1)]), "date"),
        (pa.array([datetime.timedelta(1)]), "date"),
        (pa.array([[1]]), "other"),
        (pa.array([b"a"]), "other"),
        (pa.array([{"a": 1}]), "other"),
    ],
)
def test_what_a_type_can_be(values: Any, kind: str) -> None:
    assert kind_of(values.type) == kind


def texts(values: Any) -> list[str | None]:
    found, rows = coded(values)
    return [None if row < 0 else found[row] for row in rows]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([" b", "a", "b ", None]), ["b", "a", "b", None]),
        (pa.array(["", "?", "NA", "n/a", "NaN", "null", "NULL", "none", "-"]), [None] * 7 + ["none", "-"]),
        (pa.array([True, None, False]), ["true", None, "false"]),
        (pa.array([3, 3, None, -1]), ["3", "3", None, "-1"]),
        (pa.array([3.0, 0.5, float("nan"), float("inf")]), ["3", "0.5", None, "inf"]),
        (pa.array(["x", None, "y"]).dictionary_encode(), ["x", None, "y"]),
        (pa.array([" x", None, "y"], pa.string_view()), ["x", None, "y"]),
        (pa.DictionaryArray.from_arrays([1, 0], pa.array(["x", "y"], pa.string_view())), ["y", "x"]),
        (pa.array([" x", None, "y"], pa.large_string()), ["x", None, "y"]),
        (pa.array([None, None]), [None, None]),
        (pa.array([], pa.string()), []),
    ],
)
def test_texts(values: Any, expected: list[str | None]) -> None:
    assert texts(values) == expected


def test_a_slice_is_read_from_its_start() -> None:
    values = pa.array(["a", "b", "c", None, "b"]).dictionary_encode()
    assert texts(values[2:]) == ["c", None, "b"]
    np.testing.assert_array_equal(numbers(pa.array([1, 2, None, 4])[1:]), [2, np.nan, 4])


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (pa.array([1, None, 3]), [1, np.nan, 3]),
        (pa.array([1.5, float("nan")]), [1.5, np.nan]),
        (pa.array(["1", " 2.5 ", "-3e2", None]), [1, 2.5, -300, np.nan]),
        (pa.array(["1", "?", "NA", ""]), [1, np.nan, np.nan, np.nan]),
        (pa.array(["1", None, "?"], pa.string_view()), [1, np.nan, np.nan]),
        (pa.array([True, False]), [1, 0]),
        (pa.array([None]), [np.nan]),
        (pa.array([2**60]), [2.0**60]),
        (pa.array(["7", "8", "7"]).dictionary_encode(), [7, 8, 7]),
    ],
)
def test_numbers(values: Any, expected: list[float]) -> None:
    np.testing.assert_array_equal(numbers(values), expected)


def test_a_text_is_no_number() -> None:
    with pytest.raises(NotANumberError, match="abc"):
        numbers(pa.array(["1", "abc"]))
