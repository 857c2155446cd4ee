"""Whom to add to pooled label counts so that their entropy grows most, among very many candidates.

The entropy of the pooled counts ``L`` together with a candidate's ``l`` is, with ``y = L + l`` and ``T = sum_c y_c``,
``H = (T ln T - sum_c y_c ln y_c) / T``. :class:`Candidates` finds the largest in three steps, each for those whom the
step before could not rule out:

1. a bound in float32 from the classes that the pool lacks most. The ``m`` others are lumped together as one; it has
   the share ``r`` and, split up again, adds at most ``r ln m`` to the entropy;
2. the entropy in float32;
3. the entropy in float64.

A candidate is ruled out only if the second best seen so far is better by more than float32 can err.
"""

from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats

Rows = NDArray[np.int64]

TIE = 1e-12
"""Scores (bits) that differ by no more are the same."""
EPS = 2.0**-24
"""Relative error of one operation in float32."""
BLOCK = 16384
"""Candidates that are looked at together: few enough to stay in the processor's cache."""


class Candidates:
    """The given rows, ascending, of ``counts`` (not negative, below 2**53), ready to be compared many times.

    >>> pool = Candidates(np.array([[4.0, 0.0], [0.0, 4.0], [2.0, 2.0], [9.0, 0.0]]), np.array([1, 2, 3]))
    >>> rows, bits = pool.leaders(np.array([4.0, 0.0]))
    >>> rows.tolist(), bits.round(3).tolist()
    ([1, 2], [1.0, 0.811])
    """

    def __init__(self, counts: Floats, rows: Rows) -> None:
        self._counts, self._rows = counts, rows
        # [block, class, candidate]; below the classes their sum, NaN if there is no such candidate (any more)
        self._blocks = np.empty((-(-len(rows) // BLOCK), counts.shape[1] + 1, BLOCK), np.float32)
        self._blocks[-1:, :-1], self._blocks[-1:, -1] = 0, np.nan
        for start, block in zip(range(0, len(rows), BLOCK), self._blocks, strict=True):
            part = counts.take(rows[start : start + BLOCK], axis=0)
            _fill(block[:, : len(part)], part)
        self._largest = float(np.nanmax(self._blocks[:, -1], initial=0))

    def remove(self, row: int) -> None:
        """Leave a candidate out from now on."""
        block, column = divmod(int(np.searchsorted(self._rows, row)), BLOCK)
        self._blocks[block, -1, column] = np.nan

    def leaders(self, pooled: Floats) -> tuple[Rows, Floats]:
        """Who reaches the two largest entropies, and all who tie with them: rows, ascending, and bits."""
        rows = self._rows[self._shortlist(pooled)]
        bits = np.zeros(len(rows))
        for start in range(0, len(rows), BLOCK):
            part = self._counts.take(rows[start : start + BLOCK], axis=0)
            y = np.empty((len(pooled) + 1, len(part)))
            _fill(y, part + pooled)
            bits[start : start + BLOCK] = np.clip(_entropies(y), 0, log(len(pooled))) / log(2)
        leading = bits >= _second(bits) - TIE
        return rows[leading], bits[leading]

    def _shortlist(self, pooled: Floats) -> NDArray[np.intp]:
        """Positions of all who may be leaders, ascending, as far as float32 can tell."""
        total, classes = float(pooled.sum()), len(pooled)
        if total < 1e-6:  # next to nothing: then the smallest counts matter
            return np.flatnonzero(~np.isnan(self._blocks[:, -1].ravel()))
        known = -(-2 * classes // 5)
        lump = np.append(np.argsort(pooled)[:known], [classes, classes])
        start = np.append(pooled, total).astype(np.float32)[:, None]
        spread = log(classes) + max(abs(log(total)), abs(log(total + self._largest)))
        error, error_of_bound = EPS * (2 * classes + 40) * (spread + 1), EPS * (4 * classes + 60) * (spread + 17)
        floor, near, value = -inf, [np.zeros(0, np.intp)], [np.zeros(0, np.float32)]
        for number, block in enumerate(self._blocks):
            y = block.take(lump, axis=0)
            y += start[lump]
            y[known] = np.maximum(y[known] - y[:known].sum(axis=0), 0)
            bound = _entropies(y) + np.float32(log(max(classes - known, 1))) * (y[known] / y[-1])
            columns = np.flatnonzero(bound >= floor - error - error_of_bound)
            near.append(number * BLOCK + columns)
            value.append(_entropies(block.take(columns, axis=1) + start))
            floor = max(floor, _second(value[-1]))
        return np.concatenate(near)[np.concatenate(value) >= floor - 2 * error]


def _fill(y: NDArray[Any], counts: Floats) -> None:
    """Counts by class, and below them their sum."""
    y[:-1] = counts.astype(y.dtype).T
    y[:-1].sum(axis=0, out=y[-1])


def _entropies(y: NDArray[Any]) -> NDArray[Any]:
    """Entropies (nats) of the columns of ``y``, whose last row is the sum of the others; 0 where it is 0."""
    tiny = np.finfo(y.dtype).tiny
    terms = np.log(np.maximum(y, tiny))
    terms *= y
    return (terms[-1] - terms[:-1].sum(axis=0)) / np.maximum(y[-1], tiny)


def _second(values: NDArray[Any]) -> float:
    """The second largest of some values; below all if there is but one."""
    return float(np.partition(values, -2)[-2]) if len(values) > 1 else -inf
