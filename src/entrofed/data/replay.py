"""The partition and the cohorts of the public FedKLEntropy runs, drawn as their script drew them.

The script shuffles with Python's ``random`` and draws proportions with numpy's legacy generator, both seeded with 42.
Here both are generators of our own, so that nothing else is disturbed.
"""

from random import Random

import numpy as np
from numpy.random import Generator, RandomState
from numpy.typing import NDArray

from entrofed.data.partition import Indices, dealt_counts, dirichlet_rows, number_of_classes, require_positive

SEED = 42


def fedklentropy_replay(labels: Indices, clients: int, rng: Generator | RandomState, *, alpha: float) -> list[Indices]:
    """`dirichlet_plain` as the public FedKLEntropy runs drew it, with their seed; ``rng`` is not used."""
    shards, _ = _replay(labels, clients, alpha)
    return [np.sort(shard) for shard in shards]


def replayed_cohorts(
    labels: Indices, clients: int, *, alpha: float, tests: int, rounds: int, size: int
) -> list[tuple[int, ...]]:
    """The cohorts of those runs: the script's draws after it dealt out the data and shuffled the test set."""
    _, random = _replay(labels, clients, alpha)
    random.shuffle(list(range(tests)))
    return [tuple(random.sample(range(clients), size)) for _ in range(rounds)]


def _replay(labels: Indices, clients: int, alpha: float) -> tuple[list[NDArray[np.int64]], Random]:
    classes = number_of_classes(labels, clients)
    require_positive("alpha", alpha)
    random, legacy = Random(SEED), RandomState(SEED)
    members = [np.flatnonzero(labels == c).tolist() for c in range(classes)]
    for of_class in members:
        random.shuffle(of_class)
    counts = dealt_counts(dirichlet_rows(legacy, alpha, clients, classes), np.array([len(m) for m in members]))
    ends = counts.cumsum(axis=1)
    shards = []
    for k in range(clients):
        shard = [i for c in range(classes) for i in members[c][ends[c, k] - counts[c, k] : ends[c, k]]]
        random.shuffle(shard)
        shards.append(np.array(shard, np.int64))
    return shards, random
