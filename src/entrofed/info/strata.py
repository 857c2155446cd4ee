"""Divide clients into groups with similar labels.

Let ``q_gc`` be the share of all samples that are in group g and of class c, ``q_g`` and ``q_c`` its sums, and ``s_g``
the share of the clients that are in g. The imbalance of a division (nats) is::

    D = sum_gc q_gc ln(q_gc / (s_g q_c)) = I(group; class) + KL(q_g || s_g)

the mutual information of group and class, plus the divergence of the groups' sizes from equal sizes per client.
``I = H(class) - sum_g q_g H(class | g)``: a small I means a large mean entropy of the groups' pooled labels. D is 0 if
and only if all groups hold the same number of samples of each class per client.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entrofed.info.entropy import Floats

WORK = 1 << 24
"""Most logarithms that a division computes; then it stops, wherever it is."""
GAIN = 1e-12
"""A swap must lower D by more."""
TINY = 1e-300
"""In place of 0 in a logarithm."""


def imbalance(counts: ArrayLike, group: ArrayLike) -> float:
    """D of a division: ``counts[client, class]``, and the group of each client, 0, 1, 2 ...

    >>> imbalance([[4, 0], [0, 4], [2, 2]], [0, 0, 1]), round(imbalance([[4, 0], [0, 4]], [0, 1]), 4)
    (0.0, 0.6931)
    """
    counts, group = np.asarray(counts, np.float64), np.asarray(group)
    number = np.bincount(group)
    pooled = np.zeros((len(number), counts.shape[1]))
    np.add.at(pooled, group, counts)
    fair = np.outer(number / number.sum(), counts.sum(axis=0))
    share = np.divide(pooled, fair, out=np.ones_like(pooled), where=pooled > 0)
    return float((pooled * np.log(share)).sum() / (counts.sum() or 1.0))


def deal(counts: ArrayLike, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Groups of ``size`` clients, the last perhaps smaller, with small imbalance D.

    Local search from a random division: each client in turn swaps with the client of another group that lowers D most,
    until no swap of two lowers it, or :data:`WORK` is done. Another ``rng`` finds another division, about as good.

    >>> groups = deal([[9, 0], [9, 0], [0, 9], [0, 9]], 2, np.random.default_rng(0))
    >>> sorted(sorted((group >= 2).tolist()) for group in groups)
    [[False, True], [False, True]]
    """
    counts = np.asarray(counts, np.float64)
    clients, counts = len(counts), counts / (counts.sum() or 1.0)
    group = np.empty(clients, np.int64)
    group[rng.permutation(clients)] = np.arange(clients) // size
    number = np.bincount(group)
    pooled = np.zeros((len(number), counts.shape[1]))
    np.add.at(pooled, group, counts)
    # a swap changes sum_c q_gc ln q_gc - q_g ln s_g of two groups; q_c and s_g stay
    slope = np.log(number / clients)
    work, swapped = 0, True
    while swapped:
        swapped, cost = False, _cost(pooled, slope)
        for client in rng.permutation(clients):
            if (work := work + 2 * counts.size) > WORK:
                break
            here = group[client]
            moved = counts - counts[client]
            gain = _cost(pooled[here] + moved, slope[here]) + _cost(pooled[group] - moved, slope[group])
            gain -= cost[here] + cost[group]
            gain[group == here] = 0.0
            other = int(gain.argmin())
            if gain[other] < -GAIN:
                there = group[other]
                pooled[here] += moved[other]
                pooled[there] -= moved[other]
                group[client], group[other] = there, here
                cost[[here, there]] = _cost(pooled[[here, there]], slope[[here, there]])
                swapped = True
    return [np.flatnonzero(group == g) for g in range(len(number))]


def _cost(pooled: Floats, slope: Floats | float) -> Floats:
    """The terms of D that a swap changes."""
    positive = np.maximum(pooled, TINY)
    return np.asarray((positive * np.log(positive)).sum(axis=-1) - slope * positive.sum(axis=-1))
