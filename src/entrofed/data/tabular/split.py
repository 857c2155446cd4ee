"""Which rows of a table are for training and which for testing, their classes and their owners."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entrofed.data.files.rows import Rows
from entrofed.data.objects import SCOPE
from entrofed.data.own import stratified_rows
from entrofed.data.tabular.choice import TEST_SHARE, Choice
from entrofed.data.tabular.labels import class_names, class_numbers, test_rows
from entrofed.data.tabular.scan import Column, Scan, scan
from entrofed.errors import DataError

TRAIN, TEST, UNUSED = 0, 1, -1


@dataclass(frozen=True)
class Split:
    """What becomes of each row of a table."""

    found: Scan
    classes: tuple[str, ...]
    y: NDArray[np.int64]
    """The class of each row, -1 where it has none."""
    part: NDArray[np.int8]
    """``TRAIN``, ``TEST`` or ``UNUSED``."""
    client: Column | None = None

    def labels(self, part: int) -> NDArray[np.int64]:
        """The classes of one part's rows."""
        found: NDArray[np.int64] = self.y[self.part == part]
        return found

    def owners(self) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
        """The owner of each training row, and the owners' names in sorted order; who has no such row is no client."""
        if self.client is None:
            return None, ()
        names, numbers = self.client.sorted()
        there, owners = np.unique(numbers[self.part == TRAIN], return_inverse=True)
        return owners.astype(np.int64), tuple(names[k] for k in there)


def split_rows(rows: Rows, choice: Choice, columns: Sequence[str], *, test_part: bool) -> Split:
    """Read a table once. ``test_part``: there is another table for testing, so that all rows here are for training."""
    found = scan(rows, columns, unlimited=choice.client)
    kept = _kept(found, choice)
    label = found.columns[str(choice.label)]
    known = (rows.class_names or {}).get(label.name)
    classes = class_names(rows.where, label, known)
    y = class_numbers(rows.where, label, classes, numbered=known is not None)
    part = np.where(kept, TRAIN, UNUSED).astype(np.int8)
    if isinstance(choice.test, str):
        part[test_rows(rows.where, found.columns[choice.test]) & kept] = TEST
    elif not test_part:
        used = np.flatnonzero(kept)
        part[used[stratified_rows(y[used], TEST_SHARE if choice.test is None else choice.test)]] = TEST
    client = None if choice.client is None else found.columns[choice.client]
    if client is not None and client.kind in ("date", "other"):
        raise DataError(f"{rows.where}: the client {client.name!r} {client.problem}")
    return Split(found, classes, y, part, client)


def split_test(rows: Rows, choice: Choice, columns: Sequence[str], classes: tuple[str, ...]) -> Split:
    """Read a table that is for testing only; its classes are those of the training table."""
    found = scan(rows, columns)
    label = found.columns[str(choice.label)]
    numbered = label.name in (rows.class_names or {})
    y = class_numbers(rows.where, label, classes, numbered=numbered)
    return Split(found, classes, y, np.where(_kept(found, choice), TEST, UNUSED).astype(np.int8))


def check_parts(where: str, train: NDArray[np.int64], test: NDArray[np.int64], classes: tuple[str, ...]) -> None:
    """Both parts must have rows, the training part two classes, and every class of the test part."""
    if not len(train) or not len(test):
        raise DataError(f"{where}: the {'test' if len(train) else 'training'} part has no rows")
    there, tested = np.bincount(train, minlength=len(classes)), np.bincount(test, minlength=len(classes))
    if (there > 0).sum() < 2:
        raise DataError(f"{where}: all training rows are of class {classes[int(train[0])]!r}; {SCOPE}")
    if len(only := np.flatnonzero((there == 0) & (tested > 0))):
        raise DataError(
            f"{where}: class {classes[only[0]]!r} is in the test part ({tested[only[0]]:,} rows) and not in the "
            "training part, so that no model can learn it; give rows to train on, or leave out the class"
        )


def _kept(found: Scan, choice: Choice) -> NDArray[np.bool_]:
    """The rows that are used; missing values that nothing is to be done about are an error."""
    if choice.missing == "drop_rows":
        if found.incomplete.all():
            raise DataError(f"{found.where}: every row has a missing value, so that missing = 'drop_rows' leaves none")
        return ~found.incomplete
    never = (choice.label, choice.client)
    columns = [c for c in found.columns.values() if c.missing and (choice.missing == "refuse" or c.name in never)]
    if not columns:
        return np.ones(found.rows, bool)
    lines = [
        f"{found.where}: column {c.name!r} has no value in {c.missing:,} of {c.rows:,} rows (first in row "
        f"{c.first_missing + 1:,})"
        for c in columns
    ]
    if all(c.name in never for c in columns):
        remedy = 'Labels and clients are never imputed: fill them in, or set missing = "drop_rows"'
    else:
        remedy = (
            'Set missing = "impute" (median, most frequent category) or "drop_rows", or leave columns out with drop'
        )
    raise DataError("\n".join([*lines, remedy]))
