"""Whom to add to pooled label counts so that their entropy becomes largest, among very many clients.

With ``y = L + l``, the pooled counts plus those of a client, and ``T = sum_c y_c``, the entropy in bits is::

    H = log2 T - (1 / T) sum_c y_c log2 y_c

Counts are whole numbers and mostly small, so the sum needs no logarithms: ``y_c log2 y_c`` is looked up by the
client's count in a table that starts at the pooled count of the class, and for several classes at once as long as
one table has room for all combinations of their counts. Noised counts are not whole; they take logarithms.

With a target q the score is ``-KL(y / T || q) = H + (1 / T) sum_c y_c log2 q_c`` instead: ``y_c log2(y_c / q_c)`` takes
the place of ``y_c log2 y_c``.
"""

from dataclasses import dataclass
from math import inf, log2, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats

Rows = NDArray[np.int64]

TIE = 1e-12
"""Entropies (bits) that differ by no more are the same."""
LONGEST = 2**16 - 1
"""Entries that a table may have: more would not stay in the processor's cache, nor would its keys fit ``uint16``."""
BLOCK = 2**15
"""Clients that are looked at together, for the same reason."""
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True)
class Lookup:
    """Classes that share a table; ``lengths`` are one more than their largest counts."""

    classes: list[int]
    lengths: list[int]
    keys: NDArray[np.uint16]
    """Where in the table each client's counts stand."""

    def table(self, pooled: Floats, shift: Floats | None) -> Floats:
        """``sum_c y_c log2 y_c``, less ``y_c shift_c``, for all counts that a client may have."""
        table = np.zeros(1)
        for c, length in zip(self.classes, self.lengths, strict=True):
            table = np.add.outer(table, _inner(pooled[c] + np.arange(length), c, shift)).ravel()
        return table


class Candidates:
    """Some rows of ``counts``, in ascending order, prepared for many comparisons, by entropy or with a ``target``.

    >>> candidates = Candidates(np.array([[4.0, 0.0], [0.0, 4.0], [2.0, 2.0], [9.0, 0.0]]), np.array([1, 2, 3]))
    >>> rows, bits = candidates.leaders(np.array([4.0, 0.0]))
    >>> rows.tolist(), bits.round(3).tolist()
    ([1, 2], [1.0, 0.811])
    """

    def __init__(self, counts: Floats, rows: Rows, target: Floats | None = None) -> None:
        self._rows = rows
        self._shift = None if target is None else np.log2(target, out=np.zeros(len(target)), where=target > 0)
        columns, whole = _columns(counts, rows, np.uint16)
        if not whole:
            columns, _ = _columns(counts, rows, np.float64)
        self._sizes = columns.sum(axis=0, dtype=np.float64)
        self._lookups = _lookups(columns, min(LONGEST, len(rows))) if whole else []
        looked_up = [c for lookup in self._lookups for c in lookup.classes]
        others = [c for c in range(len(columns)) if c not in looked_up]
        self._others = {c: columns[c].astype(np.float64, copy=False) for c in others}

    def remove(self, row: int) -> None:
        """Leave a client out from now on, if it is one of them."""
        place = np.searchsorted(self._rows, row)
        if place < len(self._rows) and self._rows[place] == row:
            self._sizes[place] = np.nan  # so is its entropy: no comparison is true of it

    def leaders(self, pooled: Floats, *, all_ties: bool = False) -> tuple[Rows, Floats]:
        """Who reaches the two largest entropies (or the least divergences, negative): rows, ascending, and bits.

        Of those who tie with the best the first two are among them, or all if asked for.
        """
        tables = [lookup.table(pooled, self._shift) for lookup in self._lookups]
        total, slack = pooled.sum(), 2 * TIE if all_ties else 0.0
        second, places, bits = -inf, [np.zeros(0, np.intp)], [np.zeros(0)]
        for start in range(0, len(self._rows), BLOCK):
            part = slice(start, start + BLOCK)
            size = np.maximum(self._sizes[part] + total, TINY)
            inner = np.zeros(len(size))
            for table, lookup in zip(tables, self._lookups, strict=True):
                inner += table.take(lookup.keys[part], mode="clip")
            for c, column in self._others.items():
                inner += _inner(column[part] + pooled[c], c, self._shift)
            inner /= size
            entropies = np.log2(size) - inner
            if self._shift is None:
                entropies = np.maximum(entropies, 0)  # 0 as well where nothing is counted
            near = np.flatnonzero(entropies > second - slack)  # two with lower numbers are as good as all others
            places.append(start + near)
            bits.append(entropies[near])
            second = max(second, runner_up(bits[-1]))
        place, bit = np.concatenate(places), np.concatenate(bits)
        leading = bit >= runner_up(bit) - TIE
        return self._rows[place[leading]], np.minimum(bit[leading], log2(len(pooled)) if self._shift is None else 0.0)


def _columns(counts: Floats, rows: Rows, dtype: type[Any]) -> tuple[NDArray[Any], bool]:
    """The counts of some rows by class, and whether they are the same in that type; left unfinished if not."""
    columns = np.empty((counts.shape[1], len(rows)), dtype)
    for start in range(0, len(rows), BLOCK):
        part = counts.take(rows[start : start + BLOCK], axis=0)
        with np.errstate(invalid="ignore"):  # too large for it
            cast = part.astype(dtype)
        if not np.array_equal(cast, part):
            return columns, False
        columns[:, start : start + BLOCK] = cast.T
    return columns, True


def _lookups(columns: NDArray[np.uint16], room: int) -> list[Lookup]:
    """Neighbouring classes together as far as there is room; none for a class that does not fit alone.

    The columns of the classes in a table are overwritten.
    """
    lengths = [int(column.max(initial=0)) + 1 for column in columns]
    groups: list[list[int]] = []
    for c, length in enumerate(lengths):
        if groups and length * prod(lengths[k] for k in groups[-1]) <= room:
            groups[-1].append(c)
        elif length <= room:
            groups.append([c])
    lookups = []
    for group in groups:
        keys = columns[group[0]]
        for c in group[1:]:
            keys *= lengths[c]
            keys += columns[c]
        lookups.append(Lookup(group, [lengths[c] for c in group], keys))
    return lookups


def _inner(x: Floats, c: int, shift: Floats | None) -> Floats:
    """``x log2 x``, less ``x shift_c``."""
    product = np.log2(np.maximum(x, TINY))
    if shift is not None:
        product -= shift[c]
    product *= x
    return product


def runner_up(values: NDArray[Any]) -> float:
    """The second largest; below everything if there is none."""
    if len(values) < 2:
        return -inf
    best = int(values.argmax())  # twice the largest: where many tie, a partition takes far longer
    return float(max(values[:best].max(initial=-inf), values[best + 1 :].max(initial=-inf)))
