"""Real numbers as whole ones that can be added under masks: multiples of 2^-32, modulo 2^64.

Encoding rounds each number by 2^-33 at most, so the sum of K vectors is off by ``K 2^-33`` at most, and adding whole
numbers is exact in any order. Numbers up to 2^20 in size fit, of 2^11 clients together.
"""

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import DataError

Whole = NDArray[np.uint64]
SCALE = 2.0**32
LARGEST = 2.0**20
MOST = 2**11
"""Vectors that can be added without overflow."""


def encode(vector: NDArray[np.float64]) -> Whole:
    """A vector on the grid; a DataError if a number is too large for it, or is none.

    >>> decode(encode(np.array([0.5, -3.0])) + encode(np.array([0.25, 1.0]))).tolist()
    [0.75, -2.0]
    """
    if not (np.abs(vector) <= LARGEST).all():  # nor is NaN
        raise DataError(f"a number of the update is not finite, or above {LARGEST:.0f} in size; it cannot be masked")
    return np.rint(vector * SCALE).astype(np.int64).view(np.uint64)


def decode(whole: Whole) -> NDArray[np.float64]:
    """The sum that was encoded."""
    return whole.view(np.int64).astype(np.float64) / SCALE
