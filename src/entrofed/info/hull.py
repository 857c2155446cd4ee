"""Points that no others surround: principal coordinates, vertices of the convex hull, layers under it.

In more dimensions than points every point is a vertex, so many-dimensional rows are projected first. Eigenvectors are
known up to sign and rounding; both leave the hull alone, as long as what differs by rounding counts as equal.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.errors import DataError
from entrofed.info.similarity import blocks

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

RANK = 1e-12
"""A direction counts if its eigenvalue is at least this share of the largest."""
TOLERANCE = 1e-9
"""A point less than this share of the spread outside the hull of the others is no vertex of its own."""


def principal_coordinates(rows: Sequence[NDArray[Any]], dim: int) -> Floats:
    """The centred rows along their ``min(dim, rank)`` main directions, through the n x n Gram matrix.

    With G = X X^T = sum_k lambda_k u_k u_k^T of the centred rows X, coordinate k of all points is sqrt(lambda_k) u_k.
    The first row is subtracted before the mean, so that identical rows have rank 0 whatever rounding does.

    >>> np.abs(principal_coordinates([np.zeros(9), np.full(9, 2.0)], dim=2)).round(12).tolist()
    [[3.0], [3.0]]
    """
    n = len(rows)
    gram = np.zeros((n, n))
    for block in blocks(rows):
        block -= block[0].copy()
        block -= block.mean(axis=0)
        gram += block @ block.T
    if not gram.any():
        return np.zeros((n, 0))
    values, vectors = scipy.linalg.eigh(gram, subset_by_index=[max(0, n - dim), n - 1])
    kept = np.flatnonzero(values >= RANK * values[-1])[::-1]
    return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))


def vertices(points: Floats, tolerance: float | None = None) -> Indices:
    """Extreme points of the convex hull, ascending; of points in one place the first.

    A point on an edge is no vertex. ``tolerance`` is a distance, by default ``TOLERANCE`` times the spread.

    >>> vertices(np.array([[0, 0], [2, 0], [4, 0], [4, 4], [0, 4], [1, 1], [4, 4]])).tolist()
    [0, 2, 3, 4]
    """
    points = np.asarray(points, np.float64)
    if points.ndim != 2 or not np.isfinite(points).all():
        raise DataError(f"points must be a finite [point, coordinate] array, found shape {points.shape}")
    if not points.size:
        return np.arange(min(1, len(points)))
    limit = _spread(points) * TOLERANCE if tolerance is None else tolerance
    distinct = _distinct(points, limit)
    flat = _flatten(points[distinct])
    if flat.shape[1] == 0:
        found = np.zeros(1, np.int64)
    elif flat.shape[1] == 1:
        found = np.array([flat.argmin(), flat.argmax()])
    else:
        try:
            found = _by_qhull(flat, limit)
        except scipy.spatial.QhullError:
            found = by_linear_programs(flat, limit)
    return np.sort(distinct[found])


def peel(points: Floats, least: int) -> list[Indices]:
    """Layers of the convex hull, the vertices first, then the vertices of what is left, to ``least`` points or all.

    >>> [layer.tolist() for layer in peel(np.array([[0, 0], [4, 0], [0, 4], [1, 1], [1, 2], [2, 1]]), 4)]
    [[0, 1, 2], [3, 4, 5]]
    """
    points = np.asarray(points, np.float64)
    limit = _spread(points) * TOLERANCE if len(points) else 0.0
    left, layers = np.arange(len(points)), list[Indices]()
    while len(left) and len(points) - len(left) < least:
        layers.append(left[vertices(points[left], limit)])
        left = np.setdiff1d(left, layers[-1])
    return layers


def by_linear_programs(points: Floats, tolerance: float) -> Indices:
    """Vertices by definition: ``x_i`` is one iff no mixture of the others comes within ``tolerance``.

    One linear program a point: minimize t over lambda >= 0 with sum(lambda) = 1 and
    -t <= sum_{j != i} lambda_j x_j - x_i <= t in every coordinate. Slow, and never fails. The last point is looked at
    first, and who is no vertex is not among the others any more: two that are nearly one do not delete each other.
    """
    n, dim = points.shape
    scale = _spread(points) or 1.0
    points = (points - points.mean(axis=0)) / scale
    slack, found = np.ones((dim, 1)), np.ones(n, np.bool_)
    for i in reversed(range(n)):
        found[i] = False
        others = points[found].T
        answer = scipy.optimize.linprog(
            np.r_[np.zeros(found.sum()), 1],
            A_ub=np.block([[others, -slack], [-others, -slack]]),
            b_ub=np.r_[points[i], -points[i]],
            A_eq=np.r_[np.ones(found.sum()), 0][None],
            b_eq=[1.0],
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        found[i] = answer.fun is None or answer.fun * scale > tolerance
    return np.flatnonzero(found)


def _spread(points: Floats) -> float:
    return float(np.abs(points - points.mean(axis=0)).max(initial=0))


def _distinct(points: Floats, tolerance: float) -> Indices:
    """The points that none before them lies on."""
    kept = np.ones(len(points), np.bool_)
    for i, near in enumerate(scipy.spatial.cKDTree(points).query_ball_point(points, tolerance)):
        kept[[j for j in near if j > i]] = False
    return np.flatnonzero(kept)


def _flatten(points: Floats) -> Floats:
    """The same points in as many coordinates as they span."""
    centred = points - points.mean(axis=0)
    values, axes = np.linalg.eigh(centred.T @ centred)
    return np.asarray(centred @ axes[:, (values > 0) & (values >= RANK * values.max(initial=0))])


def _by_qhull(points: Floats, tolerance: float) -> Indices:
    """Qhull's vertices, without those that rounding lifted off an edge.

    These are taken away one by one, the last first, so that of two that are nearly one the first stays.
    """
    kept = np.arange(len(points))
    while True:
        corners, heights = _corners(points[kept])
        weak = corners[heights <= tolerance]
        if not len(weak):
            return kept[corners]
        kept = np.delete(kept, weak[-1])


def _corners(points: Floats) -> tuple[Indices, Floats]:
    """Qhull's vertices, ascending, and how far each stands out from all others along its facets' mean normal."""
    hull = scipy.spatial.ConvexHull(points)
    normals = np.zeros_like(points)
    np.add.at(normals, hull.simplices, hull.equations[:, None, :-1])
    corners = np.sort(hull.vertices).astype(np.int64)
    directions = normals[corners] / np.linalg.norm(normals[corners], axis=1, keepdims=True)
    reach = directions @ points[corners].T
    own = reach.diagonal().copy()
    np.fill_diagonal(reach, -np.inf)
    return corners, own - reach.max(axis=1)
