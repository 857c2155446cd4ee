"""What can be known of a federation from its label counts alone: skew, cohorts of every size, selectors, noise.

Everything is measured on the counts given. In federations of more than :data:`LARGEST` clients (fewer, if there are
hundreds of classes) selectors, and the greedy cohorts, are given a random sample of so many, another for each seed, and
rounds in proportion, so that clients are used as often as they would be.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Sees
from entrofed.core.seeds import stream
from entrofed.core.types import LABEL_COUNTS
from entrofed.data.count_table import CountTable
from entrofed.errors import ConfigError
from entrofed.experiment.run_folder import method_facts
from entrofed.info.coverage import absence, greedy_cohorts, random_cohorts
from entrofed.info.entropy import Floats
from entrofed.info.skew import Skew, label_entropies, skew
from entrofed.registry import build, known
from entrofed.registry.checks import parameters
from entrofed.studies.selection import Outcome, play
from entrofed.suite.statistics import Interval, interval

LARGEST = 2000
"""Clients that selectors are given at most."""
LARGEST_COHORT = 200
"""Larger cohorts are looked at as if they were so large: they are only more alike."""
WORK = 2 * 10**9
"""Counts that all selectors may look at together: some ten seconds."""
LEAST_ROUNDS = 10
OVERUSED = 1.5
"""How many times as often as with random cohorts the most used client may take part."""
REACH = 0.9
"""The share of the clients that random cohorts use that must take part."""
TOLERANCE = 0.02
"""Entropies (bits) that differ by less do as well."""
DRAWS = 500
"""Random cohorts of each size."""
STARTS = 10
"""Greedy cohorts of each size, of which the best is taken; one more begins with the client of the largest entropy."""
SIZES = (1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500)
CURVE = 100
"""The curve of cohort sizes goes up to this, or to twice the cohort."""
NOT_PLAYED = {
    "full": "takes everybody",
    "poisson": "chooses as 'random' does, with cohorts of any size",
    "scripted": "follows a list",
    "maxent": "chooses for weights of its own, which pooled labels do not show, and takes its time",
    "clustered_size": "looks at sizes alone",
    "estimated_counts": "makes its counts of updates, so there must be training",
}
"""Selectors that could be played and are not, and why."""
RANDOM = "random"


@dataclass(frozen=True)
class Class:
    """A class, by who holds it."""

    name: str
    samples: float
    holders: int
    held_by: tuple[str, ...]
    """The holders' names, of three at most."""
    absent: float
    """Probability that a random cohort lacks it."""


@dataclass(frozen=True)
class CohortSize:
    """What cohorts of one size get together, in bits; ``low`` to ``high`` is where 90 % of random cohorts lie."""

    size: int
    classes_there: float
    """Expected share of the classes that a random cohort holds; exact."""
    all_there: float
    """Probability that a random cohort holds all; from :data:`DRAWS` draws."""
    entropy: float
    low: float
    high: float
    greedy: float


@dataclass(frozen=True)
class Chosen:
    """What a selector gets together, means over seeds with 95 % intervals; ``gain`` is over random cohorts, in bits."""

    title: str
    selector: dict[str, Any]
    entropy: Interval
    by_seed: tuple[float, ...]
    """The entropy, seed by seed."""
    gain: Interval
    all_there: float
    """Share of the cohorts that hold every class."""
    reach: float
    """Clients that took part, as a share of the most that could have."""
    most_used: float
    """The share of the rounds in which the client took part that did so most often."""
    tells_counts: bool


@dataclass(frozen=True)
class Noised:
    """The best selector on noised counts; ``cost`` is the entropy (bits, of the true counts) that the noise costs."""

    epsilon: float
    scale: float
    """Of the Laplace noise on each count."""
    entropy: Interval
    cost: Interval


@dataclass(frozen=True)
class Methods:
    """Methods whose server must see as much, and whose clients must tell the same."""

    sees: Sees
    names: tuple[str, ...]
    once: tuple[str, ...]
    each_round: tuple[str, ...]


