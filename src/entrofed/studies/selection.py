"""``entrofed study selection``: what selectors choose, without training anything.

A partition of CIFAR-10's label counts (or of as many samples in another number of classes), a selector, some hundred
rounds: how diverse are the pooled labels of the cohorts, how often are all labels there, how many clients ever take
part, and how evenly? Entropies are of the true counts, also where the selector saw noised ones.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Selector
from entrofed.core.seeds import stream
from entrofed.core.types import LABEL_COUNTS, ClientTable
from entrofed.data import PARTITIONS
from entrofed.data.partition import label_counts
from entrofed.info.entropy import entropy_of_counts
from entrofed.privacy.counts import release
from entrofed.registry import build

SAMPLES = 50_000
"""As CIFAR-10 and CIFAR-100 have for training."""


@dataclass(frozen=True)
class Partition:
    """A partitioner with its options."""

    title: str
    kind: str
    options: dict[str, Any]


PARTITION_KINDS = (
    Partition("2 labels a client", "label_quantity", {"labels_per_client": 2}),
    Partition("Dirichlet 0.1", "dirichlet_balanced", {"alpha": 0.1}),
)


def choices(buffers: Sequence[float], epsilons: Sequence[float]) -> Iterator[tuple[str, dict[str, Any], float | None]]:
    """The selectors of the study: a title, the part, and the epsilon of the counts it sees."""
    yield "random", {"name": "random"}, None
    yield "KL", {"name": "kl"}, None
    yield "FedEntOpt", {"name": "fedentopt"}, None
    for buffer in buffers:
        yield f"FedEntOpt, buffer {buffer:.0%}", {"name": "fedentopt", "buffer": buffer}, None
    for epsilon in epsilons:
        yield f"FedEntOpt, epsilon {epsilon:g}", {"name": "fedentopt"}, epsilon


@dataclass(frozen=True)
class Outcome:
    """What one selector came to on one partition."""

    entropy: float
    full_coverage: float
    above: float
    distinct: int
    fairness: float


def play(
    selector: Selector, counts: NDArray[np.int64], kind: str, cohort: int, rounds: int, epsilon: float | None, seed: int
) -> Outcome:
    """Select for some rounds.

    ``full_coverage``: share of cohorts that hold all labels; ``above``: share whose entropy exceeds log2(C - 1), which
    implies all labels; ``fairness``: Jain's index ``(sum n)^2 / (K sum n^2)`` of how often each client took part.
    """
    clients, classes = counts.shape
    seen = counts.astype(np.float64)
    if epsilon is not None:
        seen = release(counts, epsilon, "add_remove", stream(seed, "privacy")).counts
    told = {LABEL_COUNTS: seen} if any(fact.name == LABEL_COUNTS for fact in selector.facts) else {}
    table = ClientTable(sizes=counts.sum(axis=1), classes=classes, partition=kind, facts=told)
    among = np.flatnonzero(table.sizes > 0)
    state = selector.init(table, among)
    times = np.zeros(clients, np.int64)
    pooled = np.zeros((rounds, classes), np.int64)
    for number in range(rounds):
        selection = selector.select(state, table, among, cohort, stream(seed, "select", number))
        state = selection.state
        times[selection.clients] += 1
        pooled[number] = counts[selection.clients].sum(axis=0)
    entropies = entropy_of_counts(pooled, base="bits")
    return Outcome(
        entropy=float(entropies.mean()),
        full_coverage=float((pooled > 0).all(axis=1).mean()),
        above=float((entropies > log2(classes - 1)).mean()),
        distinct=int((times > 0).sum()),
        fairness=float(times.sum() ** 2 / (clients * (times**2).sum())),
    )


def study(
    *,
    clients: int,
    cohort: int,
    rounds: int,
    seeds: int,
    buffers: Sequence[float],
    epsilons: Sequence[float],
    classes: int = 10,
) -> list[dict[str, Any]]:
    """One row per partition kind and selector: mean and spread over partitions drawn with different seeds."""
    labels = np.repeat(np.arange(classes), SAMPLES // classes)
    rows: list[dict[str, Any]] = []
    for kind in PARTITION_KINDS:
        shards = [
            PARTITIONS[kind.kind](labels, clients, stream(seed, "partition"), **kind.options) for seed in range(seeds)
        ]
        tables = [label_counts(labels, dealt, classes) for dealt in shards]
        for title, spec, epsilon in choices(buffers, epsilons):
            part = build("selector", spec)
            found = [play(part, table, kind.kind, cohort, rounds, epsilon, seed) for seed, table in enumerate(tables)]
            row: dict[str, Any] = {"partition": kind.title, "selector": title, "partitions": seeds}
            for metric in ("entropy", "full_coverage", "above", "distinct", "fairness"):
                values = [float(getattr(outcome, metric)) for outcome in found]
                row[metric] = statistics.mean(values)
                row[f"{metric}_std"] = statistics.stdev(values) if len(values) > 1 else None
            rows.append(row)
    return rows
