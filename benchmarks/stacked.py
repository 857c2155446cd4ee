"""Clients that train together (``engine.stack``) against the plain loop, in one process and with one thread.

    python benchmarks/stacked.py [--repeats 5]

Processor time of the training of one round, best of the repeats, sides alternating, as a ratio: above 1, the stack is
faster. The rule of ``auto`` rests on it: see ``LARGEST`` in ``entrofed/experiment/stacking.py``.
"""

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
import torch

from entrofed.backends.base import Backend, Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.stacked import StackedBackend
from entrofed.core.params import Layout
from entrofed.core.tasks import TrainTask
from entrofed.core.types import Training
from entrofed.data.federation import Federation
from entrofed.objectives.cross_entropy import CrossEntropy


@dataclass(frozen=True)
class Case:
    """A perceptron, and a cohort that trains it for one epoch; ``spread``: the largest client over the smallest."""

    widths: tuple[int, ...]
    clients: int
    samples: int
    batch: int
    spread: int = 1


CASES = (
    Case((4, 32, 16, 3), 10, 60, 16),
    Case((64, 32, 10), 30, 50, 10),
    Case((64, 32, 10), 30, 50, 10, spread=9),
    Case((64, 32, 10), 50, 20, 20),
    Case((64, 32, 10), 4, 50, 10),
    Case((64, 64, 10), 10, 200, 32),
    Case((784, 32, 10), 10, 200, 32),
    Case((784, 64, 10), 10, 200, 32),
    Case((784, 128, 10), 10, 200, 32),
    Case((784, 256, 128, 10), 10, 200, 32),
)


def network(widths: Sequence[int]) -> torch.nn.Module:
    """Linear layers with ReLU between them."""
    layers: list[torch.nn.Module] = []
    for inputs, outputs in pairwise(widths):
        layers += [torch.nn.Linear(inputs, outputs), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def measure(case: Case, repeats: int) -> tuple[int, float]:
    """The parameters of the network, and how many times as fast the stack is."""
    rng = np.random.default_rng(0)
    sizes = np.geomspace(1, case.spread, case.clients)
    sizes = np.maximum(1, np.rint(sizes / sizes.mean() * case.samples)).astype(int)
    owners = np.repeat(np.arange(case.clients), sizes)
    x = rng.random((len(owners), case.widths[0]), np.float32)
    y = rng.integers(0, case.widths[-1], len(owners))
    shards = [np.flatnonzero(owners == k) for k in range(case.clients)]
    federation = Federation.from_clients([(x[rows], y[rows]) for rows in shards], test=(x, y), normalize="unit")
    model = network(case.widths)
    layout = Layout.of(model)
    objective, params = CrossEntropy(), layout.read(model)
    training = Training(1, case.batch, "sgd", 0.01, 0.9, 0.0, False, ())
    tasks = [TrainTask(k, 0, 0, params, objective, training, int(size)) for k, size in enumerate(sizes)]
    sides: list[Backend] = [InlineBackend(), StackedBackend(InlineBackend())]
    best = [float("inf")] * len(sides)
    for side in sides:
        side.open(Workload(federation, lambda: network(case.widths), layout))
        side.run(tasks)
    for _ in range(repeats):
        for i, side in enumerate(sides):
            began = time.process_time()
            side.run(tasks)
            best[i] = min(best[i], time.process_time() - began)
    return layout.trainable, best[0] / best[1]


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print("| network | clients x samples | batch | parameters x batch | stacked |\n|---|---|---|---|---|")
    for case in CASES:
        parameters, ratio = measure(case, arguments.repeats)
        samples = f"{case.samples}" + (f" (sizes differ up to {case.spread}-fold)" if case.spread > 1 else "")
        name, work = "-".join(map(str, case.widths)), prod((parameters, min(case.batch, case.samples)))
        print(f"| {name} | {case.clients} x {samples} | {case.batch} | {work:,} | {ratio:.1f}x |", flush=True)


if __name__ == "__main__":
    main()
