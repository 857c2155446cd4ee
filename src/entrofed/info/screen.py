"""The same among so many clients that looking at each takes long: most can be ruled out without.

With ``y = L + l``, ``T = sum_c y_c`` and weights ``q_c`` (all 1 for the entropy), the score of
:mod:`entrofed.info.greedy` is ``log2 T - (1 / T) sum_c y_c log2(y_c / q_c)``. Some classes taken together lower the
sum, never raise it (the log sum inequality)::

    sum_{c in R} y_c log2(y_c / q_c) >= y_R log2(y_R / q_R),  y_R = sum_{c in R} y_c,  q_R = sum_{c in R} q_c

so that half of the classes, and all others as one, give a bound that no score exceeds. Whose bound reaches the second
best of a sample is looked at with all classes; whose score then reaches the second best, in float64. All else is done
in float32, with room for what that may be off by. The bound is sharp here: leaders have about their share of any class.

Reference: Cover and Thomas, Elements of Information Theory, theorem 2.7.1.
"""

from math import inf, log2

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats
from entrofed.info.greedy import TIE, Candidates, Rows, runner_up

FEW = 2**15
"""Candidates up to which all are looked at."""
PART = 2**15
"""Candidates whose bounds are computed at a time: they stay in the processor's cache."""
SAMPLE = 2**12
"""Candidates whose second best score the others must reach."""
ROUNDING = 2.0**-24
SMALLEST = np.float32(np.finfo(np.float32).tiny)


class ScreenedCandidates:
    """What :class:`~entrofed.info.greedy.Candidates` is, for very many rows.

    >>> counts = np.array([[4.0, 0.0], [0.0, 4.0], [2.0, 2.0], [9.0, 0.0]])
    >>> rows, bits = ScreenedCandidates(counts, np.array([1, 2, 3])).leaders(np.array([4.0, 0.0]))
    >>> rows.tolist(), bits.round(3).tolist()
    ([1, 2], [1.0, 0.811])
    """

    def __init__(self, counts: Floats, rows: Rows, target: Floats | None = None) -> None:
        self._counts, self._rows, self._target = counts, rows, target
        weights = np.ones(counts.shape[1]) if target is None else np.where(target > 0, target, 1.0)
        self._weights: Floats = weights
        self._columns = np.empty((counts.shape[1], len(rows)), np.float32)
        for start in range(0, len(rows), PART):
            self._columns[:, start : start + PART] = counts.take(rows[start : start + PART], axis=0).T
        self._sizes: NDArray[np.float32] = self._columns.sum(axis=0)
        self._least, self._most = float(self._sizes.min()), float(self._sizes.max())
        self._all: Candidates | None = None

    def remove(self, row: int) -> None:
        """Leave a client out from now on."""
        self._sizes[np.searchsorted(self._rows, row)] = np.nan  # so is its bound: no comparison is true of it
        if self._all is not None:
            self._all.remove(row)

    def leaders(self, pooled: Floats, *, all_ties: bool = False) -> tuple[Rows, Floats]:
        """Who reaches the two largest scores: rows, ascending, and bits; see ``Candidates.leaders``."""
        if self._all is not None or not pooled.sum() > 0:
            return self._look_at_all().leaders(pooled, all_ties=all_ties)
        slack = self._slack(pooled)
        everything, some = np.arange(len(pooled)), self._alone(pooled)
        sample = self._bounds(pooled, slice(0, SAMPLE), everything)
        least = runner_up(np.nan_to_num(sample, nan=-inf)) - 2 * slack
        near = [
            start + np.flatnonzero(self._bounds(pooled, slice(start, start + PART), some) >= least)
            for start in range(0, len(self._rows), PART)
        ]
        places = np.concatenate(near)
        scores = self._bounds(pooled, places, everything)
        places = places[scores >= runner_up(scores) - 2 * slack - 2 * TIE]
        if len(places) > FEW:
            return self._look_at_all().leaders(pooled, all_ties=all_ties)
        return Candidates(self._counts, self._rows[places], self._target).leaders(pooled, all_ties=all_ties)

    def _look_at_all(self) -> Candidates:
        """Where very many tie, nobody is ruled out; from then on."""
        self._all = self._all or Candidates(self._counts, self._rows[~np.isnan(self._sizes)], self._target)
        return self._all

    def _bounds(self, pooled: Floats, places: slice | NDArray[np.intp], alone: NDArray[np.intp]) -> NDArray[np.float32]:
        """What no score is above, but for rounding, with these classes by themselves; with all of them, the scores."""
        sizes = self._sizes[places] + np.float32(pooled.sum())
        inner, rest = np.zeros_like(sizes), sizes.copy()
        for c in alone:
            y = self._columns[c, places] + np.float32(max(pooled[c], SMALLEST))
            rest -= y
            inner += _product(y, self._weights[c])
        if len(alone) < len(pooled):
            inner += _product(np.maximum(rest, SMALLEST, out=rest), self._weights.sum() - self._weights[alone].sum())
        inner /= sizes
        bounds: NDArray[np.float32] = np.log2(sizes) - inner
        return bounds

    def _alone(self, pooled: Floats) -> NDArray[np.intp]:
        """The classes of which the pool has most or least beside its share: they tell the candidates apart."""
        excess = pooled / pooled.sum() - self._weights / self._weights.sum()
        return np.argsort(-np.abs(excess), kind="stable")[: max(2, -(-len(excess) // 2))]

    def _slack(self, pooled: Floats) -> float:
        """What float32 may be off by: a few roundings of each term, which is of the size of a logarithm."""
        total = float(pooled.sum())
        scales = [abs(log2(total + size)) for size in (self._least, self._most)]
        scales.append(max(abs(log2(weight)) for weight in self._weights.tolist()))
        return ROUNDING * (len(self._weights) + 20) * (16 + sum(scales))


def _product(y: NDArray[np.float32], weight: float) -> NDArray[np.float32]:
    """``y log2(y / weight)``."""
    logs = np.log2(y)
    if weight != 1:
        logs -= np.float32(log2(weight))
    logs *= y
    return logs


def prepared(counts: Floats, rows: Rows, target: Floats | None = None) -> Candidates | ScreenedCandidates:
    """Some rows of ``counts``, in ascending order, prepared for many comparisons."""
    return Candidates(counts, rows, target) if len(rows) <= FEW else ScreenedCandidates(counts, rows, target)
