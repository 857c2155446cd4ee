"""How the columns of a table become features: learned once, kept as plain data, applied by one function.

A column is described by a table that JSON can hold::

    {"name": "age", "kind": "number", "fill": 54.0}
    {"name": "sex", "kind": "category", "categories": ["f", "m"], "fill": "m"}

A number is a feature; a category is one feature for each of the categories in the training data, 1 where the row has
it, and 0 in all of them where the row has a category that training data never had. ``fill`` stands in for a missing
value; without it (None), a missing value becomes NaN.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow
from numpy.typing import NDArray

from entrofed.data.tabular.cells import NotANumberError, coded, numbers
from entrofed.data.tabular.scan import Column
from entrofed.errors import DataError

Described = Mapping[str, Any]


def describe(column: Column, rows: NDArray[np.bool_], *, impute: bool) -> dict[str, Any]:
    """A column as the training rows have it; the fill of a number is learned later, from all its values."""
    if column.kind == "number":
        return {"name": column.name, "kind": "number", "fill": None}
    counts = column.counts(rows)
    found = sorted((column.values[i], int(counts[i])) for i in np.flatnonzero(counts))
    most = max(found, key=lambda pair: pair[1], default=None)
    return {
        "name": column.name,
        "kind": "category",
        "categories": [text for text, _ in found],
        "fill": most[0] if impute and most else None,
    }


def feature_names(columns: Sequence[Described]) -> list[str]:
    """What each feature is called.

    >>> sex = {"name": "sex", "kind": "category", "categories": ["f", "m"]}
    >>> feature_names([{"name": "age", "kind": "number"}, sex])
    ['age', 'sex = f', 'sex = m']
    """
    return [
        name
        for column in columns
        for name in (
            [column["name"]]
            if column["kind"] == "number"
            else [f"{column['name']} = {category}" for category in column["categories"]]
        )
    ]


def encode(columns: Sequence[Described], rows: Any, where: str = "the rows") -> NDArray[np.float32]:
    """Rows as features, [rows, features].

    Args:
        columns: the columns, described as above.
        rows: a record batch or table of Arrow, or lists by the names of columns; other columns do not matter.
        where: what the rows are called in messages.

    >>> sex = {"name": "sex", "kind": "category", "categories": ["f", "m"], "fill": "m"}
    >>> encode([{"name": "age", "kind": "number", "fill": 54.0}, sex], {"age": [31, None], "sex": ["f", None]})
    array([[31.,  1.,  0.],
           [54.,  0.,  1.]], dtype=float32)
    """
    table = pyarrow.table(dict(rows)) if isinstance(rows, Mapping) else rows
    out = np.zeros((table.num_rows, len(feature_names(columns))), np.float32)
    at = 0
    for column in columns:
        if column["name"] not in table.schema.names:
            raise DataError(f"{where}: there is no column {column['name']!r}")
        values = table.column(column["name"])
        if isinstance(values, pyarrow.ChunkedArray):
            values = values.combine_chunks()
        if column["kind"] == "number":
            out[:, at] = _numbers(column, values, where)
            at += 1
        else:
            end = at + len(column["categories"])
            _set_categories(out[:, at:end], column, values)
            at = end
    return out


def _numbers(column: Described, values: Any, where: str) -> NDArray[np.float64]:
    try:
        found = numbers(values)
    except NotANumberError as text:
        raise DataError(f"{where}: column {column['name']!r} holds numbers, and {str(text)!r} is none") from None
    except pyarrow.ArrowException as error:
        raise DataError(f"{where}: column {column['name']!r} holds numbers: {error}") from None
    if column["fill"] is not None:
        found[np.isnan(found)] = column["fill"]
    return found


def _set_categories(out: NDArray[np.float32], column: Described, values: Any) -> None:
    categories = {text: place for place, text in enumerate(column["categories"])}
    texts, rows = coded(values)
    unseen = len(categories)
    place = np.array([*(categories.get(text, unseen) for text in texts), -1])[rows]
    if column["fill"] is None:
        out[place < 0] = np.nan
    else:
        place[place < 0] = categories[column["fill"]]
    seen = np.flatnonzero((place >= 0) & (place < unseen))
    out[seen, place[seen]] = 1
