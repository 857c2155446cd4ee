from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.selectors.gradients import NO_COUNTERS, filled, select

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Update
from entrofed.errors import ConfigError
from entrofed.info.hull import by_linear_programs, principal_coordinates, vertices
from entrofed.registry import describe
from entrofed.selectors.convex_hull import ConvexHull, Interior
from entrofed.selectors.gradient_table import GradientTable

SQUARE = [[0, 0], [4, 0], [4, 4], [0, 4], [2, 2], [2, 0], [1, 3]]
BOTH = pytest.mark.parametrize("part", [ConvexHull(), Interior()], ids=lambda part: part.name)
seeds = st.integers(0, 10**6)


def gaussian(seed: int, n: int = 20, width: int = 30) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, width))


def test_square() -> None:
    """From the centroid (13/7, 13/7): (4, 4) is farthest, then (0, 4) and (4, 0) alike, then (0, 0)."""
    selection = select(ConvexHull(), SQUARE, 7)
    assert selection.clients == [2, 1, 3, 0, 5, 6, 4]
    assert [reason["client"] for reason in selection.reasons] == selection.clients
    assert [reason["layer"] for reason in selection.reasons] == [0, 0, 0, 0, 1, 1, 1]
    expected = np.linalg.norm(np.array(SQUARE)[selection.clients] - 13 / 7, axis=1)
    assert [reason["distance"] for reason in selection.reasons] == pytest.approx(expected, rel=1e-9)
    assert {(reason["vertices"], reason["pool"]) for reason in selection.reasons} == {(4, 7)}


@pytest.mark.parametrize("size", [1, 3, 50])
def test_all_vertices_however_many(size: int) -> None:
    assert select(ConvexHull(size="vertices"), SQUARE, size).clients == [2, 1, 3, 0]


def test_interior_of_the_square() -> None:
    drawn = Counter(client for seed in range(300) for client in select(Interior(), SQUARE, 2, seed=seed).clients)
    assert drawn.keys() == {4, 5, 6}
    assert all(abs(count - 200) < 4 * np.sqrt(300 * 2 / 9) for count in drawn.values())
    assert sorted(select(Interior(), SQUARE, 3).clients) == [4, 5, 6]
    selection = select(Interior(), SQUARE, 6)
    assert selection.clients[3:] == [0, 1, 3]  # filled with vertices, the nearest to the centroid first
    assert [reason["vertex"] for reason in selection.reasons] == [False] * 3 + [True] * 3
    assert {(reason["vertices"], reason["pool"]) for reason in selection.reasons} == {(4, 7)}


@settings(deadline=None)
@given(seed=seeds, n=st.integers(1, 20), width=st.integers(1, 8), size=st.integers(0, 22), dim=st.integers(1, 3))
@BOTH
def test_exactly_k_different_clients(part: GradientTable, seed: int, n: int, width: int, size: int, dim: int) -> None:
    part = type(part)(dim=dim)  # type: ignore[call-arg]
    cohort = select(part, gaussian(seed, n, width), size).clients
    assert len(cohort) == len(set(cohort)) == min(size, n)
    assert set(cohort) <= set(range(n))
    assert all(type(client) is int for client in cohort)


@settings(deadline=None)
@given(seed=seeds, size=st.integers(1, 20))
def test_vertices_first(seed: int, size: int) -> None:
    rows = gaussian(seed)
    corners = set(vertices(principal_coordinates(rows.astype(np.float32), 2)).tolist())
    cohort, inner = select(ConvexHull(), rows, size).clients, select(Interior(), rows, size).clients
    assert corners <= set(cohort) if len(corners) <= size else set(cohort) <= corners
    assert set(select(ConvexHull(size="vertices"), rows, size).clients) == corners
    assert len(corners & set(inner)) == max(0, size - (20 - len(corners)))


@settings(deadline=None, max_examples=20)
@given(seed=seeds)
def test_non_vertices_are_mixtures_of_others(seed: int) -> None:
    """By linear programming, in the plane of the two main directions, found here by singular values."""
    rows = gaussian(seed).astype(np.float32).astype(np.float64)
    left, singular, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    expected = by_linear_programs(left[:, :2] * singular[:2], 1e-9)
    assert sorted(select(ConvexHull(size="vertices"), rows, 1).clients) == expected.tolist()


@settings(deadline=None, derandomize=True)
@given(seed=seeds)
@pytest.mark.parametrize("part", [ConvexHull(), ConvexHull(size="vertices"), ConvexHull(dim=3), Interior()])
def test_moving_and_turning_everything_changes_nothing(part: GradientTable, seed: int) -> None:
    """Rows are kept in float32, which moves points by about 1e-7: nothing that a generic hull hangs on."""
    rng = np.random.default_rng(seed)
    rows = gaussian(seed, 20, 12)
    turned = rows @ np.linalg.qr(rng.standard_normal((12, 12)))[0] + rng.standard_normal(12)
    assert select(part, turned, 8).clients == select(part, rows, 8).clients
    assert select(part, -rows * 2, 8).clients == select(part, rows, 8).clients


