"""The same among so many clients that looking at each takes long: most can be ruled out without.

With ``y = L + l``, ``T = sum_c y_c``, weights ``q_c`` (all 1 for the entropy) that sum to Q, and each class's share
beside what it should be, ``r_c = (y_c / T) (Q / q_c)``, the score of :mod:`entrofed.info.greedy` is::

    log2 T - (1 / T) sum_c y_c log2(y_c / q_c) = log2 Q - sum_c (q_c / Q) r_c log2 r_c

Some classes taken together lower the sum, never raise it (the log sum inequality)::

    sum_{c in R} q_c r_c log2 r_c >= q_R r_R log2 r_R,  q_R = sum_{c in R} q_c,  q_R r_R = sum_{c in R} q_c r_c

so that half of the classes, and all others as one, give a bound that no score exceeds. Whose bound reaches the second
best of some is looked at with all classes; whose score then reaches the second best, in float64. All else is done
in float32, with room for what that may be off by. The bound is sharp here: leaders have about their share of any class;
and float32 is exact enough there, as the logarithms are about 0.

Once the pool is nearly balanced, so are the best candidates. With C classes, the entropy falls short of its most by
``KL(p || u)`` nats, ``p = y / T``, u uniform. Let ``D = |p - u|``, so that ``r_c <= 1 + C D``. As
``r ln r - r + 1 >= (r - 1)^2 / (2 max(1, r))`` (its second derivative is 1 / r)::

    KL(p || u) >= C D^2 / (2 (1 + C D)),   that is   C D <= C KL + sqrt((C KL)^2 + 2 C KL)

and ``T D = |l' + L'|`` with counts less their mean over the classes, ``l' = l - (1/C) sum_c l_c``. So nobody who is as
good as a known one has ``|l'|`` above ``T D + |L'|``, with D of that one and the largest T. If that does not reach
beyond the :data:`FEW` candidates with the least ``|l'|``, nobody else is looked at.

Reference: Cover and Thomas, Elements of Information Theory, theorem 2.7.1.
"""

from math import inf, log, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats
from entrofed.info.greedy import TIE, Candidates, Rows, runner_up

