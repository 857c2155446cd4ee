"""How unlike the clients' labels are. Pure functions; counts are ``[client, class]`` with some in every row, in bits.

Clients are looked at a block at a time, so that memory stays bounded however many there are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entrofed.info.divergence import js
from entrofed.info.entropy import Floats, entropy_of_counts

BLOCK = 2**13
"""Clients that are looked at together."""
DRAWN = 2000
"""Clients, at most, whose labels are drawn anew to see what chance does."""


@dataclass(frozen=True)
class Spread:
    """A figure over the clients."""

    mean: float
    std: float
    least: float
    median: float
    most: float

    @classmethod
    def of(cls, values: ArrayLike) -> "Spread":
        """Of one value per client; ``std`` is the population's.

        >>> Spread.of([1.0, 2.0, 6.0])
        Spread(mean=3.0, std=2.160246899469287, least=1.0, median=2.0, most=6.0)
        """
        found = np.asarray(values, np.float64)
        return cls(*(float(f(found)) for f in (np.mean, np.std, np.min, np.median, np.max)))


@dataclass(frozen=True)
class Skew:
    """How unlike the clients' labels are, and what chance alone would make of clients of their sizes."""

    entropy: Spread
    """Of each client's labels; 0 to log2 C."""
    effective: Spread
    """Effective number of classes of each client, ``2^H``."""
    held: Spread
    """Classes of which a client has any."""
    divergence: Spread
    """Jensen-Shannon divergence of each client's labels from the pool's; 0 to 1."""
    sizes: Spread
    gini: float
    largest: float
    """The largest client's share of all samples."""
    pool_entropy: float
    """Of all labels together."""
    pool_effective: float
    chance_entropy: float
    """Mean of the clients' entropies, had their labels been drawn from the pool."""
    chance_divergence: float
    missing: float
    """The share of ``chance_entropy`` that the clients lack on average; 0 where they lack none."""


def skew(counts: NDArray[Any], rng: np.random.Generator) -> Skew:
    """How skewed a federation is; ``rng`` draws what chance would do, for :data:`DRAWN` of the clients at most."""
    pool = counts.sum(axis=0, dtype=np.float64)
    sizes = counts.sum(axis=1, dtype=np.float64)
    shares = pool / pool.sum()
    some = np.arange(len(sizes)) if len(sizes) <= DRAWN else rng.choice(len(sizes), DRAWN, replace=False)
    drawn = rng.multinomial(np.maximum(np.rint(sizes[some]), 1).astype(np.int64), shares)
    entropies, by_chance = label_entropies(counts), float(label_entropies(drawn).mean())
    pooled = float(entropy_of_counts(pool, base="bits"))
    return Skew(
        entropy=Spread.of(entropies),
        effective=Spread.of(2**entropies),
        held=Spread.of((counts > 0).sum(axis=1)),
        divergence=Spread.of(divergences(counts, shares)),
        sizes=Spread.of(sizes),
        gini=gini(sizes),
        largest=float(sizes.max() / sizes.sum()),
        pool_entropy=pooled,
        pool_effective=2**pooled,
        chance_entropy=by_chance,
        chance_divergence=float(divergences(drawn, shares).mean()),
        missing=max(0.0, 1 - float(entropies.mean()) / by_chance) if by_chance else 0.0,
    )


def label_entropies(counts: NDArray[Any]) -> Floats:
    """Entropy of each client's labels.

    >>> label_entropies(np.array([[4, 4], [3, 0]])).tolist()
    [1.0, 0.0]
    """
    return np.concatenate([entropy_of_counts(block, base="bits") for block in _blocks(counts)])


def divergences(counts: NDArray[Any], shares: Floats) -> Floats:
    """Jensen-Shannon divergence of each client's labels from a distribution over the classes.

    >>> divergences(np.array([[2, 2], [5, 0]]), np.array([0.5, 0.5])).round(4).tolist()
    [0.0, 0.3113]
    """
    return np.concatenate([js(block / block.sum(axis=1, keepdims=True), shares) for block in _blocks(counts)]) / log(2)


def gini(sizes: ArrayLike) -> float:
    """Gini coefficient ``sum_i (2 i - n - 1) x_i / (n sum_i x_i)``, x ascending, i = 1..n; 0 if all are equal.

    >>> gini([1, 3])
    0.25
    """
    found = np.sort(np.asarray(sizes, np.float64))
    ranks = 2 * np.arange(1, len(found) + 1) - len(found) - 1
    return float((ranks * found).sum() / (len(found) * found.sum()))


def _blocks(counts: NDArray[Any]) -> Iterator[Floats]:
    for start in range(0, len(counts), BLOCK):
        yield counts[start : start + BLOCK].astype(np.float64)
