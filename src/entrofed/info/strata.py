"""Deal clients into groups that are each as much like the whole as possible.

With ``q_gc`` the share of all samples that group g holds of class c, ``q_g`` and ``q_c`` its sums, and ``s_g`` the
share of the clients that are in g, the imbalance of a division (nats) is::

    D = sum_gc q_gc ln(q_gc / (s_g q_c)) = I(group; class) + KL(q_g || s_g)

what the number of a group tells of a sample's class (the mutual information), plus how unequal the groups' sizes are.
``I = H(class) - sum_g q_g H(class | g)``: where it is least, the mean entropy of the groups' pooled labels is largest.
D is 0 if, and only if, all groups hold the same number of samples of each class per client.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entrofed.info.entropy import Floats

WORK = 1 << 24
"""Logarithms that a division may take; then it is as good as it is."""
GAIN = 1e-12
"""A swap that lowers D by less is not worth it."""


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
    """Groups of ``size`` clients of small imbalance; what is left over is a smaller group, the last.

    From a random division on, each client in turn changes places with the client of another group with whom D falls
    most, until no swap of two lowers it. Which of the many good divisions comes out depends on where it began.

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
    # of D, what a swap changes: the groups' own q ln q, less q_g ln s_g; classes and clients stay as many as they are
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
    """What a group adds to D, up to what no swap changes."""
    positive = np.maximum(pooled, 1e-300)
    return np.asarray((positive * np.log(positive)).sum(axis=-1) - slope * positive.sum(axis=-1))