FEW = 2**15
"""Candidates up to which all are looked at."""
PART = 2**15
"""Candidates whose bounds are computed at a time: they stay in the processor's cache."""
SAMPLE, KEPT = 2**12, 2**8
"""At first some candidates, then those who were best the last time: the others must reach the second best of these."""
ROUNDING = 2.0**-24
NOTHING = 1e-20
"""Counted where nothing is: its logarithm is finite."""
WIDER = 1 + 1e-9
"""What rounding may do to lengths."""
LEAST = 1 / 16
"""No r_R counts as less: below 1/e a greater one only raises the bound, and that of a small one is hardly known."""


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
        squares, self._largest = np.empty(len(rows)), 0.0
        for start in range(0, len(rows), PART):
            part = counts.take(rows[start : start + PART], axis=0)
            sizes = part @ np.ones(part.shape[1])  # a third of the time of a sum
            self._columns[:, start : start + PART] = part.T
            self._largest = max(self._largest, float(sizes.max()))
            squares[start : start + PART] = np.einsum("kc,kc->k", part, part) - sizes * sizes / part.shape[1]
        self._sizes: NDArray[np.float32] = self._columns.sum(axis=0)
        self._balanced, self._reach = None, 0.0
        if target is None and len(rows) > FEW:
            order = np.argpartition(squares, FEW)
            self._balanced = Candidates(counts, rows[np.sort(order[:FEW])])
            self._reach = sqrt(max(float(squares[order[FEW]]), 0.0)) / WIDER
        self._all: Candidates | None = None
        self._some = np.arange(min(SAMPLE, len(rows)))

    def remove(self, row: int) -> None:
        """Leave a client out from now on."""
        self._sizes[np.searchsorted(self._rows, row)] = np.nan  # so is its bound: no comparison is true of it
        if self._all is not None:
            self._all.remove(row)
        if self._balanced is not None:
            self._balanced.remove(row)

    def leaders(self, pooled: Floats, *, all_ties: bool = False) -> tuple[Rows, Floats]:
        """Who reaches the two largest scores: rows, ascending, and bits; see ``Candidates.leaders``."""
        if (found := self._among_balanced(pooled, all_ties)) is not None:
            return found
        if self._all is not None or not pooled.sum() > 0:
            return self._look_at_all().leaders(pooled, all_ties=all_ties)
        slack, (some, others) = self._slack(), self._halves(pooled)
        known = self._sums(pooled, self._some, some)[0] + self._sums(pooled, self._some, others)[0]
        least = runner_up(np.nan_to_num(self._bits(known), nan=-inf)) - 2 * slack
        near, sums = [], []
        for start in range(0, len(self._rows), PART):
            inner, rest = self._sums(pooled, slice(start, start + PART), some)
            able = np.flatnonzero(self._bits(inner + self._together(rest, others)) >= least)
            near.append(start + able)
            sums.append(inner[able])
        places = np.concatenate(near)
        scores = self._bits(np.concatenate(sums) + self._sums(pooled, places, others)[0])
        self._some = places[np.argpartition(-scores, KEPT)[:KEPT]] if len(places) > KEPT else places
        places = places[scores >= runner_up(scores) - 2 * slack - 2 * TIE]
        if len(places) > FEW:
            return self._look_at_all().leaders(pooled, all_ties=all_ties)
        return Candidates(self._counts, self._rows[places], self._target).leaders(pooled, all_ties=all_ties)

    def _among_balanced(self, pooled: Floats, all_ties: bool) -> tuple[Rows, Floats] | None:
        """The leaders, if nobody but the most balanced candidates can be one."""
        classes, beyond = len(pooled), self._reach - float(np.linalg.norm(pooled - pooled.mean()))
        if self._balanced is None or beyond <= 0:
            return None
        rows, bits = self._balanced.leaders(pooled, all_ties=all_ties)
        short = classes * log(2) * max(log2(classes) - runner_up(bits) + 3 * TIE, 0.0)
        furthest = (float(pooled.sum()) + self._largest) * (short + sqrt(short * short + 2 * short)) / classes
        return (rows, bits) if furthest * WIDER < beyond else None

    def _look_at_all(self) -> Candidates:
        """Where very many tie, nobody is ruled out; from then on."""
        self._all = self._all or Candidates(self._counts, self._rows[~np.isnan(self._sizes)], self._target)
        return self._all

    def _bits(self, inner: NDArray[np.float32]) -> NDArray[np.float32]:
        """The score, or its bound."""
        bits: NDArray[np.float32] = np.float32(log2(self._weights.sum())) - inner
        return bits

    def _sums(
        self, pooled: Floats, places: slice | NDArray[np.intp], classes: NDArray[np.intp]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """``sum_c (q_c / Q) r_c log2 r_c`` over these classes, and the share that the others have of all counts."""
        shares = self._weights / self._weights.sum()
        one: NDArray[np.float32] = np.reciprocal(self._sizes[places] + np.float32(pooled.sum()))
        inner, rest = np.zeros_like(one), np.ones_like(one)
        share, logs = np.empty_like(one), np.empty_like(one)
        for c in classes:
            column = self._columns[c]
            column = column[places] if isinstance(places, slice) else column.take(places)
            np.add(column, np.float32(max(pooled[c], NOTHING)), out=share)
            share *= one
            rest -= share
            np.multiply(share, np.float32(1 / shares[c]), out=logs)
            np.log2(logs, out=logs)
            logs *= share
            inner += logs
        return inner, rest

    def _together(self, rest: NDArray[np.float32], classes: NDArray[np.intp]) -> NDArray[np.float32]:
        """What these classes add to the sum at least, if ``rest`` is their share."""
        if not len(classes):
            return np.zeros_like(rest)
        due = self._weights[classes].sum() / self._weights.sum()
        share = np.maximum(rest, np.float32(LEAST * due))
        least: NDArray[np.float32] = np.log2(share * np.float32(1 / due))
        least *= share
        return least

    def _halves(self, pooled: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """The classes of which the pool has most or least beside its share: they tell candidates apart; the others."""
        excess = pooled / pooled.sum() - self._weights / self._weights.sum()
        order = np.argsort(-np.abs(excess), kind="stable")
        half = max(2, -(-len(excess) // 2))
        return order[:half], order[half:]

    def _slack(self) -> float:
        """What float32 may be off by: a few roundings of each term, and of their sums."""
        return ROUNDING * (len(self._weights) + 12) * (3 + log2(self._weights.sum() / self._weights.min()))


def prepared(counts: Floats, rows: Rows, target: Floats | None = None) -> Candidates | ScreenedCandidates:
    """Some rows of ``counts``, in ascending order, prepared for many comparisons."""
    return Candidates(counts, rows, target) if len(rows) <= FEW else ScreenedCandidates(counts, rows, target)
