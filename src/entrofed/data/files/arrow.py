"""Tables in Arrow's own format: files (.arrow, .feather of version 2) and streams, which Hugging Face saves."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.ipc

from entrofed.data.files.rows import Rows, readable, rows_of
from entrofed.errors import DataError

MAGIC = b"ARROW1"


def open_arrow(*paths: Path, where: str = "", **more: Any) -> Rows:
    """One or more files of the same columns; they are mapped, not loaded, and nothing but schemas is read yet."""
    where = where or str(paths[0])
    with readable(where):
        schemas = [_open(path).schema for path in paths]
    for path, schema in zip(paths, schemas, strict=True):
        if not schema.equals(schemas[0]):
            raise DataError(f"{path}: its columns are not those of {paths[0].name}; all files of a table have the same")

    def read(names: Sequence[str]) -> Iterator[Any]:
        for path in paths:
            for batch in _batches(_open(path)):
                yield batch.select(list(names))

    return rows_of(where, schemas[0], read, **more)


def _open(path: Path) -> Any:
    source = pyarrow.memory_map(str(path))
    with path.open("rb") as file:
        is_file = file.read(len(MAGIC)) == MAGIC
    return pyarrow.ipc.open_file(source) if is_file else pyarrow.ipc.open_stream(source)


def _batches(reader: Any) -> Iterator[Any]:
    if hasattr(reader, "num_record_batches"):
        yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
    else:
        yield from reader
