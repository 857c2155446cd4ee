"""The tables of the inverse-entropy paper, two cleaner versions of its heart data, and scikit-learn's digits.

A table is split as the paper split it (found by search; it reproduces the printed test class counts of all
four tables): 40 % of the rows are set aside with ``train_test_split(random_state=42)`` in the file's own row
order, not stratified, and halved the same way; the second half is the test part, the first the server's
validation part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from entrofed.data.dataset import Dataset
from entrofed.data.images import DIGITS
from entrofed.data.readers import damaged, read_table


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
    header: bool = True
    unique: bool = False
    """Keep only the first of rows that are equal."""


TABLES = {
    "iris": Table(
        path="iris.csv",
        features=4,
        classes=("setosa", "versicolor", "virginica"),
        labels={"0": 0, "1": 1, "2": 2},
        rows=150,
        test_counts=(11, 13, 6),
    ),
    "wheat-seeds": Table(
        path="seeds_dataset.txt",
        features=7,
        classes=("Kama", "Rosa", "Canadian"),
        labels={"1": 0, "2": 1, "3": 2},
        rows=210,
        test_counts=(15, 12, 15),
        separator=None,
        header=False,
    ),
    "heart": Table(
        path="heart-disease/heart.csv",
        features=13,
        classes=("target 0", "target 1"),
        labels={"0": 0, "1": 1},
        rows=1025,
        test_counts=(96, 109),
    ),
    "heart-unique": Table(
        path="heart-disease/heart.csv",
        features=13,
        classes=("target 0", "target 1"),
        labels={"0": 0, "1": 1},
        rows=302,
        test_counts=(34, 27),
        unique=True,
    ),
    "heart-cleveland": Table(
        path="processed.cleveland.data",
        features=13,
        classes=("healthy", "disease"),
        labels={"0": 0, "1": 1, "2": 1, "3": 1, "4": 1},
        rows=297,
        test_counts=(33, 27),
        header=False,
    ),
    "pumpkin-seeds": Table(
        path="pumpkin-seeds/Pumpkin_Seeds_Dataset.csv",
        features=12,
        classes=("Çerçevelik", "Ürgüp Sivrisi"),
        labels={"Çerçevelik": 0, "Ürgüp Sivrisi": 1},
        rows=2500,
        test_counts=(250, 250),
    ),
}
"""``heart`` has 1,025 rows of which 302 differ, so that its test rows also occur in training; the paper used
it, ``heart-unique`` does not leak. Its targets are the other way round than one expects: where rows can be
matched with ``heart-cleveland``, target 1 is healthy and 0 is disease, hence the plain names.
``heart-cleveland`` drops the 6 of 303 rows with a missing value and counts every degree of disease (1 to 4)
as disease."""


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
    from sklearn.model_selection import train_test_split

    train, rest = train_test_split(list(range(rows)), test_size=0.4, random_state=42)
    valid, test = train_test_split(rest, test_size=0.5, random_state=42)
    return train, valid, test


@cache
def digits() -> Dataset:
    """The 1,797 handwritten digits of scikit-learn: 8x8 pixels of 0..16; 20 % of each class for testing."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    x, y = load_digits(return_X_y=True)
    images = x.astype(np.uint8).reshape(-1, 1, 8, 8)
    train_x, test_x, train_y, test_y = train_test_split(
        images, y.astype(np.int64), test_size=0.2, random_state=42, stratify=y
    )
    return Dataset("digits", "image", train_x, train_y, test_x, test_y, DIGITS, full_scale=16.0)
