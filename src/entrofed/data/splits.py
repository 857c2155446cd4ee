"""Splits of rows into two parts: the same rows as scikit-learn's ``train_test_split`` with ``random_state = seed``.

The papers' tables were split with it. To import scikit-learn for that takes as long as to train on them.

>>> split(5, 0.4, seed=42)
(array([2, 0, 3]), array([1, 4]))
"""

from math import ceil

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Rows = NDArray[np.int64]


def split(rows: int, share: float, *, seed: int) -> tuple[Rows, Rows]:
    """The numbers of the rows for training, and of the ``share`` (rounded up) for testing."""
    tested = ceil(share * rows)
    order = RandomState(seed).permutation(rows)
    return order[tested:], order[:tested]


def stratified_split(labels: NDArray[np.int64], share: float, *, seed: int) -> tuple[Rows, Rows]:
    """Likewise, with the same share of every class in both parts, as nearly as whole rows allow.

    Each class gives the whole part of its quota; who gives one more has the largest remainder, by lot where several
    have the same.

    >>> train, test = stratified_split(np.array([0, 0, 0, 0, 1, 1]), 1 / 3, seed=0)
    >>> sorted(train.tolist()), sorted(test.tolist())
    ([1, 2, 3, 4], [0, 5])
    """
    rng, rows = RandomState(seed), len(labels)
    tested = ceil(share * rows)
    _, sizes = np.unique(labels, return_counts=True)
    members = np.split(np.argsort(labels, kind="stable"), np.cumsum(sizes)[:-1])
    trained = _quotas(sizes, rows - tested, rng)
    held = _quotas(sizes - trained, tested, rng)
    train: list[Rows] = []
    test: list[Rows] = []
    for own, first, then in zip(members, trained, held, strict=True):
        drawn = own[rng.permutation(len(own))]
        train.append(drawn[:first])
        test.append(drawn[first : first + then])
    return rng.permutation(np.concatenate(train)), rng.permutation(np.concatenate(test))


def _quotas(sizes: Rows, drawn: int, rng: RandomState) -> Rows:
    """How many of so many drawn rows come from each class."""
    quotas = sizes / sizes.sum() * drawn
    whole = np.floor(quotas)
    remainders, left = quotas - whole, int(drawn - whole.sum())
    for remainder in np.unique(remainders)[::-1]:
        if left == 0:
            break
        alike = np.flatnonzero(remainders == remainder)
        more = rng.choice(alike, size=min(len(alike), left), replace=False)
        whole[more] += 1
        left -= len(more)
    return np.asarray(whole, np.int64)
