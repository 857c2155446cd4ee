"""Tables as Parquet files."""

from pathlib import Path

import pyarrow.parquet

from entrofed.data.files.rows import BATCH, Rows, readable, rows_of


def open_parquet(path: Path) -> Rows:
    """A Parquet file; nothing but its schema is read yet."""
    with readable(str(path)):
        file = pyarrow.parquet.ParquetFile(path)
        return rows_of(str(path), file.schema_arrow, lambda names: file.iter_batches(BATCH, columns=list(names)))
