"""Graphs, neighbourhoods and mixing matrices: known cases, properties over all topologies, and refusals."""

import inspect
from math import cos, pi

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.core.graphs import (
    closed_groups,
    closed_neighbourhoods,
    live_edges,
    mixing_matrix,
    sorted_edges,
    spectral_gap,
    stationary,
)
from entrofed.core.topologies import TOPOLOGIES, build_graph, components
from entrofed.errors import ConfigError, DataError

EXAMPLES = {
    "regular": {"degree": 4},
    "erdos_renyi": {"probability": 0.2},
    "small_world": {"degree": 4, "rewire": 0.3},
    "scale_free": {"edges": 2},
}


def rng(seed=0):
    return np.random.default_rng(seed)


def uniform(graph):
    hoods = closed_neighbourhoods(graph)
    return mixing_matrix(hoods, [np.full(len(hood), 1 / len(hood)) for hood in hoods])


@st.composite
def graphs(draw):
    kind = draw(st.sampled_from(sorted(set(TOPOLOGIES) - {"file"})))
    nodes = draw(st.integers(5, 25))
    return build_graph(kind, nodes, rng(draw(st.integers(0, 1000))), **EXAMPLES.get(kind, {}))


@st.composite
def mixings(draw):
    """A graph, and a matrix with random weights, some of which are 0."""
    graph = draw(graphs())
    random, hoods = rng(draw(st.integers(0, 1000))), closed_neighbourhoods(graph)
    raw = [random.random(len(hood)) * (random.random(len(hood)) < 0.8) + 1e-3 * (hood == hood[0]) for hood in hoods]
    return graph, mixing_matrix(hoods, [row / row.sum() for row in raw])


@pytest.mark.parametrize(
    ("kind", "nodes", "options", "edges"),
    [
        ("full", 6, {}, 15),
        ("ring", 6, {}, 6),
        ("ring", 2, {}, 1),
        ("ring", 1, {}, 0),
        ("line", 6, {}, 5),
        ("star", 6, {}, 5),
        ("star", 1, {}, 0),
        ("grid", 12, {}, 17),
        ("grid", 7, {}, 6),
        ("regular", 10, {"degree": 3}, 15),
        ("regular", 40, {"degree": 37}, 740),
        ("regular", 5, {"degree": 0}, 0),
        ("erdos_renyi", 6, {"probability": 0.0}, 0),
        ("erdos_renyi", 6, {"probability": 1.0}, 15),
        ("small_world", 10, {"degree": 4, "rewire": 0.5}, 20),
        ("scale_free", 10, {"edges": 2}, 16),
    ],
)
def test_number_of_edges(kind, nodes, options, edges):
    graph = build_graph(kind, nodes, rng(), **options)
    assert (list(graph), graph.number_of_edges()) == (list(range(nodes)), edges)


def test_shapes():
    assert sorted_edges(build_graph("star", 4, rng())) == [(0, 1), (0, 2), (0, 3)]
    assert sorted_edges(build_graph("small_world", 5, rng(), degree=2, rewire=0.0)) == sorted_edges(nx.cycle_graph(5))
    for degree in (3, 8):
        assert {d for _, d in build_graph("regular", 12, rng(), degree=degree).degree} == {degree}


@given(st.sampled_from(sorted(EXAMPLES)), st.integers(0, 100))
def test_same_stream_same_graph(kind, seed):
    one, two = (build_graph(kind, 20, rng(seed), **EXAMPLES[kind]) for _ in range(2))
    assert list(one.edges) == list(two.edges) == sorted_edges(one)


@pytest.mark.parametrize("kind", sorted(EXAMPLES))
def test_other_stream_other_graph(kind):
    drawn = {tuple(sorted_edges(build_graph(kind, 20, rng(seed), **EXAMPLES[kind]))) for seed in range(5)}
    assert len(drawn) == 5


def test_options_are_keywords():
    for kind, topology in TOPOLOGIES.items():
        names = list(inspect.signature(topology).parameters)
        assert names[:2] == ["nodes", "rng"], kind
        assert names[2:] == list(EXAMPLES.get(kind, {"path": ""} if kind == "file" else {})), kind


