"""FedEntOpt's greedy selection against the formula as everyone writes it, on the same data, with the same picks.

    python benchmarks/greedy_selection.py [--repeats 3] [--alpha 0.3]

The direct side computes ``p = (L + l) / sum`` and ``-sum p log2 p`` for all clients at every pick. Best of the
repeats, sides alternating. Then how the cost grows with the cohort, the clients and the classes.
"""

import argparse
import time

import numpy as np
from numpy.typing import NDArray

from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.types import Ledger


def federation(clients: int, classes: int, alpha: float) -> NDArray[np.float64]:
    """Label counts of clients with about fifty examples, skewed by a Dirichlet draw."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(10, 91, clients)
    return rng.multinomial(sizes, rng.dirichlet(np.full(classes, alpha), clients)).astype(np.float64)


def direct(counts: NDArray[np.float64], size: int, first: int) -> list[int]:
    """The greedy loop with the plain formula."""
    picked, free = [first], np.ones(len(counts), np.bool_)
    free[first] = False
    pooled = counts[first].copy()
    while len(picked) < size:
        together = pooled + counts
        p = together / together.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            scores = -np.where(p > 0, p * np.log2(p), 0.0).sum(axis=1)
        scores[~free] = -np.inf
        best = int(np.flatnonzero(scores >= scores.max() - 1e-12)[0])
        picked.append(best)
        free[best] = False
        pooled += counts[best]
    return picked


def ours(ledger: Ledger, size: int) -> list[int]:
    """The selector as it runs in a round, without a buffer."""
    part = LabelEntropyGreedy(buffer=0)
    among = np.arange(len(ledger.sizes))
    return part.select(part.init(ledger, among), ledger, among, size, np.random.default_rng(1)).clients


def measure(clients: int, classes: int, size: int, alpha: float, repeats: int, *, both: bool) -> str:
    """Seconds of both sides, or of ours alone."""
    counts = federation(clients, classes, alpha)
    ledger = Ledger(sizes=counts.sum(axis=1).astype(np.int64), label_counts=counts)
    best = {"direct": float("inf"), "ours": float("inf")}
    for _ in range(repeats):
        began = time.perf_counter()
        found = ours(ledger, size)
        best["ours"] = min(best["ours"], time.perf_counter() - began)
        if both:
            began = time.perf_counter()
            plain = direct(counts, size, found[0])
            best["direct"] = min(best["direct"], time.perf_counter() - began)
            if plain != found:
                raise SystemExit(f"the picks differ: {plain} and {found}")
    line = f"M {size:3}  K {clients:9,}  C {classes:3}  ours {best['ours']:7.3f} s"
    return line + (f"  direct {best['direct']:7.3f} s  {best['direct'] / best['ours']:5.1f}x" if both else "")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--alpha", type=float, default=0.3)
    options = parser.parse_args()
    print(measure(1_000_000, 10, 10, options.alpha, options.repeats, both=True))
    for m, k, c in ((5, 200_000, 10), (10, 200_000, 10), (20, 200_000, 10), (10, 400_000, 10), (10, 200_000, 20)):
        print(measure(k, c, m, options.alpha, options.repeats, both=False))
