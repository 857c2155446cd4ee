"""How balanced are the labels that a round learns from, once clients are chosen *and* weighed, and of how much data?

    python benchmarks/effective_labels.py [--data-dir DIR] [--results docs/results]

For every run of CIFAR-10 that is stored with ``record/cifar10`` and ``fedentopt/table1`` (Dirichlet 0.1 and IID): the
round's effective label distribution is the mixture of its clients' labels by their weights, and what it lacks is
its divergence from the uniform distribution (nats), mean of all rounds; the same for its moving average (0.9), which is
what a server with momentum 0.9 moves along. A client counts by its weight (shares: it learns all it can in a round), or
by its weight times its examples (counts: steps are small). In the latter case, with ``c_k`` the sum over all rounds,
``(sum c)^2 / sum(c_k^2 / n_k)`` of the N examples would give as much information if all counted alike: the effective
data. Cohorts and weights come from the stored results, label counts from the partition of each run's seed.
Prints a table in Markdown; ``docs/fedmaxent.md`` shows it.
"""

import argparse
import tomllib
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entrofed.experiment.build import federate
from entrofed.experiment.config import parse
from entrofed.info.divergence import kl
from entrofed.papers.results import Result, read

TABLES = {"record-cifar10": ("dir0.1", "iid"), "fedentopt-table1": ("cifar10-dir0.1",)}
BETA = 0.9


def mixtures(
    label_counts: NDArray[np.float64], cohorts: Sequence[Sequence[int]], weights: Sequence[Sequence[float]]
) -> NDArray[np.float64]:
    """The effective label distributions ``[round, class]`` of rounds with these clients and weights.

    >>> mixtures(np.array([[4.0, 0.0], [1.0, 1.0]]), [[0, 1], [1]], [[0.5, 0.5], [1.0]]).tolist()
    [[0.75, 0.25], [0.5, 0.5]]
    """
    shares = label_counts / label_counts.sum(axis=1, keepdims=True)
    rounds = [np.array(w) @ shares[list(c)] / np.sum(w) for c, w in zip(cohorts, weights, strict=True) if c]
    return np.array(rounds)


def moving(rows: NDArray[np.float64], beta: float = BETA) -> NDArray[np.float64]:
    """Their moving average, which begins with the first.

    >>> moving(np.array([[1.0, 0.0], [0.0, 1.0]])).round(2).tolist()
    [[1.0, 0.0], [0.9, 0.1]]
    """
    averages = [rows[0]]
    for row in rows[1:]:
        averages.append(beta * averages[-1] + (1 - beta) * row)
    return np.array(averages)


def effective(
    sizes: NDArray[np.float64], cohorts: Sequence[Sequence[int]], weights: Sequence[Sequence[float]]
) -> float:
    """The share of the data that counts, if it counts by weight and examples.

    >>> effective(np.array([10.0, 30.0]), [[0], [1]], [[1.0], [1.0]]), effective(np.array([10.0, 30.0]), [[1]], [[1.0]])
    (1.0, 0.75)
    """
    total = np.zeros(len(sizes))
    for cohort, weight in zip(cohorts, weights, strict=True):
        total[list(cohort)] += np.array(weight) * sizes[list(cohort)]
    return float(total.sum() ** 2 / (np.square(total) / sizes).sum() / sizes.sum())


def measured(found: Result, data: Path | None) -> list[float]:
    """What rounds and their moving average lack (nats), of shares and of counts; the effective share of the data."""
    experiment = parse(tomllib.loads(found.experiment), stored=True)
    counts = np.asarray(federate(experiment.data, found.seed, data).label_counts, np.float64)
    sizes, uniform = counts.sum(axis=1), np.full(counts.shape[1], 1 / counts.shape[1])
    cohorts, weights = found.course["cohort"], found.course["weights"]
    by_examples = [np.array(w) * sizes[list(c)] for c, w in zip(cohorts, weights, strict=True)]
    lacks = []
    for how in (weights, by_examples):
        rounds = mixtures(counts, cohorts, how)
        lacks += [float(kl(rounds, uniform).mean()), float(kl(moving(rounds), uniform).mean())]
    return [*lacks, effective(sizes, cohorts, weights)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    parser.add_argument("--data-dir", type=Path)
    asked = parser.parse_args()
    columns = defaultdict(list)
    for table, cells in TABLES.items():
        for found in read(asked.results / f"{table}.parquet"):
            if found.cell in cells:
                label = found.column + (", IID clients" if found.cell == "iid" else "")
                columns[label].append(measured(found, asked.data_dir))
    print("| column | seeds | round, shares | average, shares | round, counts | average, counts | effective data |")
    print("|---|---|---|---|---|---|---|")
    for label, values in sorted(columns.items(), key=lambda item: np.mean(item[1], axis=0)[0]):
        *lacks, data = np.mean(values, axis=0)
        print(f"| {label} | {len(values)} | {' | '.join(f'{value:.4f}' for value in lacks)} | {data:.0%} |")


if __name__ == "__main__":
    main()
