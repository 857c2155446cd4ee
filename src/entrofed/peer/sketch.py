"""A short stand-in for each round's model, kept at home, from which distances between peers follow when they pool their
folders for a report.

A count sketch: every value is added, with a random sign, to one of 1024 sums; distances between sketches are those
between models with a relative error of about ``1 / sqrt(2 * 1024)``, 2 %. Models of up to 1024 values are kept as they
are. Signs and places come from the run's seed, so they are the same for all peers.

Reference: Charikar, Chen and Farach-Colton, Finding frequent items in data streams (2002).
"""

from pathlib import Path

import numpy as np

from entrofed.core.params import Floats
from entrofed.core.seeds import stream

SUMS = 1024


def sketch(values: Floats, seed: int) -> Floats:
    """The sums of a model's values.

    >>> sketch(np.ones(3, np.float32), 0)[:4].tolist()
    [1.0, 1.0, 1.0, 0.0]
    """
    sums = np.zeros(SUMS)
    if len(values) <= SUMS:
        sums[: len(values)] = values
    else:
        rng = stream(seed, "sketch")
        places, signs = rng.integers(SUMS, size=len(values)), 1 - 2 * rng.integers(2, size=len(values))
        np.add.at(sums, places, signs * values.astype(np.float64))
    return sums.astype(np.float32)


def write(path: Path, number: int, found: Floats) -> None:
    """Row ``number`` of a file of sketches; to write it again changes nothing."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        end = file.seek(0, 2) // (4 * SUMS)
        file.seek(4 * SUMS * min(end, number))
        file.write(np.full((max(number - end, 0), SUMS), np.nan, np.float32).tobytes() + found.tobytes())


def read(path: Path) -> Floats:
    """All rows; NaN where a round was not played."""
    try:
        raw = np.fromfile(path, np.float32)
    except OSError:
        raw = np.empty(0, np.float32)
    return raw[: len(raw) // SUMS * SUMS].reshape(-1, SUMS)
