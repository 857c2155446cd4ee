"""Weights that sum to one."""

import numpy as np

from entrofed.info.entropy import Floats


def water_fill(weights: Floats, cap: float) -> Floats:
    """The same weights with none above ``cap``: what is cut off goes to the others in proportion, as long as they fit.

    The order is kept, and the sum is 1. If ``cap`` times their number is below 1, all weights are equal. Where only
    weights of zero are left to take the rest, they share it. NaN in, NaN out.

    >>> water_fill(np.array([0.7, 0.2, 0.1]), 0.5).round(3).tolist()
    [0.5, 0.333, 0.167]
    """
    n = len(weights)
    if not np.isfinite(weights).all():
        return np.full(n, np.nan)
    if cap * n <= 1:
        return np.full(n, 1 / n)
    capped = np.zeros(n, np.bool_)
    filled = np.asarray(weights / weights.sum(), np.float64)
    while True:
        over = ~capped & (filled > cap)
        if not over.any():
            return filled
        capped |= over
        left, free = 1 - cap * capped.sum(), ~capped
        rest = weights[free].sum()
        filled = np.full(n, cap)
        filled[free] = weights[free] / rest * left if rest > 0 else left / free.sum()