@dataclass(frozen=True)
class Findings:
    """All of it."""

    clients: int
    """That hold anything."""
    empty_clients: int
    samples: float
    whole: bool
    """Whether the counts are whole numbers; if not, they were noised, and are not noised again."""
    cohort: int
    rounds: int
    seeds: int
    sampled: int
    """Clients that the selectors were given."""
    skew: Skew
    classes: tuple[Class, ...]
    """The scarcest first."""
    unheld: tuple[str, ...]
    sizes: tuple[CohortSize, ...]
    selectors: tuple[Chosen, ...]
    """The largest entropy first; empty if all clients are in every cohort."""
    preferred: str
    """The title of the one that :func:`preferred` chooses; empty if none works on counts."""
    noise: tuple[Noised, ...]
    """Of that one."""
    methods: tuple[Methods, ...]


def find(
    table: CountTable, *, cohort: int, rounds: int, seeds: int, buffers: Sequence[float], epsilons: Sequence[float]
) -> Findings:
    """Measure everything; cohorts are drawn among the clients that hold something."""
    there = np.flatnonzero(table.counts.any(axis=1))
    counts = table.counts if len(there) == len(table.counts) else table.counts[there]
    names = [table.names[client] for client in there]
    clients, whole = len(counts), table.whole
    size = min(cohort, LARGEST_COHORT)
    room = WORK // (len(table.classes) * size * seeds * (len(buffers) + len(epsilons) + 1))
    sampled = min(clients, max(min(LARGEST, room // LEAST_ROUNDS), 4 * size))
    in_proportion = max(ceil(rounds * sampled / clients), LEAST_ROUNDS)
    played = max(1, min(rounds, in_proportion, room // sampled))
    simulation = _Simulation(counts, size, played, seeds, sampled)
    chosen = simulation.selectors(buffers) if size < clients else ()
    best = preferred(chosen)
    noise = simulation.noise(best, epsilons) if best is not None and whole else ()
    return Findings(
        clients=clients,
        empty_clients=len(table.counts) - clients,
        samples=float(counts.sum()),
        whole=whole,
        cohort=size,
        rounds=played,
        seeds=seeds,
        sampled=sampled,
        skew=skew(counts, stream(0, "skew by chance")),
        classes=_classes(counts, table.classes, names, size),
        unheld=table.unheld,
        sizes=_cohort_sizes(counts, size, simulation.sample(0)),
        selectors=chosen,
        preferred="" if best is None else best.title,
        noise=noise,
        methods=methods_by_what_is_seen(),
    )


def preferred(chosen: Sequence[Chosen]) -> Chosen | None:
    """The best of the selectors that work on counts and use clients evenly; if none does, of all that work on counts.

    Those within :data:`TOLERANCE` of the largest entropy are as good; of these, who overuses clients least.
    """
    working = [one for one in chosen if one.tells_counts]
    by_chance = next((one for one in chosen if one.title == RANDOM), None)
    even = [one for one in working if by_chance is not None and is_even(one, by_chance)] or working
    best = max((one.entropy.mean for one in even), default=0.0)
    good = [one for one in even if one.entropy.mean >= best - TOLERANCE]
    return min(good, key=lambda one: (round(one.most_used, 2), -one.reach), default=None)


def is_even(one: Chosen, by_chance: Chosen) -> bool:
    """Whether a selector uses nobody much more often, and not many fewer clients, than random cohorts do."""
    return one.most_used <= OVERUSED * by_chance.most_used and one.reach >= REACH * by_chance.reach


def _classes(counts: Floats, classes: Sequence[str], names: Sequence[str], cohort: int) -> tuple[Class, ...]:
    holders = (counts > 0).sum(axis=0)
    absent = absence(holders, len(counts), [cohort])[0]
    found = [
        Class(
            name=classes[c],
            samples=float(counts[:, c].sum()),
            holders=int(holders[c]),
            held_by=tuple(names[k] for k in np.flatnonzero(counts[:, c]).tolist()) if holders[c] <= 3 else (),
            absent=float(absent[c]),
        )
        for c in range(len(classes))
    ]
    return tuple(sorted(found, key=lambda one: one.holders))


def _cohort_sizes(counts: Floats, cohort: int, sample: Floats) -> tuple[CohortSize, ...]:
    clients, most = len(counts), min(len(sample), max(CURVE, 2 * cohort))
    sizes = sorted({size for size in (*SIZES, cohort, most) if size <= most})
    absent = absence((counts > 0).sum(axis=0), clients, sizes)
    entropies, covered = random_cohorts(counts, sizes, DRAWS, stream(0, "random cohorts"))
    low, high = np.quantile(entropies, (0.05, 0.95), axis=0)
    columns = (1 - absent.mean(axis=1), covered.mean(axis=0), entropies.mean(axis=0), low, high)
    starts = stream(0, "greedy cohorts").choice(len(sample), min(STARTS, len(sample)), replace=False).tolist()
    greedy = greedy_cohorts(sample, sizes, [int(label_entropies(sample).argmax()), *starts])
    return tuple(CohortSize(size, *map(float, row)) for size, *row in zip(sizes, *columns, greedy, strict=True))


@dataclass(frozen=True)
class _Simulation:
    """Selectors at work on the counts of clients that all hold something."""

    counts: Floats
    cohort: int
    rounds: int
    seeds: int
    sampled: int

    def sample(self, seed: int) -> Floats:
        if self.sampled == len(self.counts):
            return self.counts
        rows = stream(seed, "sample of clients").choice(len(self.counts), self.sampled, replace=False)
        return self.counts[np.sort(rows)]

    def play(self, spec: dict[str, Any], epsilon: float | None = None) -> list[Outcome]:
        part = build("selector", spec)
        return [
            play(part, self.sample(seed), "", self.cohort, self.rounds, epsilon, seed) for seed in range(self.seeds)
        ]

    def selectors(self, buffers: Sequence[float]) -> tuple[Chosen, ...]:
        by_chance = _entropies(self.play({"name": RANDOM}))
        found = []
        for title, spec in count_based(buffers, self.sampled, self.cohort):
            outcomes = self.play(spec)
            bits = _entropies(outcomes)
            one = Chosen(
                title=title,
                selector=spec,
                entropy=interval(bits),
                by_seed=tuple(bits.tolist()),
                gain=interval(bits - by_chance),
                all_there=float(np.mean([outcome.full_coverage for outcome in outcomes])),
                reach=float(np.mean([outcome.distinct for outcome in outcomes]))
                / min(self.sampled, self.rounds * self.cohort),
                most_used=float(np.mean([outcome.most_used for outcome in outcomes])),
                tells_counts=bool(build("selector", spec).facts),
            )
            found.append(one)
        return tuple(sorted(found, key=lambda one: -one.entropy.mean))

    def noise(self, chosen: Chosen, epsilons: Sequence[float]) -> tuple[Noised, ...]:
        exact, found = np.array(chosen.by_seed), []
        for epsilon in epsilons:
            bits = _entropies(self.play(chosen.selector, epsilon))
            found.append(Noised(epsilon, 1 / epsilon, interval(bits), interval(exact - bits)))
        return tuple(found)


def _entropies(outcomes: Sequence[Outcome]) -> NDArray[np.float64]:
    return np.array([outcome.entropy for outcome in outcomes])


def count_based(buffers: Sequence[float], clients: int, cohort: int) -> list[tuple[str, dict[str, Any]]]:
    """Every selector that needs nothing but label counts, by title; one with a buffer is there with each that fits.

    A buffer fits if it leaves a cohort to choose, and differs from the others by a client at least.
    """
    found: list[tuple[str, dict[str, Any]]] = []
    for name, maker in known("selector").items():
        try:
            part = build("selector", name)
        except ConfigError:  # it needs hyperparameters that nobody gives
            continue
        if name in NOT_PLAYED or part.needs or any(fact.name != LABEL_COUNTS for fact in part.facts):
            continue
        if part.sees != "sum":  # it looks at updates, and there are none
            continue
        if "buffer" not in parameters(maker):
            found.append((name, {"name": name}))
            continue
        capacities = {int(share * clients + 1e-9): share for share in sorted(buffers, reverse=True)}
        for capacity, share in sorted(capacities.items()):
            if capacity <= clients - cohort:
                found.append((f"{name}, buffer {share:.0%}", {"name": name, "buffer": share}))
    return found


def methods_by_what_is_seen() -> tuple[Methods, ...]:
    """All methods, those first whose server needs to see sums only."""
    alike: dict[tuple[Sees, tuple[str, ...], tuple[str, ...]], list[str]] = {}
    for name, recipe in known("method").items():
        method = recipe()
        told = method_facts(method)["reveals"]
        alike.setdefault((method.sees, tuple(told["once"]), tuple(told["each_round"][1:])), []).append(name)
    order: list[Sees] = ["sum", "scalars", "models"]
    ranked = sorted(alike.items(), key=lambda item: (order.index(item[0][0]), len(item[0][1]) + len(item[0][2])))
    return tuple(Methods(sees, tuple(names), once, each) for (sees, once, each), names in ranked)