@pytest.mark.parametrize(
    ("kind", "nodes", "options", "words"),
    [
        ("rings", 5, {}, "did you mean 'ring'"),
        ("ring", 0, {}, "nodes = 0, but there must be at least 1"),
        ("ring", 5, {"degree": 2}, r"unknown option of topology 'ring' 'degree'.*known: none"),
        ("small_world", 5, {"degree": 2}, "needs rewire"),
        ("regular", 5, {"degree": 3}, "is odd"),
        ("regular", 5, {"degree": 5}, "with 5 nodes it must be from 0 to 4"),
        ("regular", 5, {"degree": -2}, "degree = -2"),
        ("erdos_renyi", 5, {"probability": 1.5}, "probability = 1.5, but must be from 0 to 1"),
        ("erdos_renyi", 5, {"probability": float("nan")}, "probability = nan"),
        ("small_world", 5, {"degree": 3, "rewire": 0.1}, "must be even"),
        ("small_world", 4, {"degree": 4, "rewire": 0.1}, "from 0 to 3"),
        ("small_world", 9, {"degree": 4, "rewire": -0.1}, "rewire = -0.1"),
        ("scale_free", 5, {"edges": 0}, "from 1 to 4"),
        ("scale_free", 1, {"edges": 1}, "at least 2 nodes"),
        ("file", 5, {"path": "nowhere.txt"}, "there is no file nowhere.txt"),
    ],
)
def test_refused(kind, nodes, options, words):
    with pytest.raises(ConfigError, match=words):
        build_graph(kind, nodes, rng(), **options)


def test_file(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("# two pairs and a loner\n\n0 3\n  2\t1 # tab\n3 0\n")
    graph = build_graph("file", 5, rng(), path=path)
    assert (sorted_edges(graph), components(graph)) == ([(0, 3), (1, 2)], [[0, 3], [1, 2], [4]])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n0 x\n", "line 2: an edge is two node numbers"),
        ("# a\n0 1 2\n", "line 2: .*found '0 1 2'"),
        ("0\n", "line 1"),
        ("-1 0\n", "line 1: an edge"),
        ("1.0 0\n", "line 1: an edge"),
        ("0 1\n\n1 5\n", "line 3: node 5 does not exist, there are 0 to 4"),
        ("2 2\n", "line 1: node 2 needs no edge to itself"),
        (f"0 {'9' * 5000}\n", "line 1: an edge"),
    ],
)
def test_file_refused(tmp_path, text, words):
    path = tmp_path / "edges.txt"
    path.write_text(text)
    with pytest.raises(DataError, match=words):
        build_graph("file", 5, rng(), path=path)


def test_file_that_is_no_text(tmp_path):
    (tmp_path / "edges.txt").write_bytes(b"0 1\n\xff\xfe\n")
    for path in (tmp_path / "edges.txt", tmp_path):
        with pytest.raises(DataError, match="not readable as text"):
            build_graph("file", 5, rng(), path=path)


@given(graphs())
def test_neighbourhoods_are_closed_sorted_and_mutual(graph):
    hoods = closed_neighbourhoods(graph)
    for node, hood in enumerate(hoods):
        assert hood.dtype == np.int64
        assert node in hood
        assert (np.diff(hood) > 0).all()
        assert len(hood) == graph.degree[node] + 1
        assert all(node in hoods[other] for other in hood)


@given(graphs(), st.floats(0, 1), st.integers(0, 100))
def test_live_edges(graph, probability, seed):
    alive = live_edges(graph, probability, rng(seed))
    assert set(sorted_edges(alive)) <= set(sorted_edges(graph))
    assert list(alive) == list(graph)
    shuffled = nx.Graph(reversed([(b, a) for a, b in graph.edges]))
    shuffled.add_nodes_from(graph)
    assert sorted_edges(live_edges(shuffled, probability, rng(seed))) == sorted_edges(alive)


def test_live_edges_by_chance():
    graph = build_graph("full", 60, rng())
    assert live_edges(graph, 0.0, rng()).number_of_edges() == 0
    assert live_edges(graph, 1.0, rng()).number_of_edges() == 1770
    up = live_edges(graph, 0.3, rng()).number_of_edges()
    assert up == pytest.approx(0.3 * 1770, abs=4 * (0.3 * 0.7 * 1770) ** 0.5)
    with pytest.raises(ConfigError, match="probability that an edge is up = 2"):
        live_edges(graph, 2, rng())


@settings(deadline=None)
@given(mixings())
def test_mixing(case):
    graph, matrix = case
    np.testing.assert_allclose(matrix.sum(axis=1), 1, atol=1e-12)
    assert not (matrix[~np.eye(len(matrix), dtype=bool) & (nx.to_numpy_array(graph) == 0)]).any()
    gap, groups = spectral_gap(matrix), closed_groups(matrix)
    assert 0 <= gap <= 1
    assert len(groups) >= len(components(graph))
    if len(groups) > 1:
        assert gap == 0
        with pytest.raises(DataError, match=f"{len(groups)} groups"):
            stationary(matrix)
        return
    weights = stationary(matrix)
    assert (weights >= 0).all()
    assert weights.sum() == pytest.approx(1)
    np.testing.assert_allclose(weights @ matrix, weights, atol=1e-10)
    np.testing.assert_array_equal(np.flatnonzero(weights > 0), groups[0])


