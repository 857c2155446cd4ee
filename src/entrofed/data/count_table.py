"""Label counts that somebody has in a file: one row per client, one column per class.

``.csv`` (also with semicolons), ``.tsv``, ``.parquet``, or ``.json``: a list of rows, or an object of rows by client; a
row is a list of counts, or an object of counts by class, where a class that is not named counts 0.
"""

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
from numpy.typing import ArrayLike

from entrofed.core.types import MAX_COUNT
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, DataError, unknown
from entrofed.info.entropy import Floats

FORMATS = (".csv", ".tsv", ".parquet", ".json")
NAMES = ("", "client", "clients", "client_id", "id", "name", "node", "site")
"""Headers of a first column that names the clients, also if it holds numbers."""
TOTALS = ("all", "sum", "total", "totals")
"""What pivot tables call the sums that they add."""
LONGEST_LINE = 2**20


@dataclass(frozen=True, eq=False)
class CountTable:
    """Who holds how many samples of which class."""

    counts: Floats
    """``[client, class]``; a client may hold nothing, every class is held by somebody."""
    classes: tuple[str, ...]
    names: tuple[str, ...]
    """Of the clients."""
    unheld: tuple[str, ...] = ()
    """Classes that were named and that nobody holds; they are left out."""

    @property
    def whole(self) -> bool:
        """Whether all are whole numbers; if not, they are noised counts."""
        return bool((self.counts == np.floor(self.counts)).all())

    @classmethod
    def of(
        cls,
        counts: ArrayLike,
        classes: Sequence[Any] | None = None,
        names: Sequence[Any] | None = None,
        *,
        where: str = "counts",
    ) -> "CountTable":
        """Checked counts; without names, classes and clients are numbered from 0. ``where``: what errors speak of.

        >>> table = CountTable.of([[3, 0, 1], [0, 0, 2]], ["cat", "dog", "owl"])
        >>> table.classes, table.unheld, table.counts.tolist()
        (('cat', 'owl'), ('dog',), [[3.0, 1.0], [0.0, 2.0]])
        """
        try:
            found = np.asarray(counts)
        except ValueError:
            raise DataError(f"{where}: the rows differ in length; every client needs a count for every class") from None
        if found.ndim != 2 or found.dtype.kind not in "iuf":
            raise DataError(
                f"{where}: numbers with one row per client and one column per class are expected, "
                f"found {found.dtype} of shape {found.shape}"
            )
        clients, width = found.shape
        called = _called(classes, width, f"{where}: classes")
        who = _called(names, clients, f"{where}: clients")
        found = found.astype(np.float64)
        wrong = np.argwhere(~((found >= 0) & (found <= MAX_COUNT)))
        if len(wrong):
            row, column = wrong[0]
            raise DataError(
                f"{where}: client {who[row]!r} (row {row + 1}) has {found[row, column]:g} of class {called[column]!r}; "
                f"a count is a number from 0 to {MAX_COUNT}"
            )
        for what, words, lines in (("class", called, found.T), ("client", who, found)):
            if len(lines) > 2 and words[-1].lower() in TOTALS and np.allclose(lines[:-1].sum(axis=0), lines[-1]):
                raise DataError(
                    f"{where}: {what} {words[-1]!r} is the sum of the others; leave it out, it would count twice"
                )
        held = found.any(axis=0)
        if held.sum() < 2:
            raise DataError(
                f"{where}: {clients} clients hold samples of {held.sum()} classes; at least 1 client and 2 classes "
                "are needed"
            )
        kept, unheld = (tuple(np.array(called)[which].tolist()) for which in (held, ~held))
        return cls(found[:, held] if unheld else found, kept, who, unheld)


def counts_of(federation: Federation) -> CountTable:
    """The label counts of the clients that take part."""
    taking_part = federation.participants.tolist()
    names = [federation.names[client] for client in taking_part] if federation.names else taking_part
    return CountTable.of(federation.label_counts[taking_part], federation.data.classes, names, where="the federation")


def read_counts(path: Path, client: str | None = None) -> CountTable:
    """Label counts from a file.

    ``client`` is the column that names the clients. Where it is not said, the first column does if it holds text or has
    a header such as ``client`` or none; otherwise all columns are classes, and clients are numbered from 0.
    """
    if path.suffix.lower() not in FORMATS:
        raise ConfigError(f"{path}: label counts are read from {', '.join(FORMATS)} files")
    try:
        if path.suffix.lower() == ".json":
            content = json.loads(path.read_text(encoding="utf-8"))
            return _of_json(content, path, client)
        if path.suffix.lower() == ".parquet":
            return _of_table(pyarrow.parquet.read_table(path), path, client)
        return _of_table(_read_csv(path), path, client)
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file") from None
    except (OSError, ValueError) as error:  # pyarrow's errors are ValueErrors
        raise DataError(f"{path}: not readable as {path.suffix[1:]}: {str(error)[:300]}") from None


