"""``entrofed study selection``: what selectors choose, without training anything.

A partition of CIFAR-10's label counts (or of as many samples in another number of classes), or somebody's own counts, a
selector, some hundred rounds: how diverse are the pooled labels of the cohorts, how often are all labels there, how
many clients ever take part, and how evenly? Entropies are of the true counts, also where the selector saw noised ones.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log2
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Selector
from entrofed.core.seeds import stream
from entrofed.core.types import LABEL_COUNTS, ClientTable
from entrofed.data import PARTITIONS
from entrofed.data.count_table import CountTable
from entrofed.data.partition import label_counts
from entrofed.errors import ConfigError
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
    Partition("2 labels per client", "label_quantity", {"labels_per_client": 2}),
    Partition("Dirichlet 0.1", "dirichlet_balanced", {"alpha": 0.1}),
)


def choices(buffers: Sequence[float], epsilons: Sequence[float]) -> Iterator[tuple[str, dict[str, Any], float | None]]:
    """All selectors that choose by counts, and random: a title, the part, and the epsilon of the counts it sees."""
    yield "random", {"name": "random"}, None
    yield "KL", {"name": "kl"}, None
    yield "Fed-CBS", {"name": "class_balanced"}, None
    yield "maxent", {"name": "maxent"}, None
    yield "stratified", {"name": "stratified"}, None
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
    most_used: float


def play(
    selector: Selector, counts: NDArray[Any], kind: str, cohort: int, rounds: int, epsilon: float | None, seed: int
) -> Outcome:
    """Select for some rounds.

    ``full_coverage``: share of cohorts that hold all labels; ``above``: share whose entropy exceeds log2(C - 1), which
    implies all labels; ``fairness``: Jain's index ``(sum n)^2 / (K sum n^2)`` of how often each client took part;
    ``most_used``: the share of the rounds in which the client took part that did so most often.
    """
    clients, classes = counts.shape
    seen = counts.astype(np.float64)
    if epsilon is not None:
        seen = release(counts.astype(np.int64), epsilon, "add_remove", stream(seed, "privacy")).counts
    told = {LABEL_COUNTS: seen} if any(fact.name == LABEL_COUNTS for fact in selector.facts) else {}
    sizes = np.ceil(counts.sum(axis=1)).astype(np.int64)
    table = ClientTable(sizes=sizes, classes=classes, partition=kind, facts=told)
    among = np.flatnonzero(table.sizes > 0)
    state = selector.init(table, among)
    times = np.zeros(clients, np.int64)
    pooled = np.zeros((rounds, classes))
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
        fairness=float(times.sum() ** 2 / (len(among) * (times**2).sum())),
        most_used=float(times.max() / rounds),
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
        rows += _rows(kind.title, kind.kind, tables, cohort, rounds, choices(buffers, epsilons))
    return rows


def study_counts(
    table: CountTable,
    title: str,
    *,
    cohort: int,
    rounds: int,
    seeds: int,
    buffers: Sequence[float],
    epsilons: Sequence[float],
) -> list[dict[str, Any]]:
    """One row per selector on the same counts: mean and spread over draws with different seeds.

    Counts that are not whole were noised before, and are not noised again.
    """
    check_cohort(cohort, table)
    chosen = choices(buffers, epsilons if table.whole else ())
    return _rows(title, "", [table.counts] * seeds, cohort, rounds, chosen)


def check_cohort(cohort: int, table: CountTable) -> None:
    """Raise a ConfigError if there are not so many clients to choose from."""
    there = int(table.counts.any(axis=1).sum())
    if not 1 <= cohort <= there:
        raise ConfigError(f"cohort = {cohort}: {there} clients hold samples; choose from 1 to {there}")


def _rows(
    title: str,
    kind: str,
    tables: Sequence[NDArray[Any]],
    cohort: int,
    rounds: int,
    chosen: Iterable[tuple[str, dict[str, Any], float | None]],
) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for selector, spec, epsilon in chosen:
        part = build("selector", spec)
        found = [play(part, table, kind, cohort, rounds, epsilon, seed) for seed, table in enumerate(tables)]
        row: dict[str, Any] = {"partition": title, "selector": selector, "partitions": len(tables)}
        for metric in ("entropy", "full_coverage", "above", "distinct", "fairness"):
            values = [float(getattr(outcome, metric)) for outcome in found]
            row[metric] = statistics.mean(values)
            row[f"{metric}_std"] = statistics.stdev(values) if len(values) > 1 else None
        rows.append(row)
    return rows
