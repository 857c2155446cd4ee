from itertools import combinations
from math import comb, sqrt

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.integrate import quad
from scipy.spatial import QhullError
from scipy.stats import norm

from entrofed.errors import DataError
from entrofed.info.hull import by_linear_programs, peel, principal_coordinates, vertices

SQUARE = np.array([[0, 0], [4, 0], [4, 4], [0, 4], [2, 2], [2, 0], [1, 3]], np.float64)
lattice = st.integers(1, 12).flatmap(lambda n: arrays(np.int64, (n, 2), elements=st.integers(0, 4)))


def rotation(rng, dim):
    return np.linalg.qr(rng.standard_normal((dim, dim)))[0]


def extreme_by_hand(points):
    """Exact, in integers: a point is no vertex if it lies on another before it, on a segment, or in a triangle."""

    def within(p, corners):
        (ax, ay), (bx, by), (cx, cy) = corners
        turns = [
            (x2 - x1) * (p[1] - y1) - (y2 - y1) * (p[0] - x1)
            for (x1, y1), (x2, y2) in (((ax, ay), (bx, by)), ((bx, by), (cx, cy)), ((cx, cy), (ax, ay)))
        ]
        if (bx - ax) * (cy - ay) == (by - ay) * (cx - ax):  # three points in line: on the longest segment?
            return turns == [0, 0, 0] and all(
                min(c) <= x <= max(c) for x, c in zip(p, zip(*corners, strict=True), strict=True)
            )
        return min(turns) >= 0 or max(turns) <= 0

    found = []
    for i, p in enumerate(points):
        others = sorted({q for q in points if q != p})
        segments = [(a, b, b) for a, b in combinations(others, 2)]
        triangles = [*segments, *combinations(others, 3)]
        if p not in points[:i] and not any(within(p, corners) for corners in triangles):
            found.append(i)
    return found


def test_square():
    points = principal_coordinates(SQUARE, 2)
    assert vertices(points).tolist() == vertices(SQUARE).tolist() == [0, 1, 2, 3]
    assert [layer.tolist() for layer in peel(points, 7)] == [[0, 1, 2, 3], [4, 5, 6]]
    from_centroid = np.linalg.norm(SQUARE - 13 / 7, axis=1)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), from_centroid, rtol=1e-12)


def test_near_twins_at_a_corner_do_not_delete_each_other(monkeypatch):
    """Too far apart to be one point, too near for either to stand out from the other."""
    points = np.array([[0, 0], [1, 0], [0, 1], [1, 1 - 5e-10], [1 - 5e-10, 1]]) * 2 - 1
    assert vertices(points).tolist() == [0, 1, 2, 3]
    assert vertices(points[::-1]).tolist() == [0, 2, 3, 4]
    assert [layer.tolist() for layer in peel(points, 5)] == [[0, 1, 2, 3], [4]]

    def fails(points):
        raise QhullError("QH6154")

    monkeypatch.setattr("scipy.spatial.ConvexHull", fails)
    assert vertices(points).tolist() == [0, 1, 2, 3]


@given(points=lattice)
def test_lattice_points_against_exact_geometry(points):
    """Lattices are full of points on edges, duplicates and lines: the cases that rounding spoils."""
    expected = extreme_by_hand([tuple(p) for p in points.tolist()])
    assert vertices(points).tolist() == expected


@given(points=lattice, seed=st.integers(0, 10**6), offset=st.floats(-100, 100))
def test_lattice_points_turned_lifted_and_brought_back(points, seed, offset):
    """Embedded in nine dimensions, through the Gram matrix: the same vertices."""
    assume(len(np.unique(points, axis=0)) > 1)
    raised = points @ rotation(np.random.default_rng(seed), 9)[:2] + offset
    assert vertices(principal_coordinates(raised, 2)).tolist() == vertices(points).tolist()


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 12), dim=st.integers(2, 4), seed=st.integers(0, 10**6))
def test_vertices_are_those_no_mixture_of_others_reaches(n, dim, seed):
    points = np.random.default_rng(seed).standard_normal((n, dim))
    assert vertices(points).tolist() == by_linear_programs(points, 1e-9).tolist()


@settings(max_examples=15, deadline=None)
@given(points=arrays(np.int64, (11, 3), elements=st.integers(0, 2)), seed=st.integers(0, 10**6))
def test_lattice_points_in_space(points, seed):
    distinct = np.sort(np.unique(points, axis=0, return_index=True)[1])
    expected = distinct[by_linear_programs(points[distinct].astype(float), 1e-9)]
    turned = points @ rotation(np.random.default_rng(seed), 3)
    assert vertices(turned).tolist() == expected.tolist()


@settings(max_examples=25, deadline=None)
@given(n=st.integers(3, 12), seed=st.integers(0, 10**6))
def test_qhull_failing_changes_nothing(n, seed):
    points = np.random.default_rng(seed).integers(0, 4, (n, 2))

    def fails(points):
        raise QhullError("QH6154")

    expected = vertices(points).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scipy.spatial.ConvexHull", fails)
        assert vertices(points).tolist() == expected


@given(points=lattice, least=st.integers(0, 14))
def test_layers(points, least):
    layers = peel(points, least)
    sizes = np.cumsum([0, *map(len, layers)])
    everybody = np.concatenate([np.zeros(0, int), *layers])
    assert len(set(everybody.tolist())) == len(everybody) == sizes[-1] >= min(least, len(points))
    assert all(size < least for size in sizes[:-1])
    for number, layer in enumerate(layers):
        left = np.setdiff1d(np.arange(len(points)), everybody[: sizes[number]])
        exact = extreme_by_hand([tuple(p) for p in points[left].tolist()])
        assert layer.tolist() == left[exact].tolist()


