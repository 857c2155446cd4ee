"""The columns that are no features: which class a row has, who owns it, whether it is for testing."""

import numpy as np
from numpy.typing import NDArray

from entrofed.data.objects import SCOPE
from entrofed.data.tabular.scan import CATEGORIES, Column
from entrofed.errors import DataError

_TEST = {"test": True, "true": True, "1": True, "train": False, "false": False, "0": False}


def class_names(where: str, column: Column, known: tuple[str, ...] | None = None) -> tuple[str, ...]:
    """The classes in a column of labels, in sorted order; ``known``: what the file calls the classes 0, 1, ..."""
    label = f"{where}: the label {column.name!r}"
    if column.missing == column.rows:
        raise DataError(f"{label} is empty")
    if column.kind in ("date", "other"):
        raise DataError(f"{label} {column.problem}; {SCOPE}")
    broken = next((text for text in column.values if not _whole(text)), "") if column.kind == "number" else ""
    if column.many or broken:
        such = f" such as {broken}" if broken else ""
        more = f"more than {CATEGORIES:,} different values" if column.many else "numbers that are not whole"
        raise DataError(f"{label} has {more}{such}; {SCOPE}. Regression is out of scope: cut numbers into classes")
    if len(column.values) == 1 and known is None:
        raise DataError(f"{label} is {column.values[0]!r} in all {column.rows:,} rows; {SCOPE}")
    if known is not None:
        return known
    return column.sorted()[0]


def class_numbers(where: str, column: Column, names: tuple[str, ...], *, numbered: bool = False) -> NDArray[np.int64]:
    """The class of each row, -1 where the label is missing. ``numbered``: labels are numbers of classes, not names."""
    place = {str(i) if numbered else name: i for i, name in enumerate(names)}
    strange = [text for text in column.values if text not in place]
    if strange:
        raise DataError(
            f"{where}: the label {column.name!r} is {strange[0]!r} in some rows, which is none of the classes "
            f"{', '.join(names[:20])}{', ...' if len(names) > 20 else ''}; leave out these rows, or train on some"
        )
    numbers: NDArray[np.int64] = np.array([*(place[text] for text in column.values), -1], np.int64)[column.codes]
    return numbers


def test_rows(where: str, column: Column) -> NDArray[np.bool_]:
    """The rows that are for testing: true, 1 or "test"; all others are false, 0 or "train"."""
    strange = [text for text in column.values if text.lower() not in _TEST]
    if column.missing or strange or column.many:
        found = (
            f"{strange[0]!r}" if strange else "more values" if column.many else f"nothing in {column.missing:,} rows"
        )
        raise DataError(
            f"{where}: column {column.name!r} (test) holds true and false, 1 and 0, or test and train; found {found}"
        )
    is_test: NDArray[np.bool_] = np.array([_TEST[text.lower()] for text in column.values])[column.codes]
    return is_test


def _whole(text: str) -> bool:
    return float(text).is_integer()
