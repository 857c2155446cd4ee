"""Of each of very many vectors the one most like it, without the matrix of all pairs; and again after a few changed."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from entrofed.info.similarity import Floats, blocks

TOGETHER = 1024
"""Rows that are compared with as many others at a time: 8 MB of cosines."""


class Nearest(NamedTuple):
    """``s_i = max_{j != i} cos(g_i, g_j)`` and its j; NaN and -1 where a row is zero or not finite, or without a j."""

    cosine: Floats
    other: NDArray[np.int64]


def nearest(rows: Sequence[NDArray[Any]]) -> Nearest:
    """Of each row the most similar other.

    >>> nearest([np.array([3.0, 0.0]), np.array([1.0, 1.0]), np.array([-1.0, 1.0])]).other.tolist()
    [1, 0, 1]
    """
    unknown = Nearest(np.full(len(rows), np.nan), np.full(len(rows), -1))
    return refreshed(rows, unknown, np.ones(len(rows), np.bool_))


def refreshed(rows: Sequence[NDArray[Any]], before: Nearest, changed: NDArray[np.bool_]) -> Nearest:
    """What :func:`nearest` finds, from what it found ``before`` some rows changed.

    Rows that changed, or whose nearest did, are compared with all; all others with those that changed.

    >>> rows = [np.array([3.0, 0.0]), np.array([1.0, 1.0]), np.array([-1.0, 1.0])]
    >>> found = nearest(rows)
    >>> rows[2] = np.array([1.0, 0.1])
    >>> refreshed(rows, found, np.array([False, False, True])).other.tolist()
    [2, 2, 0]
    """
    again = changed | (before.other < 0) | changed[before.other]
    cosine, other = before.cosine.copy(), before.other.copy()
    everybody = np.arange(len(rows))
    cosine[again], other[again] = _against(rows, everybody[again], everybody)
    found = _against(rows, everybody[~again], everybody[changed])
    better = found.cosine > cosine[~again]
    cosine[~again] = np.where(better, found.cosine, cosine[~again])
    other[~again] = np.where(better, found.other, other[~again])
    return Nearest(cosine, other)


def _against(rows: Sequence[NDArray[Any]], of: NDArray[np.int64], among: NDArray[np.int64]) -> Nearest:
    """Of each row ``of`` the most similar other ``among`` some."""
    cosine, other = np.full(len(of), -np.inf), np.full(len(of), -1)
    for start in range(0, len(of), TOGETHER):
        part = slice(start, start + TOGETHER)
        for first in range(0, len(among), TOGETHER):
            these = among[first : first + TOGETHER]
            similar = _cosines([rows[i] for i in of[part]], [rows[j] for j in these])
            similar[np.isnan(similar) | (of[part, None] == these)] = -np.inf
            best = similar.argmax(axis=1)
            value = similar[np.arange(len(best)), best]
            better = value > cosine[part]
            cosine[part] = np.where(better, value, cosine[part])
            other[part] = np.where(better, these[best], other[part])
    return Nearest(np.where(other < 0, np.nan, cosine), other)


def _cosines(a: Sequence[NDArray[Any]], b: Sequence[NDArray[Any]]) -> Floats:
    """cos(a_i, b_j), from -1 to 1; NaN where a row is zero or not finite. Rows are divided by their largest entries."""
    peaks = np.array([np.abs(row).max(initial=0) for row in (*a, *b)], np.float64)
    peaks[~(np.isfinite(peaks) & (peaks > 0))] = np.nan
    gram, squares = np.zeros((len(a), len(b))), np.zeros(len(peaks))
    for block in blocks([*a, *b]):
        block /= peaks[:, None]
        gram += block[: len(a)] @ block[len(a) :].T
        squares += np.einsum("ij,ij->i", block, block)
    norms = np.sqrt(squares)
    cosines: Floats = np.clip(gram / np.outer(norms[: len(a)], norms[len(a) :]), -1, 1)
    return cosines
