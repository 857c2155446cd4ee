"""A column of pictures or of arrays, as Hugging Face stores them in Arrow and Parquet."""

import io
from functools import partial
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import types

from entrofed.data.files.pictures import read_pictures
from entrofed.data.files.rows import Rows
from entrofed.errors import DataError


def holds_arrays(column_type: Any) -> bool:
    """Whether a column holds lists of numbers, or pictures."""
    if _is_list(column_type):
        inner = column_type.value_type
        return holds_arrays(inner) or types.is_integer(inner) or types.is_floating(inner)
    return holds_pictures(column_type)


def holds_pictures(column_type: Any) -> bool:
    """Whether a column holds the bytes of pictures, bare or in the struct that Hugging Face makes of them."""
    if types.is_struct(column_type):
        return "bytes" in {field.name for field in column_type} and holds_pictures(column_type.field("bytes").type)
    return any(check(column_type) for check in (types.is_binary, types.is_large_binary))


def read_arrays(rows: Rows, name: str, size: tuple[int, int] | None) -> NDArray[Any]:
    """A column as one array, its rows along the first axis; pictures are ``uint8 [n, channels, height, width]``."""
    where = f"{rows.where}: column {name!r}"
    if not holds_pictures(rows.types[name]):
        return np.concatenate([_stacked(batch.column(name), where) for batch in rows.batches([name])])
    stored = [_bytes(value) for batch in rows.batches([name]) for value in batch.column(name).to_pylist()]
    return read_pictures([(f"row {i + 1:,}", partial(io.BytesIO, raw)) for i, raw in enumerate(stored)], where, size)


def _bytes(value: Any) -> bytes:
    found = value.get("bytes") if isinstance(value, dict) else value
    return found or b""


def _stacked(values: Any, where: str) -> NDArray[Any]:
    """Nested lists as an array; all rows must have one shape.

    >>> import pyarrow
    >>> _stacked(pyarrow.array([[1, 2], [3, 4]]), "a column").tolist()
    [[1, 2], [3, 4]]
    """
    shape = [len(values)]
    while _is_list(values.type):
        lengths = pc.unique(pc.list_value_length(values)).to_pylist()
        if len(lengths) > 1 or lengths == [None]:
            found = " and ".join(str(length) for length in lengths[:2])
            raise DataError(f"{where}: lists must all have one length, found {found}; pad or cut them")
        shape.append(lengths[0] if lengths else 0)
        values = values.flatten()
    if values.null_count:
        raise DataError(f"{where}: {values.null_count:,} values are missing in its lists; fill them in")
    return np.asarray(values.to_numpy(zero_copy_only=False)).reshape(shape)


def _is_list(column_type: Any) -> bool:
    return any(check(column_type) for check in (types.is_list, types.is_large_list, types.is_fixed_size_list))
