"""What a page is made of: sections of paragraphs, tables and pictures, and the data that the pictures share."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import altair as alt

DIGITS = 5
"""Significant digits of the numbers in pictures."""


@dataclass(frozen=True)
class Grid:
    """A table; a cell is a text, and a column of numbers stands right."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    sortable: bool = False

    @property
    def numeric(self) -> list[bool]:
        """Which columns hold numbers: their first characters are digits or signs, where there is anything.

        >>> Grid(["name", "accuracy"], [["a", "0.5 ± 0.1"], ["b", ""]]).numeric
        [False, True]
        """
        columns = [[row[i] for row in self.rows if row[i]] for i in range(len(self.head))]
        return [bool(cells) and all(cell.lstrip("+-−<")[:1].isdigit() for cell in cells) for cells in columns]


@dataclass(frozen=True)
class View:
    """One state of a picture: the chart, what it says in words, and as a table."""

    chart: alt.TopLevelMixin
    words: str
    table: Grid
    label: str = ""
    """What the reader chooses it by, where there are several."""
    cells: int = 0
    """Marks, about; many are drawn as pixels instead of shapes."""


@dataclass(frozen=True, eq=False)
class Picture:
    """A chart with its heading and how to read it; with several views, the reader chooses one."""

    title: str
    reading: str
    views: Sequence[View]


@dataclass(frozen=True)
class Words:
    """A paragraph; a notice stands out."""

    text: str
    notice: bool = False


@dataclass(frozen=True)
class Facts:
    """Numbers with their names, large."""

    pairs: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Source:
    """A text to unfold, such as a file."""

    title: str
    text: str


@dataclass(frozen=True)
class Sources:
    """Several texts, folded together."""

    title: str
    texts: Sequence[Source]


Block = Grid | Picture | Words | Facts | Source | Sources


@dataclass(frozen=True)
class Section:
    """A part of the page with an entry in the table of contents."""

    key: str
    title: str
    blocks: Sequence[Block]


@dataclass
class Sheets:
    """Data by name, in columns; charts refer to it, so that none is on the page twice."""

    columns: dict[str, dict[str, Any]] = field(default_factory=dict)

    def add(self, name: str, columns: Mapping[str, Sequence[Any]]) -> alt.NamedData:
        """Keep the columns under a name that is made unique."""
        key = f"{name}-{len(self.columns)}"
        self.columns[key] = {title: packed(values) for title, values in columns.items()}
        return alt.NamedData(key)


def packed(values: Sequence[Any]) -> Any:
    """A column in few characters: numbers rounded, what is not finite as null, texts as numbers into a list of them.

    >>> packed([1 / 3, float("nan"), 7])
    [0.33333, None, 7]
    >>> packed(["a", "b", "a"])
    {'names': ['a', 'b'], 'at': [0, 1, 0]}
    """
    if values and isinstance(values[0], str):
        names = {name: place for place, name in enumerate(dict.fromkeys(values))}
        return {"names": list(names), "at": [names[value] for value in values]}
    return [_short(value) for value in values]


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