def _called(given: Sequence[Any] | None, number: int, what: str) -> tuple[str, ...]:
    """Names, one each and all different; numbers from 0 if none are given."""
    if given is None:
        return tuple(map(str, range(number)))
    found = tuple(str(name) for name in given)
    if len(found) != number:
        raise DataError(f"{what}: {len(found)} names for {number}")
    if len(set(found)) < number:
        twice, _ = Counter(found).most_common(1)[0]
        raise DataError(f"{what}: {twice!r} is there twice; each has one line, with a name of its own")
    return found


def _read_csv(path: Path) -> Any:
    """All columns as text; the first line must name them."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        line = file.readline(LONGEST_LINE)
    if len(line) == LONGEST_LINE:
        raise DataError(f"{path}: the first line is longer than {LONGEST_LINE:,} characters; it must name the classes")
    if not line.strip():
        raise DataError(f"{path}: the first line is empty; it must name the classes")
    separator = "\t" if path.suffix.lower() == ".tsv" else ";" if line.count(";") > line.count(",") else ","
    header = [name.strip() for name in next(csv.reader([line], delimiter=separator))]
    _called(header, len(header), f"{path}: columns (the first line must name the classes)")
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=header, skip_rows=1),
        parse_options=pyarrow.csv.ParseOptions(delimiter=separator),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys(header, pyarrow.string()), strings_can_be_null=False
        ),
    )


def _of_json(content: Any, path: Path, client: str | None) -> CountTable:
    names, rows = (list(content), list(content.values())) if isinstance(content, dict) else (None, content)
    if isinstance(rows, list) and rows and all(isinstance(row, dict) for row in rows):
        columns = list(dict.fromkeys(key for row in rows for key in row))
        table = {column: [row.get(column, 0) for row in rows] for column in columns}
        return _of_table(pyarrow.table(table if names is None else {"": names, **table}), path, client)
    if isinstance(rows, list) and rows and all(isinstance(row, list) for row in rows):
        return CountTable.of(rows, names=names, where=str(path))
    raise DataError(f"{path}: a list of rows, or an object of rows by client, is expected")


def _of_table(table: Any, path: Path, client: str | None) -> CountTable:
    """From an Arrow table: the column of names, and a number in every other cell."""
    columns = [name.strip() for name in table.column_names]
    _called(columns, len(columns), f"{path}: columns")
    if client is not None and client not in columns:
        raise unknown(f"column of {path}:", client, columns)
    place = columns.index(client) if client is not None else _name_column(table, columns)
    names = None if place is None else [str(name).strip() for name in table.column(place).to_pylist()]
    classes = [name for number, name in enumerate(columns) if number != place]
    counts = np.empty((table.num_rows, len(classes)))
    for number, name in enumerate(classes):
        counts[:, number] = _numbers(table.column(columns.index(name)), name, path)
    return CountTable.of(counts, classes, names, where=str(path))


def _name_column(table: Any, columns: list[str]) -> int | None:
    """Which column names the clients: the index that pandas stored, or the first."""
    stored = (table.schema.pandas_metadata or {}).get("index_columns", ())
    if stored and stored[0] in columns:
        return columns.index(stored[0])
    return 0 if columns and (columns[0].lower() in NAMES or _first_text(table.column(0)) is not None) else None


def _first_text(column: Any) -> int | None:
    """The first row of a column that holds no number."""
    if not pyarrow.types.is_string(column.type) and not pyarrow.types.is_large_string(column.type):
        number = pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type)
        return None if number or not len(column) else 0
    for row, text in enumerate(column.to_pylist()):
        try:
            float(text)
        except (TypeError, ValueError):
            return row
    return None


def _numbers(column: Any, name: str, path: Path) -> Floats:
    """The cells of a class as numbers, or a DataError that says which is none."""
    if column.null_count:
        row = column.is_null().to_pylist().index(True)
        raise DataError(f"{path}: class {name!r}, row {row + 1} is empty; write 0 if the client has none")
    try:
        if pyarrow.types.is_string(column.type):
            column = pyarrow.compute.utf8_trim_whitespace(column)
        elif pyarrow.types.is_boolean(column.type):
            raise pyarrow.ArrowInvalid("true and false are no counts")
        return np.asarray(column.cast(pyarrow.float64()).to_numpy(zero_copy_only=False), np.float64)
    except pyarrow.ArrowException:
        row = _first_text(column) or 0
        found = str(column[row].as_py())[:50]
        rule = "only the first column, or the one chosen as client, may name the clients; all others are classes"
        raise DataError(f"{path}: class {name!r}, row {row + 1} holds {found!r}, which is no number; {rule}") from None