def test_a_zero_update_is_a_point_like_any_other() -> None:
    assert 0 in select(ConvexHull(), SQUARE, 4).clients
    assert sorted(select(ConvexHull(size="vertices"), np.array(SQUARE) - [2, 2], 1).clients) == [0, 1, 2, 3]


def test_updates_in_line() -> None:
    rows = np.outer([3, 1, 7, 7, 2, 1], [1.0, -2.0, 0.5])
    assert select(ConvexHull(size="vertices"), rows, 1).clients == [2, 1]
    assert select(ConvexHull(), rows, 6).clients == [2, 1, 3, 5, 4, 0]
    assert sorted(select(Interior(), rows, 4).clients) == [0, 3, 4, 5]


def test_duplicates_count_as_inside() -> None:
    rows = [[0, 0], [4, 0], [0, 4], [4, 0], [0, 4], [4, 0]]
    assert sorted(select(ConvexHull(size="vertices"), rows, 1).clients) == [0, 1, 2]
    assert [reason["layer"] for reason in select(ConvexHull(), rows, 6).reasons] == [0, 0, 0, 1, 1, 2]
    assert sorted(select(Interior(), rows, 3).clients) == [3, 4, 5]


@pytest.mark.parametrize("part", [ConvexHull(), ConvexHull(size="vertices"), Interior()])
def test_identical_updates_leave_it_to_chance(part: GradientTable) -> None:
    rows = np.full((5, 1000), 0.1)
    drawn = Counter(client for seed in range(200) for client in select(part, rows, 2, seed=seed).clients)
    assert drawn.keys() == {0, 1, 2, 3, 4}
    assert all(abs(count - 80) < 4 * np.sqrt(200 * 0.24) for count in drawn.values())
    assert {reason["vertices"] for reason in select(part, rows, 2).reasons} == {0}


@pytest.mark.parametrize("part", [ConvexHull(), ConvexHull(size="vertices"), Interior()])
def test_few_clients(part: GradientTable) -> None:
    one = {5: np.ones(2)}
    assert select(part, one, 3, [5]).clients == [5]
    assert select(part, one, 3, []).clients == []
    assert select(part, {}, 2, [8, 2, 3]).clients == [2, 3]
    assert sorted(select(part, [[0, 1], [2, 3]], 5).clients) == [0, 1]


@BOTH
def test_clients_without_a_row_fill_up(part: GradientTable) -> None:
    """Client 20's row is NaN and 11 never answered: they are in no hull, and come last, by number."""
    gradients = dict(enumerate(np.array(SQUARE, float))) | {20: np.array([np.nan, 0])}
    among = [20, 11, *range(7)]
    selection = select(part, gradients, 9, among)
    assert selection.clients == [*select(part, SQUARE, 7).clients, 11, 20]
    assert [reason["distance"] for reason in selection.reasons[7:]] == [None, None]
    assert select(part, gradients, 8, among).clients == selection.clients[:8]
    assert select(part, gradients, 4, among).clients == select(part, SQUARE, 4).clients
    assert select(ConvexHull(size="vertices"), gradients, 9, among).clients == [2, 1, 3, 0]


@BOTH
def test_only_those_who_are_there_have_a_hull(part: GradientTable) -> None:
    """The corners left: the three inside become the hull."""
    selection = select(part, SQUARE, 3, [6, 5, 4])
    assert sorted(selection.clients) == [4, 5, 6]
    assert {reason["vertices"] for reason in selection.reasons} == {3}


def test_a_client_that_changed_is_seen_anew() -> None:
    part, start = ConvexHull(size="vertices"), Params(np.zeros(2, np.float32), NO_COUNTERS)
    state = filled(part, dict(enumerate(np.array(SQUARE))))
    moved = Update(4, Params(np.array([-9, -2], np.float32), NO_COUNTERS), 10, 1, 0.5, 0.5)
    state = part.observe(state, start, [moved])
    selection = part.select(state, ClientTable(np.ones(7, int)), np.arange(7), 3, np.random.default_rng(0))
    assert sorted(selection.clients) == [0, 1, 2, 3, 4]
    assert selection.state is state


def test_a_sketch_keeps_a_hull_that_sticks_out() -> None:
    """A triangle of three far clients in 5,000 dimensions, twenty near the middle."""
    rng = np.random.default_rng(0)
    plane = np.linalg.qr(rng.standard_normal((5000, 2)))[0].T
    corners = np.array([[30, 0], [-15, 25], [-15, -25]]) @ plane
    rows = np.r_[corners, 0.02 * rng.standard_normal((20, 5000))]
    for width in (None, 512):
        assert sorted(select(ConvexHull(width, size="vertices"), rows, 3).clients) == [0, 1, 2]


@BOTH
def test_hyperparameters(part: GradientTable) -> None:
    with pytest.raises(ConfigError, match=f"{part.name}: dim = 0"):
        type(part)(dim=0)  # type: ignore[call-arg]
    assert describe(part)["dim"] == 2
    assert describe(part)["sketch_dim"] is None
