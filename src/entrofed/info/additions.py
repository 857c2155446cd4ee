"""Whom to add to a cohort so that its optimally weighted labels come closest to a target, among very many clients.

For a cohort S of n clients, ``V(S) = -min_a F(a)`` with the F of :mod:`entrofed.info.maxent` and equal priors. To solve
one problem per candidate would take too long. So all are compared by the best that a candidate does if the weights of
the others keep their proportions, ``a = ((1 - t) a_S, t)``: a problem in one variable, and a lower bound of V. One step
of Newton from ``t = 1 / (n + 1)`` is near enough to tell who leads. For these the problem is solved.
"""

from math import log

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats
from entrofed.info.maxent import solve

Places = NDArray[np.int64]

TIE = 1e-9
"""Values (nats) that differ by no more are the same."""
SHORTLIST = 256
"""Candidates for which the problem is solved; of as many or fewer, all."""
TINY = np.float32(1e-12)


class Additions:
    """Candidates with the label distributions ``rows``, compared by V of a cohort with them added.

    >>> candidates = Additions(np.array([[1.0, 0.0], [0.2, 0.8], [0.0, 1.0]]), np.array([0.5, 0.5]), 0.1)
    >>> places, values = candidates.leaders(np.array([[1.0, 0.0]]))
    >>> places.tolist(), np.abs(values).round(3).tolist()
    ([0, 1, 2], [0.693, 0.003, 0.0])
    """

    def __init__(self, rows: Floats, target: Floats, strength: float) -> None:
        self._rows, self._target, self._strength = rows, target, strength
        self._narrow = rows.astype(np.float32)
        self._log_target = np.log(np.maximum(target, TINY)).astype(np.float32)
        self._there = np.ones(len(rows), np.bool_)

    def remove(self, place: int) -> None:
        """Leave a candidate out from now on."""
        self._there[place] = False

    def leaders(self, cohort: Floats) -> tuple[Places, Floats]:
        """Those on the shortlist, ascending, and V of the ``cohort`` (one row each) with each of them."""
        left = np.flatnonzero(self._there)
        if len(left) > SHORTLIST:
            left = np.sort(left[np.argsort(-self._along_lines(cohort)[left], kind="stable")[:SHORTLIST]])
        problems = np.concatenate([np.tile(cohort, (len(left), 1, 1)), self._rows[left, None]], axis=1)
        return left, self._value(problems)[1]

    def _value(self, problems: Floats) -> tuple[Floats, Floats]:
        """``ln a`` and V."""
        prior = np.full(problems.shape[:2], -log(problems.shape[1]))
        logs, least, _ = solve(problems, self._target, prior, self._strength)
        return logs, -least

    def _along_lines(self, cohort: Floats) -> NDArray[np.float32]:
        """The lower bounds of V, of all candidates; in float32, which is enough to rank them."""
        size, strength = len(cohort) + 1, self._strength
        logs = self._value(cohort[None])[0][0]
        weights = np.exp(logs)
        mixed = (weights @ cohort).astype(np.float32)
        old = float(weights @ logs) + log(size)
        step = self._narrow - mixed
        t = np.float32(1 / size)
        mixture = np.maximum(mixed + t * step, TINY)
        slope = np.einsum("jc,jc->j", step, np.log(mixture) - self._log_target)
        slope += np.float32(strength * (-log(1 - 1 / size) - old))
        curve = np.einsum("jc,jc->j", step, step / mixture) + strength / (t * (1 - t))
        t = np.clip(t - slope / curve, 0.1 * t, 1 - 0.1 * (1 - t))
        mixture = np.maximum(mixed + t[:, None] * step, TINY)
        far = np.einsum("jc,jc->j", mixture, np.log(mixture) - self._log_target)
        apart = (1 - t) * (old + np.log1p(-t)) + t * (np.log(t) + log(size))
        return np.asarray(-(far + strength * apart), np.float32)
