"""How alike vectors are: all cosines or distances through one Gram matrix, summed in float64 over blocks of columns."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CELLS = 1 << 22
"""Numbers of a block, 32 MB: a table of float32 rows is never converted as a whole."""


def cosines(rows: Sequence[NDArray[Any]]) -> Floats:
    """cos(g_i, g_j) of every pair of rows, from -1 to 1; NaN where a row is zero or not finite.

    Each row is divided by its largest entry first, so that no scale over- or underflows.

    >>> cosines([np.array([3.0, 0.0]), np.array([1.0, 1.0]), np.zeros(2)]).round(3).tolist()
    [[1.0, 0.707, nan], [0.707, 1.0, nan], [nan, nan, nan]]
    """
    peaks = np.array([np.abs(row).max(initial=0) for row in rows], np.float64)
    usable = np.isfinite(peaks) & (peaks > 0)
    kept = [row for row, use in zip(rows, usable, strict=True) if use]
    gram = np.zeros((len(kept), len(kept)))
    for block in blocks(kept):
        block /= peaks[usable, None]
        gram += block @ block.T
    norms = np.sqrt(gram.diagonal())
    result = np.full((len(rows), len(rows)), np.nan)
    result[np.ix_(usable, usable)] = np.clip(gram / np.outer(norms, norms), -1, 1)
    return result


def closest(rows: Sequence[NDArray[Any]]) -> Floats:
    """s_i = max_{j != i} cos(g_i, g_j): how much the row most like it is like it.

    NaN where row i is zero or not finite; such rows do not count as a j either. Minus infinity if no j is left.

    >>> closest([np.array([3.0, 0.0]), np.array([1.0, 1.0]), np.array([-1.0, 1.0])]).round(3).tolist()
    [0.707, 0.707, 0.0]
    """
    similar = cosines(rows)
    undefined = np.isnan(similar.diagonal())
    np.fill_diagonal(similar, np.nan)
    best: Floats = np.where(np.isnan(similar), -np.inf, similar).max(axis=1, initial=-np.inf)
    return np.where(undefined, np.nan, best)


def euclidean(rows: Sequence[NDArray[Any]]) -> Floats:
    """The distance of every pair of finite rows.

    >>> euclidean([np.array([3.0, 0.0]), np.array([0.0, 4.0])]).tolist()
    [[0.0, 5.0], [5.0, 0.0]]
    """
    gram = np.zeros((len(rows), len(rows)))
    for block in blocks(rows):
        gram += block @ block.T
    squares = gram.diagonal()
    found = np.sqrt(np.maximum(squares[:, None] + squares - 2 * gram, 0))
    np.fill_diagonal(found, 0)
    return np.asarray(found)


def blocks(rows: Sequence[NDArray[Any]]) -> Iterator[Floats]:
    """The rows as a matrix, a few columns at a time, in float64."""
    width = len(rows[0]) if len(rows) else 0
    step = max(1, CELLS // max(1, len(rows)))
    for start in range(0, width, step):
        yield np.array([row[start : start + step] for row in rows], np.float64)
