"""One pass over a table: what each column holds, who has which row, what is missing."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow
import pyarrow.compute as pc
from numpy.typing import NDArray

from entrofed.data.files.rows import Rows
from entrofed.data.tabular.cells import DATE, NUMBER, Kind, NotANumberError, coded, kind_of, number_text, numbers
from entrofed.errors import DataError

CATEGORIES = 1000
"""A column of texts with more different values names things, such as patients, and is no category."""
FEW = 20
"""A column of texts with more different values than this, and most of them in one row only, names things, too."""
STRAY = 0.1
"""A column in which a text that is no number is rarer than this is a column of numbers with mistakes."""
COMMA = re.compile(r"^[+-]?\d+(,\d+)?$")
"""A number as many languages write it; in a column of them one at least has the comma, or it would hold numbers."""
LARGEST = float(np.finfo(np.float32).max)


@dataclass(frozen=True)
class Column:
    """What a column holds."""

    name: str
    kind: Kind
    type: str
    """The name of its Arrow type."""
    rows: int
    missing: int
    values: tuple[str, ...]
    """Its different values in the order they come in; empty where there are too many to be categories."""
    codes: NDArray[Any]
    """The value in each row, by its place in ``values``, -1 where it is missing; empty like ``values``."""
    first_missing: int = -1
    """The first row without a value."""
    low: float = np.nan
    high: float = np.nan
    texts: int = 0
    """Rows whose text is no number."""
    first_text: str = ""

    @property
    def many(self) -> bool:
        """Whether there are too many values to be categories."""
        return not self.values and self.missing < self.rows

    def sorted(self) -> tuple[tuple[str, ...], NDArray[np.int64]]:
        """The values in order, numbers by their size, and the value in each row by its place in that order."""
        key = float if self.kind == "number" else str
        order = sorted(range(len(self.values)), key=lambda place: key(self.values[place]))
        number = np.full(len(order) + 1, -1)
        number[order] = np.arange(len(order))
        return tuple(self.values[place] for place in order), number[self.codes]

    def counts(self, rows: NDArray[np.bool_] | None = None) -> NDArray[np.int64]:
        """How often each value comes, in some of the rows."""
        codes = self.codes if rows is None else self.codes[rows]
        return np.bincount(codes[codes >= 0], minlength=len(self.values))

    @property
    def problem(self) -> str | None:
        """Why the column can be no feature."""
        if self.kind == "other":
            return f"holds values of type {self.type}, neither numbers nor categories"
        if self.missing == self.rows:
            return "is empty"
        if self.kind == "date":
            return "holds dates"
        if len(self.values) == 1:
            return f"holds nothing but {self.values[0]!r}"
        if self.kind == "number":
            beyond = not (abs(self.low) <= LARGEST and abs(self.high) <= LARGEST)
            return "holds numbers that are not finite in single precision; correct them" if beyond else None
        present = self.rows - self.missing
        if 0 < self.texts <= STRAY * present:
            found = f"{present - self.texts:,} and {self.texts:,} rows, such as {self.first_text!r}"
            return f"mixes numbers and texts ({found}); correct them"
        if self.first_text and all(COMMA.match(text) for text in (self.first_text, *self.values)):
            return f"holds numbers with a decimal comma, such as {self.first_text!r}; write them with a point"
        if self.many:
            return f"has more than {CATEGORIES:,} different texts; does it name things?"
        own = len(self.values) > FEW and len(self.values) > present / 2
        return f"has {len(self.values):,} different texts in {present:,} rows; does it name things?" if own else None


@dataclass(frozen=True)
class Scan:
    """What a table holds."""

    where: str
    rows: int
    columns: dict[str, Column]
    incomplete: NDArray[np.bool_]
    """The rows without a value in one of the columns."""


@dataclass
class _Tally:
    """What a column has held so far."""

    name: str
    type: Any
    untyped: bool
    limit: int | None
    rows: int = 0
    low: float = np.inf
    high: float = -np.inf
    texts: int = 0
    first_text: str = ""
    places: dict[str, int] | None = field(default_factory=dict)
    """Different values, each with its place; None when there are too many."""
    codes: list[NDArray[Any]] = field(default_factory=list)
    missing: int = 0
    first_missing: int = -1

    def add(self, values: Any) -> NDArray[np.bool_]:
        """Take account of the next rows; says which of them have no value."""
        kind = kind_of(self.type)
        if kind in ("date", "other"):
            absent = np.asarray(values.is_null())
        else:
            read = self._add_numbers(values) if kind == "number" or (self.untyped and not self.texts) else None
            absent = self._add_texts(values) if read is None else read
            if read is not None and self._few(values):
                self._add_codes(*coded(values))
        if self.first_missing < 0 and absent.any():
            self.first_missing = self.rows + int(absent.argmax())
        self.missing += int(absent.sum())
        self.rows += len(values)
        return absent

    def _add_numbers(self, values: Any) -> NDArray[np.bool_] | None:
        """Where there are none; None if there are texts among them."""
        try:
            read = numbers(values)
        except NotANumberError:
            return None
        absent = np.isnan(read)
        if not absent.all():
            self.low, self.high = min(self.low, np.nanmin(read)), max(self.high, np.nanmax(read))
        return absent

    def _add_texts(self, values: Any) -> NDArray[np.bool_]:
        texts, rows = coded(values)
        matched = pc.match_substring_regex(pyarrow.array(texts, pyarrow.string()), NUMBER)
        strange = np.flatnonzero(~np.append(np.asarray(matched), True)[rows])
        self.texts += len(strange)
        if len(strange) and not self.first_text:
            self.first_text = texts[rows[strange[0]]]
        self._add_codes(texts, rows)
        return rows < 0

    def _few(self, values: Any) -> bool:
        """Whether numbers may still be so few that they could be categories; cheaper than to make texts of them."""
        if self.limit is not None and self.places is not None and len(values.unique()) > self.limit + 1:
            self._forget()
        return self.places is not None

    def _add_codes(self, texts: list[str], rows: NDArray[np.int64]) -> None:
        if self.places is None:
            return
        place = np.full(len(texts) + 1, -1, np.int32 if self.limit is None else np.int16)
        for number in np.flatnonzero(np.bincount(rows + 1, minlength=len(texts) + 1)[1:]):
            place[number] = self.places.setdefault(texts[number], len(self.places))
            if self.limit is not None and len(self.places) > self.limit:
                self._forget()
                return
        self.codes.append(place[rows])

    def _forget(self) -> None:
        """There are too many different values to be categories."""
        self.places, self.codes = None, []

    def column(self) -> Column:
        places, kind = self.places or {}, kind_of(self.type)
        if self.untyped and not self.texts:
            kind = "number"
        elif kind == "category" and places and _dates(places):
            kind = "date"
        values, codes = tuple(places), np.concatenate([np.empty(0, np.int16), *self.codes])
        if self.untyped and kind == "number":
            values, codes = _as_numbers(values, codes)
        return Column(
            name=self.name,
            kind=kind,
            type="text" if self.untyped else str(self.type),
            rows=self.rows,
            missing=self.missing,
            first_missing=self.first_missing,
            values=values,
            codes=codes,
            low=float(self.low),
            high=float(self.high),
            texts=self.texts,
            first_text=self.first_text,
        )


def _as_numbers(values: tuple[str, ...], codes: NDArray[Any]) -> tuple[tuple[str, ...], NDArray[Any]]:
    """Texts that are the same number are one value: 1, 1.0 and 01."""
    numbered: dict[str, int] = {}
    places = [numbered.setdefault(number_text(float(text)), len(numbered)) for text in values]
    return tuple(numbered), np.array([*places, -1], codes.dtype)[codes]


def _dates(places: dict[str, int]) -> bool:
    return bool(pc.all(pc.match_substring_regex(pyarrow.array(list(places)), DATE)).as_py())


def scan(rows: Rows, names: Sequence[str], unlimited: str | None = None) -> Scan:
    """Read some columns once. The column ``unlimited`` may have any number of different values."""
    tallies = {
        name: _Tally(name, rows.types[name], rows.untyped, None if name == unlimited else CATEGORIES) for name in names
    }
    incomplete = []
    for batch in rows.batches(names):
        absent = np.zeros(batch.num_rows, bool)
        for name, tally in tallies.items():
            absent |= tally.add(batch.column(name))
        incomplete.append(absent)
    if not incomplete:
        raise DataError(f"{rows.where}: the table has no rows")
    gathered = np.concatenate(incomplete)
    return Scan(rows.where, len(gathered), {name: tally.column() for name, tally in tallies.items()}, gathered)
