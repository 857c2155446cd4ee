"""Tables that are in memory already: of Arrow, pandas, polars, or lists by the names of columns."""

from collections.abc import Mapping
from typing import Any

import pyarrow

from entrofed.data.files.rows import BATCH, Rows, readable, rows_of
from entrofed.errors import DataError


def memory_rows(table: Any) -> Rows:
    """A table of pyarrow, or what can be had as one: neither pandas nor polars need be installed."""
    where = f"the table ({type(table).__name__})"
    with readable(where):
        arrow = _arrow(table, where)
        return rows_of(where, arrow.schema, lambda names: arrow.select(list(names)).to_batches(max_chunksize=BATCH))


def _arrow(table: Any, where: str) -> Any:
    if isinstance(table, pyarrow.Table):
        return table
    if isinstance(table, pyarrow.RecordBatch):
        return pyarrow.Table.from_batches([table])
    try:
        if hasattr(table, "__arrow_c_stream__"):
            return pyarrow.table(table)
        if hasattr(table, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return from_dataframe(table)
        if isinstance(table, Mapping):
            return pyarrow.table(dict(table))
    except (TypeError, pyarrow.ArrowException) as error:
        raise DataError(f"{where}: a column cannot be read: {error}. Give each column values of one type") from None
    raise DataError(
        f"{where}: expected the path of a file, a table of pyarrow, pandas or polars, or lists by the names of columns"
    )
