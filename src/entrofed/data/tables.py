"""The tables of the inverse-entropy paper, two cleaner versions of its heart data, and scikit-learn's digits.

A table is split as the paper split it (found by search; it reproduces the printed test class counts of all
four tables): 40 % of the rows are set aside with scikit-learn's ``train_test_split(random_state=42)`` in the
file's own row order, not stratified, and halved the same way; the second half is the test part, the first the
server's validation part.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from entrofed.data.dataset import Dataset
from entrofed.data.images import DIGITS
from entrofed.data.readers import damaged, read_table
from entrofed.data.splits import split, stratified_split
from entrofed.errors import DataError


@dataclass(frozen=True)
class Table:
    """How a table is stored, and what must come out of it."""

    path: str
    features: int
    classes: tuple[str, ...]
    labels: Mapping[str, int]
    """The class of each text in the last column."""
    rows: int
    test_counts: tuple[int, ...]
    """Rows of each class in the test part."""
    separator: str | None = ","
    """Between columns; None is any white space."""
    header: bool = True
    unique: bool = False
    """Keep only the first of rows that are equal."""


def _stored(row: dict[str, Any]) -> Table:
    tuples = {key: tuple(row[key]) for key in ("classes", "test_counts")}
    return Table(**{**row, **tuples, "separator": row.get("separator", ",") or None})


TABLES = {
    name: _stored(row)
    for name, row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}


def load_table(name: str, directory: Path) -> Dataset:
    """A table, split; its rows and the class counts of its test part are checked."""
    table = TABLES[name]
    path = directory / table.path
    x, texts = read_table(path, table.features + 1, table.separator, header=table.header)
    if strange := set(texts) - set(table.labels):
        raise damaged(path, f"the last column is one of {', '.join(table.labels)}", ", ".join(sorted(strange)))
    y = np.array([table.labels[text] for text in texts], np.int64)
    keep = ~np.isnan(x).any(1)
    x, y = x[keep], y[keep]
    if table.unique:
        first = np.sort(np.unique(np.column_stack([x, y]), axis=0, return_index=True)[1])
        x, y = x[first], y[first]
    if len(y) != table.rows:
        raise damaged(path, f"{name} has {table.rows:,} usable rows", f"{len(y):,}")
    train, valid, test = _split(len(y))
    counts = tuple(np.bincount(y[test], minlength=len(table.classes)).tolist())
    if counts != table.test_counts:
        rule = f"the test part holds {table.test_counts} rows of {', '.join(table.classes)}"
        raise damaged(path, rule, f"{counts} (are the rows in their original order?)")
    return Dataset(name, "table", x[train], y[train], x[test], y[test], table.classes, x[valid], y[valid])


def _split(rows: int) -> tuple[list[int], list[int], list[int]]:
    """Row numbers of the train, validation and test part.

    >>> _split(10)
    ([7, 2, 9, 4, 3, 6], [8, 5], [1, 0])
    """
    train, rest = split(rows, 0.4, seed=42)
    valid, test = split(len(rest), 0.5, seed=42)
    return train.tolist(), rest[valid].tolist(), rest[test].tolist()


@cache
def digits() -> Dataset:
    """The 1,797 handwritten digits of scikit-learn: 8x8 pixels of 0..16; 20 % of each class for testing."""
    content = np.loadtxt(_of_sklearn("digits.csv.gz"), np.uint8, delimiter=",")
    x, y = content[:, :-1].reshape(-1, 1, 8, 8), content[:, -1].astype(np.int64)
    train, test = stratified_split(y, 0.2, seed=42)
    return Dataset("digits", "image", x[train], y[train], x[test], y[test], DIGITS, full_scale=16.0)


def _of_sklearn(name: str) -> Path:
    """A file of scikit-learn's data, found without importing it."""
    found = find_spec("sklearn")
    if found is None or found.origin is None:
        raise DataError(f"{name} comes with scikit-learn, which is not installed; install it with pip")
    return Path(found.origin).parent / "datasets" / "data" / name
