"""FedEntOpt's selection of one round: the numpy formula everyone writes against ours, in one run.

    python benchmarks/greedy_selection.py [--clients 1000000] [--repeats 3]

Both sides pick M of K clients with C classes, from the same counts and with the same first pick; they must pick the
same clients. Best of the repeats, sides alternating. The first table varies the data, the second M, K and C, one at
a time: the last column should stay about the same where the cost is linear.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from entrofed.core.types import ClientTable
from entrofed.selectors.fedentopt import LabelEntropyGreedy

Counts = NDArray[np.float64]


def skewed(clients: int, classes: int, rng: np.random.Generator, most: int = 100) -> Counts:
    """Dirichlet(0.3) shares of up to ``most`` examples; everybody has one at least."""
    shares = rng.standard_gamma(0.3, (clients, classes)) + 1e-9
    counts: Counts = np.floor(shares / shares.sum(axis=1, keepdims=True) * rng.integers(10, most + 1, (clients, 1)))
    counts[np.arange(clients), shares.argmax(axis=1)] += 1
    return counts


def even(clients: int, classes: int, rng: np.random.Generator) -> Counts:
    """A hundred examples each, all classes equally likely."""
    return rng.multinomial(100, [1 / classes] * classes, clients).astype(np.float64)


def two_labels(clients: int, classes: int, rng: np.random.Generator) -> Counts:
    """Fifty examples of each of two classes: nearly all comparisons are ties."""
    first = rng.integers(classes, size=clients)
    counts = np.zeros((clients, classes))
    counts[np.arange(clients), first] = 50
    counts[np.arange(clients), (first + rng.integers(1, classes, clients)) % classes] = 50
    return counts


def noised(clients: int, classes: int, rng: np.random.Generator) -> Counts:
    """Skewed counts with Laplace noise: no whole numbers."""
    return np.maximum(skewed(clients, classes, rng) + rng.laplace(scale=2, size=(clients, classes)), 0)


DATA: dict[str, Callable[[int, int, np.random.Generator], Counts]] = {
    "skewed, up to 100": skewed,
    "skewed, up to 1000": lambda clients, classes, rng: skewed(clients, classes, rng, 1000),
    "even": even,
    "two labels of 50": two_labels,
    "noised": noised,
}


def direct(counts: Counts, size: int, first: int) -> list[int]:
    """The formula as it is written down, for all clients at once."""
    picked = [first]
    pooled = counts[first].copy()
    while len(picked) < size:
        total = pooled + counts
        p = total / total.sum(axis=1, keepdims=True)
        entropies = -(p * np.log2(p, where=p > 0, out=np.zeros_like(p))).sum(axis=1)
        entropies[picked] = -1
        picked.append(int(np.argmax(entropies >= entropies.max() - 1e-12)))
        pooled += counts[picked[-1]]
    return picked


def measure(name: str, counts: Counts, size: int, repeats: int) -> None:
    """Time both sides and print a line."""
    clients, classes = counts.shape
    part, everybody = LabelEntropyGreedy(buffer=0), np.arange(clients)
    table = ClientTable(np.maximum(counts.sum(axis=1), 1).astype(np.int64), facts={"label_counts": counts})
    state = part.init(table, everybody)
    best = [float("inf")] * 2
    for seed in range(repeats):
        began = time.perf_counter()
        ours = part.select(state, table, everybody, size, np.random.default_rng(seed)).clients
        between = time.perf_counter()
        theirs = direct(counts, size, ours[0])
        best = [min(best[0], between - began), min(best[1], time.perf_counter() - between)]
        if ours != theirs:
            raise SystemExit(f"{name}: {ours} picked, but {theirs} by the plain formula")
    seconds, plain = best
    steps = (size - 1) * clients * classes
    print(
        f"{name:20} {size:4} {clients:8} {classes:4} {1000 * plain:9.1f} {1000 * seconds:9.1f} "
        f"{plain / seconds:6.1f}x {1e9 * seconds / steps:10.2f}",
        flush=True,
    )


def main(clients: int, repeats: int) -> None:
    """Both tables."""
    print(f"{'data':20} {'M':>4} {'K':>8} {'C':>4} {'plain ms':>9} {'ours ms':>9} {'faster':>7} {'ns/(M-1)KC':>10}")
    for name, make in DATA.items():
        measure(name, make(clients, 10, np.random.default_rng(0)), 10, repeats)
    few = max(clients // 5, 1)
    cases = [(5, few, 10), (10, few, 10), (20, few, 10), (40, few, 10)]
    cases += [(10, few // 2, 10), (10, few * 2, 10), (10, few * 5, 10)]
    cases += [(10, few, 5), (10, few, 20), (10, few, 40)]
    for size, number, classes in cases:
        measure("skewed, up to 100", skewed(number, classes, np.random.default_rng(0)), size, repeats)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    main(arguments.clients, arguments.repeats)
