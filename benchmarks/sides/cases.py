"""The work that all sides do: the same random samples, networks and schedules."""

import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Case:
    """A network, and the clients that train it."""

    network: str
    shape: tuple[int, ...]
    clients: int
    size: int
    """Samples of a client."""
    cohort: int
    rounds: int
    epochs: int
    batch: int
    peers: int = 0
    """Neighbours of each, where there is no server."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Of the layers of a perceptron; none of a convolutional network."""
        return {"mlp": (784, 256, 128, 10), "toy": (64, 32, 10)}.get(self.network, ())


LR = 0.05
CLASSES = 10
CASES = {
    "lenet5": Case("lenet5", (3, 32, 32), 100, 500, 10, 6, 5, 64),
    "mlp": Case("mlp", (784,), 100, 500, 10, 6, 5, 32),
    "toy": Case("toy", (64,), 30, 50, 10, 20, 1, 10),
    "clients-10k": Case("toy", (64,), 10_000, 20, 50, 20, 1, 20),
    "clients-100k": Case("toy", (64,), 100_000, 20, 50, 20, 1, 20),
    "clients-1m": Case("toy", (64,), 1_000_000, 20, 50, 20, 1, 20),
    "peers-100": Case("toy", (64,), 100, 18, 100, 10, 1, 18, peers=4),
    "peers-1k": Case("toy", (64,), 1000, 18, 1000, 10, 1, 18, peers=4),
    "peers-10k": Case("toy", (64,), 10_000, 18, 10_000, 4, 1, 18, peers=4),
}


def samples(case: Case) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.float32], NDArray[np.int64]]:
    """Training samples, those of client k at ``k * size``, labels, and a small test part; nobody can write to them."""
    rng = np.random.default_rng(0)
    many = case.clients * case.size
    x, y = rng.random((many, *case.shape), np.float32), rng.integers(0, CLASSES, many)
    test_x, test_y = rng.random((1000, *case.shape), np.float32), rng.integers(0, CLASSES, 1000)
    for array in (x, y, test_x, test_y):
        array.flags.writeable = False
    return x, y, test_x, test_y


def cohorts(case: Case) -> list[NDArray[np.int64]]:
    """Who trains in each round."""
    rng = np.random.default_rng(1)
    return [rng.choice(case.clients, case.cohort, replace=False) for _ in range(case.rounds)]


def told(play: Callable[[Case, Callable[[], None]], None]) -> None:
    """Play the case that is named on the command line, and print how long each round took.

    ``play`` gets the case and what to call after each round; what is between its first call and the last counts.
    """
    ends: list[float] = []
    play(CASES[sys.argv[1]], lambda: ends.append(time.perf_counter()))
    print(json.dumps({"rounds": np.diff(ends).tolist()}))
