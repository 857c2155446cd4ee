"""What a sketched gradient table costs in accuracy and saves in memory and time.

    python benchmarks/gradient_table.py [--width 62006] [--clients 1000] [--draws 5] [--wide 10000000]

Made-up updates with the structure of label skew: a direction shared by all, one direction a class, mixed by each
client's label shares (Dirichlet 0.1), and noise of its own. Table 1, 100 clients: how far sketched cosines and scores
are off, and how many of the K = 10 that the exact table selects the sketched one selects too ("runner" is how far apart
the exact scores of ranks 10 and 11 are, "chance" is the overlap of random cohorts, "regret" is how much larger the mean
exact score of the sketched minimax cohort is: where neighbours in rank differ by less than the error, another choice
costs next to nothing). Hulls agree least: ten classes alike have eigenvalues alike, and the plane turns with the noise.
Table 2: memory, all cosines, selection and row update for many clients.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, PartState, Update
from entrofed.info.similarity import closest, cosines
from entrofed.selectors.convex_hull import ConvexHull
from entrofed.selectors.gradient_table import GradientTable, sketch
from entrofed.selectors.minimax_sim import MaxSim, MiniMaxSim

CLASSES, COHORT = 10, 10
DIMS = (256, 512, 1024, 2048, 4096, 8192)


def updates(clients: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Shared direction + label shares x class directions + noise, all of length about one."""
    classes = rng.standard_normal((CLASSES, width), dtype=np.float32) / np.float32(np.sqrt(width))
    shared = rng.standard_normal(width, dtype=np.float32) / np.float32(np.sqrt(width))
    shares = rng.dirichlet(np.full(CLASSES, 0.1), clients).astype(np.float32)
    rows = shares @ classes
    for row in rows:
        row += 0.5 * shared + rng.standard_normal(width, dtype=np.float32) * np.float32(0.5 / np.sqrt(width))
    return rows


def table(part: GradientTable, rows: NDArray[np.float32]) -> PartState:
    """The state after everybody has answered once."""
    none = np.zeros(0, np.int64)
    start = Params(np.zeros(rows.shape[1], np.float32), none)
    state = part.init(ClientTable(np.ones(len(rows), np.int64), trainable=rows.shape[1]), np.arange(len(rows)))
    return part.observe(state, start, [Update(k, Params(-row, none), 1, 1, 0.0, 0.0) for k, row in enumerate(rows)])


def choose(part: GradientTable, state: PartState, clients: int) -> list[int]:
    """A cohort of ten."""
    table = ClientTable(np.ones(clients, np.int64))
    return part.select(state, table, np.arange(clients), COHORT, np.random.default_rng(0)).clients


def agreement(width: int, draws: int, clients: int = 100) -> None:
    """Table 1."""
    kinds: tuple[type[GradientTable], ...] = (MiniMaxSim, MaxSim, ConvexHull)
    figures: dict[int, list[list[float]]] = {dim: [] for dim in DIMS}
    gaps = []
    for seed in range(draws):
        rows = updates(clients, width, np.random.default_rng(seed))
        exact, scores = cosines(list(rows)), closest(list(rows))
        gaps.append(np.diff(np.sort(scores))[COHORT - 1])
        best = [set(choose(kind(), table(kind(), rows), clients)) for kind in kinds]
        off = ~np.eye(clients, dtype=bool)
        for dim in DIMS:
            small = [sketch(row, dim) for row in rows]
            errors = np.abs(cosines(small) - exact)[off]
            found = [choose(kind(dim), table(kind(dim), rows), clients) for kind in kinds]
            overlap = [len(one.intersection(two)) for one, two in zip(best, found, strict=True)]
            wrong = scores[found[0]].mean() - scores[sorted(best[0])].mean()
            figures[dim].append([errors.mean(), errors.max(), np.abs(closest(small) - scores).mean(), wrong, *overlap])
    low, high = exact[off].min(), exact[off].max()
    print(f"{clients} clients x {width:,}, {draws} draws; cosines between {low:.2f} and {high:.2f}")
    print(f"runner {np.mean(gaps):.4f}; chance {COHORT * COHORT / clients:.1f} of {COHORT}")
    print("   dim  1/sqrt(dim)  |cos| mean     max  |s| mean  regret   minimax  maxsim    hull (same of 10)")
    for dim, lines in figures.items():
        mean = np.mean(lines, axis=0)
        print(
            f"{dim:6} {dim**-0.5:12.4f} {mean[0]:11.4f} {mean[1]:7.4f} {mean[2]:9.4f} {mean[3]:7.4f}"
            f" {mean[4]:9.1f} {mean[5]:7.1f} {mean[6]:7.1f}"
        )


def seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    """The best of a few."""
    times = []
    for _ in range(repeats):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def cost(clients: int, width: int) -> None:
    """Table 2."""
    rows = updates(clients, width, np.random.default_rng(0))
    print(f"\n{clients} clients x {width:,}\n table      MB   cosines, s   minimax, s   hull, s   row, ms")
    for dim in (None, 1024, 4096):
        states = [(part, table(part, rows)) for part in (MiniMaxSim(dim), ConvexHull(dim))]
        _, kept, _ = states[0][0].table(states[0][1], np.arange(clients))
        took = [seconds(lambda: cosines(kept))]  # noqa: B023 (called at once)
        took += [seconds(lambda: choose(part, state, clients)) for part, state in states]  # noqa: B023
        row = seconds(lambda: table(states[0][0], rows[:10])) / 10  # noqa: B023
        size = sum(array.nbytes for array in kept) / 1e6
        name = "exact" if dim is None else str(dim)
        print(f"{name:>6} {size:7.1f} {took[0]:12.3f} {took[1]:12.3f} {took[2]:9.3f} {1000 * row:9.2f}")


def one_row(width: int) -> None:
    """What a large model costs per client and round."""
    row = np.ones(width, np.float32)
    sketch(row, 4096)
    print(f"\nsketch of {width:,} values to 4096: {seconds(lambda: sketch(row, 4096)):.3f} s; 1000 rows: ", end="")
    print(f"{1000 * 4096 * 4 / 1e6:.1f} MB instead of {1000 * width * 4 / 1e6:,.0f} MB")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=62_006, help="values of a row (LeNet-5)")
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--wide", type=int, default=10_000_000, help="values of a large model")
    options = parser.parse_args()
    agreement(options.width, options.draws)
    cost(options.clients, options.width)
    one_row(options.wide)
