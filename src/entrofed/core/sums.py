"""Sums of models, in float64.

Every element is summed in the order given, so that the result has the same bits whatever library, block size or
number of threads is at work.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Floats

Doubles = NDArray[np.float64]

BLOCK = 1 << 16
"""Values summed at a time, so that the float64 accumulator stays in cache."""

LARGE = 1 << 24
"""Values in all from which on compiled code saves more time than it takes to compile."""


def weighted_sum(rows: Sequence[Floats], weights: Doubles) -> Doubles:
    """``sum_k weights[k] * rows[k]``; about one read of the rows where numba is installed, else five.

    >>> weighted_sum([np.array([1, 2], "f4"), np.array([3, 6], "f4")], np.array([0.5, 0.5]))
    array([2., 4.])
    """
    total = np.empty(len(rows[0]) if len(rows) else 0, np.float64)
    for place, block in blocks_of_sum(rows, weights):
        total[place] = block
    return total


def blocks_of_sum(rows: Sequence[Floats], weights: Doubles) -> Iterator[tuple[slice, Doubles]]:
    """The same, a block at a time, for whoever makes something else of it: each is gone when the next one comes."""
    if len(rows) != len(weights):
        raise ValueError(f"{len(rows)} rows and {len(weights)} weights; there must be one for each")
    width = len(rows[0])
    total, scratch = (np.empty(min(BLOCK, width), np.float64) for _ in range(2))
    add_four = _compiled() if len(rows) * width >= LARGE else None
    by_four = 0 if add_four is None else len(rows) // 4 * 4
    for start in range(0, width, BLOCK):
        block = total[: min(BLOCK, width - start)]
        block[:] = 0
        parts = [row[start : start + BLOCK] for row in rows]
        if add_four is not None:
            for k in range(0, by_four, 4):
                add_four(block, *parts[k : k + 4], *weights[k : k + 4])
        for part, weight in zip(parts[by_four:], weights[by_four:], strict=True):
            np.multiply(part, weight, out=scratch[: len(block)], dtype=np.float64)
            block += scratch[: len(block)]
        yield slice(start, start + len(block)), block


@cache
def _compiled() -> Callable[..., None] | None:
    """Four rows added to a block in one pass, if numba is installed."""
    try:
        from numba import njit
    except ImportError:
        return None

    @njit()
    def add_four(
        block: Doubles, a: Floats, b: Floats, c: Floats, d: Floats, u: float, v: float, w: float, x: float
    ) -> None:
        for i in range(len(block)):
            block[i] = (((block[i] + u * a[i]) + v * b[i]) + w * c[i]) + x * d[i]

    return add_four