@settings(deadline=None)
@given(graphs())
def test_consensus_is_what_repeated_averaging_comes_to(graph):
    matrix = uniform(graph)
    if len(components(graph)) > 1:
        assert spectral_gap(matrix) == 0
        return
    models = rng(1).normal(size=len(graph))
    after = np.linalg.matrix_power(matrix, 20_000) @ models
    np.testing.assert_allclose(after, stationary(matrix) @ models, atol=1e-8)
    sizes = np.array([len(hood) for hood in closed_neighbourhoods(graph)])
    np.testing.assert_allclose(stationary(matrix), sizes / sizes.sum(), atol=1e-10)


@pytest.mark.parametrize("nodes", [2, 3, 10, 50])
def test_gap_of_complete_graphs(nodes):
    assert spectral_gap(uniform(build_graph("full", nodes, rng()))) == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("nodes", [3, 4, 5, 10, 31])
def test_gap_of_rings(nodes):
    expected = 1 - (1 + 2 * cos(2 * pi / nodes)) / 3
    assert spectral_gap(uniform(build_graph("ring", nodes, rng()))) == pytest.approx(expected)


def test_gap_at_the_limits():
    assert spectral_gap(np.ones((1, 1))) == 1
    assert spectral_gap(np.eye(3)) == 0
    assert spectral_gap(np.array([[0.0, 1.0], [1.0, 0.0]])) == pytest.approx(0, abs=1e-12)  # swapped for ever
    turn = np.array([[0.5, 0.5, 0], [0, 0.5, 0.5], [0.5, 0, 0.5]])  # eigenvalues 1/2 + exp(2 pi i j / 3) / 2
    assert spectral_gap(turn) == pytest.approx(0.5)
    two = nx.disjoint_union(nx.cycle_graph(4), nx.complete_graph(3))
    assert spectral_gap(uniform(two)) == 0


@given(st.integers(2, 12), st.integers(0, 1000))
def test_symmetric_matrices_have_no_favourite(nodes, seed):
    """Metropolis weights: symmetric, and every row and column sums to 1."""
    graph = build_graph("erdos_renyi", nodes, rng(seed), probability=0.7)
    if len(components(graph)) > 1:
        graph = build_graph("line", nodes, rng())
    matrix = np.zeros((nodes, nodes))
    for a, b in graph.edges:
        matrix[a, b] = matrix[b, a] = 1 / (1 + max(graph.degree[a], graph.degree[b]))
    matrix += np.diag(1 - matrix.sum(axis=1))
    np.testing.assert_allclose(stationary(matrix), 1 / nodes, atol=1e-12)


def test_small_weights_are_exact():
    """A line on which everybody listens to the left a million times as much as to the right: p falls by that factor."""
    nodes, rare = 6, 1e-6
    matrix = (1 - rare) * np.eye(nodes, k=-1) + rare * np.eye(nodes, k=1)
    matrix[0, 0], matrix[-1, -1] = 1 - rare, rare
    np.testing.assert_allclose(stationary(matrix)[1:] / stationary(matrix)[:-1], rare / (1 - rare), rtol=1e-12)


def test_nodes_nobody_hears_count_for_nothing():
    matrix = np.array([[0.5, 0.5, 0.0], [0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
    np.testing.assert_allclose(stationary(matrix), [1 / 3, 2 / 3, 0], atol=1e-12)


def test_rounded_weights_are_made_to_sum_to_one():
    assert mixing_matrix([np.array([0])], [[1 + 5e-7]]).tolist() == [[1.0]]


def test_mixing_refused():
    hoods = [np.array([0, 1]), np.array([0, 1])]
    with pytest.raises(DataError, match="2 neighbourhoods and 1 rows"):
        mixing_matrix(hoods, [[0.5, 0.5]])
    with pytest.raises(DataError, match=r"weights of node 1 sums to 0\.9"):
        mixing_matrix(hoods, [[0.5, 0.5], [0.5, 0.4]])
    with pytest.raises(DataError, match="node 1 has 2 in its closed neighbourhood"):
        mixing_matrix(hoods, [[0.5, 0.5], [1.0]])
    with pytest.raises(DataError, match=r"mixing matrix\[1\] sums to 2"):
        spectral_gap(np.array([[1.0, 0.0], [1.0, 1.0]]))
