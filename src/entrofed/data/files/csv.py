"""Tables as text: comma-separated (.csv; semicolons and tabs are recognized) and tab-separated (.tsv) in UTF-8.

The first line holds the names of the columns. Every column is read as text: only the whole file can tell whether a
column holds numbers.
"""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.csv

from entrofed.data.files.rows import Rows, readable, rows_of
from entrofed.data.tabular.cells import MISSING
from entrofed.errors import DataError

LINE_LIMIT = 1 << 20
"""Bytes of the first line."""
BLOCK = 1 << 20
"""Bytes that are parsed at a time; no line is longer."""


def open_csv(path: Path) -> Rows:
    """A delimited table; nothing but its first line is read yet."""
    names, separator = _header(path)
    parse = pyarrow.csv.ParseOptions(delimiter=separator, newlines_in_values=True)
    markers = {form(marker) for marker in MISSING for form in (str, str.upper, str.title)} | {"NaN"}

    def read(columns: Sequence[str]) -> Iterator[Any]:
        options = pyarrow.csv.ReadOptions(column_names=names, skip_rows=1, block_size=BLOCK)
        convert = pyarrow.csv.ConvertOptions(
            column_types={name: pyarrow.string() for name in columns},
            include_columns=list(columns),
            null_values=sorted(markers),
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        )
        try:
            with pyarrow.csv.open_csv(path, options, parse, convert) as reader:
                yield from reader
        except pyarrow.ArrowInvalid as error:
            raise _explained(path, str(error)) from None

    schema = pyarrow.schema([(name, pyarrow.string()) for name in names])
    return rows_of(str(path), schema, read, untyped=True)


def _header(path: Path) -> tuple[list[str], str]:
    """The names in the first line, and what separates them."""
    with readable(str(path)), path.open("rb") as file:
        raw = file.readline(LINE_LIMIT + 1)
    if len(raw) > LINE_LIMIT:
        raise DataError(
            f"{path}: the first line, which names the columns, has more than {LINE_LIMIT:,} bytes; is this a table?"
        )
    try:
        line = raw.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    if not line.strip():
        raise DataError(
            f"{path}: the first line must name the columns; {'it is blank' if raw else 'the file is empty'}"
        )
    separator = "\t" if path.suffix == ".tsv" else max(",;\t", key=line.count)
    try:
        names = [name.strip() for name in next(csv.reader([line], delimiter=separator))]
    except csv.Error as error:
        raise DataError(f"{path}: the first line must name the columns: {error}") from None
    if all(_is_number(name) for name in names):
        shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
        raise DataError(
            f"{path}: the first line holds numbers ({shown}); put a line with names of the columns before it"
        )
    if names.count("") > 1:
        raise DataError(f"{path}: {names.count('')} columns have no name in the first line; name them")
    return names, separator


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _not_utf8(path: Path) -> DataError:
    return DataError(f"{path}: the text is not UTF-8; save the table again with that encoding")


def _explained(path: Path, problem: str) -> DataError:
    if "UTF8" in problem:
        return _not_utf8(path)
    if "straddl" in problem:
        return DataError(
            f"{path}: a line has more than {BLOCK:,} bytes; is this a table, and is every quotation mark closed?"
        )
    short = " ".join(problem.split())[:200]
    return DataError(f"{path}: not readable as a delimited table: {short}")