@given(points=lattice, seed=st.integers(0, 10**6))
def test_layers_of_points_turned_lifted_and_brought_back(points, seed):
    """Duplicates that rounding moved apart still lie in one place when nothing else is left."""
    assume(len(np.unique(points, axis=0)) > 1)
    raised = points @ rotation(np.random.default_rng(seed), 9)[:2] + 0.1
    found = peel(principal_coordinates(raised, 2), len(points))
    assert [layer.tolist() for layer in found] == [layer.tolist() for layer in peel(points, len(points))]


def test_degenerate_points():
    assert vertices(np.zeros((0, 2))).tolist() == []
    assert vertices(np.zeros((3, 0))).tolist() == [0]
    assert vertices(np.array([[5.0, 7.0]])).tolist() == [0]
    assert vertices(np.full((4, 2), 0.1)).tolist() == [0]
    assert vertices(np.array([[1.0], [3.0], [-2.0], [3.0], [-2.0]])).tolist() == [1, 2]
    line = np.outer([0.3, 0.1, 0.9, 0.9, 0.5], [1, 2, 3])  # in line, not along an axis; 2 and 3 in one place
    assert vertices(line).tolist() == [1, 2]
    assert [layer.tolist() for layer in peel(line, 5)] == [[1, 2], [0, 3], [4]]
    assert by_linear_programs(np.array([[1.0, 2.0]]), 1e-9).tolist() == [0]


@pytest.mark.parametrize("points", [np.array([[0, np.nan]]), np.array([[np.inf, 0]]), np.zeros(3)])
def test_what_are_no_points(points):
    with pytest.raises(DataError, match="finite"):
        vertices(points)


def test_all_but_rounding_counts():
    """A bump of a millionth is a vertex, one of a millionth of a millionth is an edge."""
    for bump, expected in ((1e-6, [0, 1, 2, 3]), (1e-12, [0, 1, 2])):
        points = np.array([[0, 0], [1, 0], [0.5, 1], [0.5, -bump]])
        assert vertices(points).tolist() == by_linear_programs(points, 1e-9).tolist() == expected


@settings(deadline=None)
@given(n=st.integers(2, 10), width=st.integers(1, 12), dim=st.integers(1, 4), seed=st.integers(0, 10**6))
def test_principal_coordinates_are_those_of_the_singular_values(n, width, dim, seed):
    rng = np.random.default_rng(seed)
    rows = rng.standard_normal((n, width))
    found = principal_coordinates(rows, dim)
    centred = rows - rows.mean(axis=0)
    left, singular, _ = np.linalg.svd(centred, full_matrices=False)
    rank = min(dim, n - 1, width)
    assert found.shape == (n, rank)
    np.testing.assert_allclose(found @ found.T, (left * singular**2)[:, :rank] @ left[:, :rank].T, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=0), 0, atol=1e-9)


def test_rank():
    direction = np.arange(1.0, 6.0)
    assert principal_coordinates(np.outer([1, 2, 4], direction), 2).shape == (3, 1)
    # 0.1 has no exact mean: centring must not make a direction of the rounding
    assert principal_coordinates(np.full((7, 1000), 0.1), 2).shape == (7, 0)
    assert principal_coordinates([direction], 2).shape == (1, 0)
    assert principal_coordinates([], 2).shape[0] == 0
    for bump, rank in ((1e-5, 2), (1e-7, 1)):  # eigenvalues about 1e-10 and 1e-14 of the largest
        assert principal_coordinates(np.array([[0, 0], [1, bump], [2, 0]]), 2).shape == (3, rank)


def test_float32_rows_are_summed_in_float64():
    rows = np.random.default_rng(0).standard_normal((20, 5000)).astype(np.float32) + np.float32(100)
    found, exact = principal_coordinates(rows, 3), principal_coordinates(rows.astype(np.float64), 3)
    np.testing.assert_array_equal(found, exact)


def expected_vertices(n, dim):
    """Of n Gaussian points in 2 or 3 dimensions, exactly.

    A facet's distance from the origin is N(0, 1/dim), and all other points must lie on one side:
    E[facets] = 2 C(n, dim) E[Phi(h)^(n - dim)]; in the plane as many vertices, in space facets / 2 + 2 (Euler).
    """
    integral, _ = quad(lambda h: norm.cdf(h) ** (n - dim) * norm.pdf(h, scale=1 / sqrt(dim)), -9, 9)
    facets = 2 * comb(n, dim) * integral
    return facets if dim == 2 else facets / 2 + 2


@pytest.mark.parametrize(("dim", "mean", "spread"), [(2, 7.6, 1.4), (3, 16.9, 2.2)])
def test_vertices_of_forty_gaussian_points(dim, mean, spread):
    """Three standard errors, of the exact mean over 200 draws, and of the difference of two means over 30 draws."""
    assert expected_vertices(dim + 1, dim) == pytest.approx(dim + 1)
    rng = np.random.default_rng(0)
    counts = [len(vertices(rng.standard_normal((40, dim)))) for _ in range(200)]
    assert np.mean(counts) == pytest.approx(expected_vertices(40, dim), abs=3 * spread / sqrt(200))
    projected = [len(vertices(principal_coordinates(rng.standard_normal((40, 500)), dim))) for _ in range(30)]
    assert np.mean(projected) == pytest.approx(mean, abs=3 * spread * sqrt(2 / 30))
    assert np.std(projected, ddof=1) == pytest.approx(spread, rel=3 / sqrt(30))
