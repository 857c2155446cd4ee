"""Rows of a table in batches, wherever they lie: what every reader of tables gives."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow

from entrofed.errors import DataError

BATCH = 1 << 15
"""Rows that are in memory at a time, at most."""
_INDEX = re.compile(r"|Unnamed: \d+|__index_level_\d+__")
"""What pandas calls the numbers of rows when it saves them as a column, or reads and saves them again."""


@dataclass(frozen=True)
class Rows:
    """A table that can be read more than once, a batch of rows at a time."""

    where: str
    """The file, for messages."""
    types: dict[str, Any]
    """The Arrow type of each column."""
    read: Callable[[Sequence[str]], Iterator[Any]]
    """The record batches of some columns."""
    untyped: bool = False
    """All columns are texts; those that hold nothing but numbers are columns of numbers."""
    class_names: dict[str, tuple[str, ...]] | None = None
    """Names of the classes 0, 1, ... in a column of labels, where the file says them."""

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """The rows of some columns, in order, in record batches of at most ``BATCH`` rows."""
        with readable(self.where):
            for batch in self.read(columns):
                batch.validate(full=True)
                batch = _plain(batch)
                for start in range(0, batch.num_rows, BATCH):
                    yield batch.slice(start, BATCH)


def rows_of(where: str, schema: Any, read: Callable[[Sequence[str]], Iterator[Any]], **more: Any) -> Rows:
    """Rows with the columns of a schema, without the row numbers that pandas saves."""
    with readable(where):
        names = schema.names
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise DataError(f"{where}: every column needs a name of its own; {', '.join(map(repr, twice))} comes twice")
    types = {field.name: _storage(field.type) for field in schema if not _INDEX.fullmatch(field.name)}
    return Rows(where, types, read, **more)


def _storage(column_type: Any) -> Any:
    return column_type.storage_type if isinstance(column_type, pyarrow.BaseExtensionType) else column_type


def _plain(batch: Any) -> Any:
    """Columns of types that another package brings as what they are made of."""
    if not any(isinstance(field.type, pyarrow.BaseExtensionType) for field in batch.schema):
        return batch
    columns = [column.storage if isinstance(column, pyarrow.ExtensionArray) else column for column in batch.columns]
    return pyarrow.RecordBatch.from_arrays(columns, names=batch.schema.names)


@contextmanager
def readable(where: str) -> Iterator[None]:
    """Whatever is wrong with a file becomes a DataError."""
    try:
        yield
    except pyarrow.ArrowMemoryError as error:
        raise DataError(
            f"{where}: asks for more memory than there is; is the file damaged? ({_short(error)})"
        ) from None
    except (pyarrow.ArrowException, OSError, EOFError, ValueError) as error:
        raise DataError(f"{where}: not readable: {_short(error)}") from None


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 200 else f"{text[:200]} ..."
