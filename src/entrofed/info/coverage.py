"""What cohorts of each size get together: which classes, how evenly. Pure functions; counts are ``[client, class]``.

A random cohort is a uniform draw without replacement. ``sizes`` are cohort sizes in ascending order.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from entrofed.info.entropy import Floats, entropy_of_counts
from entrofed.info.greedy import TIE
from entrofed.info.screen import prepared


def absence(holders: ArrayLike, clients: int, sizes: Sequence[int]) -> Floats:
    """Probability ``(N - h choose m) / (N choose m)`` that none of h clients is in a random cohort: ``[size, class]``.

    >>> absence([1, 2, 4], clients=4, sizes=[1, 2]).round(4).tolist()
    [[0.75, 0.5, 0.0], [0.5, 0.1667, 0.0]]
    """
    others = clients - np.asarray(holders)
    rows = []
    for size in sizes:
        left = np.maximum(others - size, 0)
        gammaln = scipy.special.gammaln
        logarithm = gammaln(others + 1) - gammaln(left + 1) - gammaln(clients + 1) + gammaln(clients - size + 1)
        rows.append(np.where(others >= size, np.exp(np.minimum(logarithm, 0)), 0.0))
    return np.array(rows)


def random_cohorts(
    counts: NDArray[Any], sizes: Sequence[int], draws: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.bool_]]:
    """Entropy (bits) of the pooled labels of random cohorts, and whether every class is there: ``[draw, size]``.

    A draw is one order of clients; its cohorts of all sizes are the first of it.
    """
    ends = np.asarray(sizes) - 1
    entropies, covered = np.zeros((draws, len(ends))), np.zeros((draws, len(ends)), np.bool_)
    for draw in range(draws):
        order = rng.choice(len(counts), sizes[-1], replace=False)
        pooled = counts[order].cumsum(axis=0)[ends]
        entropies[draw], covered[draw] = entropy_of_counts(pooled, base="bits"), (pooled > 0).all(axis=1)
    return entropies, covered


def greedy_cohorts(counts: Floats, sizes: Sequence[int], starts: Sequence[int]) -> Floats:
    """Largest entropy (bits) of cohorts that begin with one of ``starts`` and grow by the client that adds most.

    Ties by lower number. Of each size there may be a better cohort, which greedy steps do not find.

    >>> greedy_cohorts(np.array([[9.0, 0.0], [2.0, 1.0], [0.0, 8.0]]), [1, 2, 3], starts=[0, 1]).round(4).tolist()
    [0.9183, 0.9975, 0.9928]
    """
    best = np.zeros(len(sizes))
    for start in starts:
        candidates, pooled, bits = prepared(counts, np.arange(len(counts))), np.zeros(counts.shape[1]), list[float]()
        client = int(start)
        for size in range(1, sizes[-1] + 1):
            if size > 1:
                leaders, entropies = candidates.leaders(pooled)
                client = int(leaders[entropies >= entropies.max() - TIE][0])
            candidates.remove(client)
            pooled += counts[client]
            bits.append(float(entropy_of_counts(pooled, base="bits")))
        best = np.maximum(best, [bits[size - 1] for size in sizes])
    return best
