"""The entropy of pooled label counts with one more client, for each of very many clients.

With ``y = L + l``, the pooled counts plus those of a client, and ``T = sum_c y_c``, it is in bits::

    H = (T log2 T - sum_c y_c log2 y_c) / T

Counts are whole numbers and mostly small, so the sum needs no logarithms: ``y_c log2 y_c`` is looked up by the
client's count in a table that starts at the pooled count of the class, and for several classes at once as long as
one table has room for all combinations of their counts. Noised counts are not whole; they take logarithms.
"""

from math import prod

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats

LONGEST = 2**18
"""Entries that a table may have: more would not stay in the processor's cache."""
BLOCK = 2**14
"""Clients that are looked at together, for the same reason."""
TINY = np.finfo(np.float64).tiny


class PooledEntropies:
    """The entropies, in bits, of any pooled counts together with each of the given rows of ``counts``.

    >>> entropies = PooledEntropies(np.array([[0.0, 4.0], [2.0, 2.0], [9.0, 0.0]]), np.array([0, 1]))
    >>> entropies.given(np.array([4.0, 0.0])).round(3).tolist()
    [1.0, 0.811]
    """

    def __init__(self, counts: Floats, rows: NDArray[np.int64]) -> None:
        whole, room = _whole_columns(counts, rows), min(len(rows), LONGEST)
        columns = np.ascontiguousarray(counts.take(rows, axis=0).T) if whole is None else whole
        self._sizes: Floats = columns.sum(axis=0, dtype=np.float64)
        self._lengths = [room + 1] * len(columns) if whole is None else [int(c.max(initial=0)) + 1 for c in whole]
        self._loose = [c for c, length in enumerate(self._lengths) if length > room]
        self._columns = columns[self._loose].astype(np.float64, copy=False)
        self._groups: list[list[int]] = []
        for c, length in enumerate(self._lengths):
            if length > room:
                continue
            if self._groups and length * prod(self._lengths[k] for k in self._groups[-1]) <= room:
                self._groups[-1].append(c)
            else:
                self._groups.append([c])
        self._keys = [self._pack(columns, group) for group in self._groups]

    def _pack(self, columns: NDArray[np.uint16], group: list[int]) -> NDArray[np.uint32]:
        """Where the counts of some classes stand in their common table."""
        keys = np.zeros(columns.shape[1], np.uint32)
        for c in group:
            keys *= self._lengths[c]
            keys += columns[c]
        return keys

    def _table(self, pooled: Floats, group: list[int]) -> Floats:
        """``sum_c y_c log2 y_c`` for all counts that a client may have of some classes."""
        table = np.zeros(1)
        for c in group:
            table = np.add.outer(table, _xlog2x(pooled[c] + np.arange(self._lengths[c]))).ravel()
        return table

    def given(self, pooled: Floats) -> Floats:
        """One entropy a row; 0 where nothing is counted at all."""
        tables = [self._table(pooled, group) for group in self._groups]
        total, loose = pooled.sum(), pooled[self._loose, None]
        entropies = np.empty(len(self._sizes))
        for start in range(0, len(entropies), BLOCK):
            part = slice(start, start + BLOCK)
            inner = _xlog2x(self._columns[:, part] + loose).sum(axis=0)
            for table, keys in zip(tables, self._keys, strict=True):
                inner += table.take(keys[part], mode="clip")
            size = self._sizes[part] + total
            entropies[part] = (_xlog2x(size) - inner) / np.maximum(size, TINY)
        return entropies


def _whole_columns(counts: Floats, rows: NDArray[np.int64]) -> NDArray[np.uint16] | None:
    """The counts by class, if they are whole numbers and not too large for a table."""
    columns = np.empty((counts.shape[1], len(rows)), np.uint16)
    for start in range(0, len(rows), BLOCK):
        part = counts.take(rows[start : start + BLOCK], axis=0)
        with np.errstate(invalid="ignore"):  # too large
            whole = part.astype(np.uint16)
        if not np.array_equal(whole, part):
            return None
        columns[:, start : start + BLOCK] = whole.T
    return columns


def _xlog2x(x: Floats) -> Floats:
    logarithms = np.log2(np.maximum(x, TINY))
    logarithms *= x
    return logarithms
