"""The values in a column of an Arrow table, as texts and as numbers."""

from typing import Any, Literal

import numpy as np
import pyarrow
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

Kind = Literal["number", "category", "date", "other"]

MISSING = ("", "?", "na", "n/a", "nan", "null")
"""Texts that stand for a missing value, in small letters."""
NUMBER = r"^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$"
DATE = r"^\d{4}-\d\d-\d\d([ T]\d\d:\d\d.*)?$"


class NotANumberError(ValueError):
    """A text in a column of numbers; its only argument is the text."""


def kind_of(column_type: Any) -> Kind:
    """What a column of an Arrow type can be."""
    if types.is_integer(column_type) or types.is_floating(column_type) or types.is_decimal(column_type):
        return "number"
    if types.is_dictionary(column_type):
        return "category" if kind_of(column_type.value_type) in ("number", "category") else "other"
    if types.is_boolean(column_type) or types.is_null(column_type) or _is_text(column_type):
        return "category"
    return "date" if types.is_temporal(column_type) else "other"


def coded(values: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The texts in a column without blanks around them, and which of them each row has: -1 where a value is missing.

    >>> coded(pyarrow.array(["b ", "a", "?", None, "b"]))
    (['b', 'a', '?', 'b'], array([ 0,  1, -1, -1,  3]))
    """
    values = _without_view(values)
    if types.is_null(values.type):
        return [], np.full(len(values), -1)
    encoded = values if types.is_dictionary(values.type) else values.dictionary_encode()
    texts = _texts(encoded.dictionary)
    rows = np.asarray(pc.fill_null(encoded.indices.cast(pyarrow.int64()), -1)).copy()
    absent = [text is None or text.lower() in MISSING for text in texts]
    rows[np.array([*absent, True])[rows]] = -1
    return ["" if text is None else text for text in texts], rows


def numbers(values: Any) -> NDArray[np.float64]:
    """A column as numbers, NaN where one is missing; a text that is no number is a NotANumberError."""
    values = _without_view(values)
    if not (_is_text(values.type) or types.is_dictionary(values.type) or types.is_null(values.type)):
        return np.array(values.cast(pyarrow.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
    if _is_text(values.type):
        try:
            return np.array(values.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), np.float64)
        except pyarrow.ArrowInvalid:
            pass  # a mark for missing values, or a text
    texts, rows = coded(values)
    found = np.full(len(texts) + 1, np.nan)
    for number in np.unique(rows[rows >= 0]):
        try:
            found[number] = float(texts[number])
        except ValueError:
            raise NotANumberError(texts[number]) from None
    return found[rows]


def _without_view(values: Any) -> Any:
    """Texts as polars holds them (views), for which Arrow lacks functions, as ordinary ones."""
    return values.cast(pyarrow.large_string()) if types.is_string_view(values.type) else values


def _is_text(column_type: Any) -> bool:
    checks = (types.is_string, types.is_large_string, types.is_string_view)
    return any(check(column_type) for check in checks)


def _texts(values: Any) -> list[str | None]:
    """Different values as texts."""
    if _is_text(values.type):
        return list(pc.utf8_trim_whitespace(_without_view(values)).to_pylist())
    found = values.to_pylist()
    return [None if v is None else str(v).lower() if isinstance(v, bool) else number_text(v) for v in found]


def number_text(value: Any) -> str:
    """A number as a text; a whole number has no point.

    >>> number_text(3.0), number_text(0.5)
    ('3', '0.5')
    """
    return str(int(value)) if np.isfinite(float(value)) and value == int(value) else str(value)
