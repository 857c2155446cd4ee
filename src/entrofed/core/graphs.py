"""Who talks to whom when there is no server, and what repeated averaging along these edges leads to.

Nodes are numbered from 0. A topology takes the number of nodes and a random generator; its options are keywords.
Node i averages over its closed neighbourhood, itself and those it shares an edge with, so a round is a matrix W with
rows that sum to 1. It is neither symmetric nor doubly stochastic in general: where repeated rounds lead is the average
with the weights ``stationary(W)``, and how fast is told by ``spectral_gap(W)``.

>>> graph = build_graph("ring", 5, np.random.default_rng(0))
>>> [hood.tolist() for hood in closed_neighbourhoods(graph)]
[[0, 1, 4], [0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 3, 4]]
"""

import re
from collections.abc import Callable, Sequence
from math import isqrt
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray
from scipy.sparse.csgraph import connected_components

from entrofed.errors import ConfigError, DataError, check_options, unknown
from entrofed.info.entropy import Floats, distribution

Nodes = NDArray[np.int64]


def full(nodes: int, rng: Generator) -> nx.Graph:
    """Everybody with everybody."""
    return nx.complete_graph(nodes)


def ring(nodes: int, rng: Generator) -> nx.Graph:
    """Each node with the next, the last with the first; one or two nodes are a line."""
    return nx.cycle_graph(nodes) if nodes > 2 else nx.path_graph(nodes)


def line(nodes: int, rng: Generator) -> nx.Graph:
    """Each node with the next."""
    return nx.path_graph(nodes)


def star(nodes: int, rng: Generator) -> nx.Graph:
    """Everybody with node 0."""
    return nx.star_graph(nodes - 1)


def grid(nodes: int, rng: Generator) -> nx.Graph:
    """The most nearly square grid of so many nodes, row by row; a prime number of them makes a line.

    >>> sorted(build_graph("grid", 6, np.random.default_rng(0)).edges)
    [(0, 1), (0, 3), (1, 2), (1, 4), (2, 5), (3, 4), (4, 5)]
    """
    rows = next(side for side in range(isqrt(nodes), 0, -1) if nodes % side == 0)
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(rows, nodes // rows))


def regular(nodes: int, rng: Generator, *, degree: int) -> nx.Graph:
    """A random graph in which every node has ``degree`` edges."""
    _below_nodes("regular", "degree", degree, 0, nodes)
    if degree * nodes % 2:
        raise ConfigError(
            f"topology 'regular': degree = {degree} times {nodes} nodes is odd, and every edge has two ends; "
            "make one of them even"
        )
    missing = nodes - 1 - degree
    if missing < degree:  # a dense graph takes many tries; what it lacks is sparse
        return nx.complement(nx.random_regular_graph(missing, nodes, seed=_seed(rng)))
    return nx.random_regular_graph(degree, nodes, seed=_seed(rng))


def erdos_renyi(nodes: int, rng: Generator, *, probability: float) -> nx.Graph:
    """Each pair of nodes has an edge with this probability."""
    _probability("topology 'erdos_renyi': probability", probability)
    return nx.fast_gnp_random_graph(nodes, probability, seed=_seed(rng))


def small_world(nodes: int, rng: Generator, *, degree: int, rewire: float) -> nx.Graph:
    """A ring in which each node knows the ``degree`` nearest; then each edge moves an end with probability ``rewire``.

    Reference: Watts and Strogatz, Collective dynamics of "small-world" networks (Nature, 1998).
    """
    _below_nodes("small_world", "degree", degree, 0, nodes)
    _probability("topology 'small_world': rewire", rewire)
    if degree % 2:
        raise ConfigError(f"topology 'small_world': degree = {degree} must be even, half of it to each side")
    return nx.watts_strogatz_graph(nodes, degree, rewire, seed=_seed(rng))


def scale_free(nodes: int, rng: Generator, *, edges: int) -> nx.Graph:
    """Nodes come one by one, each with this many ``edges``, rather to nodes that have many.

    Reference: Barabási and Albert, Emergence of scaling in random networks (Science, 1999).
    """
    if nodes < 2:
        raise ConfigError("topology 'scale_free' needs at least 2 nodes")
    _below_nodes("scale_free", "edges", edges, 1, nodes)
    return nx.barabasi_albert_graph(nodes, edges, seed=_seed(rng))


def file(nodes: int, rng: Generator, *, path: str | Path) -> nx.Graph:
    """Edges from a file, two node numbers per line; ``#`` starts a comment, and an edge may be listed again."""
    graph = nx.empty_graph(nodes)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        raise ConfigError(f"topology 'file': there is no file {path}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: not readable as text: {error}") from None
    for number, text in enumerate(lines, start=1):
        words = text.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 2 or not all(re.fullmatch("[0-9]{1,9}", word) for word in words):
            raise DataError(f"{path}, line {number}: an edge is two node numbers such as '0 1', found {text.strip()!r}")
        a, b = map(int, words)
        if max(a, b) >= nodes:
            raise DataError(f"{path}, line {number}: node {max(a, b)} does not exist, there are 0 to {nodes - 1}")
        if a == b:
            raise DataError(f"{path}, line {number}: node {a} needs no edge to itself; remove the line")
        graph.add_edge(a, b)
    return graph


TOPOLOGIES: dict[str, Callable[..., nx.Graph]] = {
    topology.__name__: topology
    for topology in (full, ring, line, star, grid, regular, erdos_renyi, small_world, scale_free, file)
}


def build_graph(kind: str, nodes: int, rng: Generator, **options: Any) -> nx.Graph:
    """The graph over nodes 0 to n-1, which need not be connected; nodes and edges come in ascending order."""
    if kind not in TOPOLOGIES:
        raise unknown("topology", kind, TOPOLOGIES)
    if nodes < 1:
        raise ConfigError(f"topology {kind!r}: nodes = {nodes}, but there must be at least 1")
    check_options(f"topology {kind!r}", TOPOLOGIES[kind], options)
    graph = nx.empty_graph(nodes)
    graph.add_edges_from(sorted_edges(TOPOLOGIES[kind](nodes, rng, **options)))
    return graph


def sorted_edges(graph: nx.Graph) -> list[tuple[int, int]]:
    """Every edge once, from its lower to its higher node, in ascending order."""
    return sorted((min(edge), max(edge)) for edge in graph.edges)


def components(graph: nx.Graph) -> list[list[int]]:
    """The groups of nodes that can reach each other, by their lowest node.

    >>> components(nx.Graph([(3, 1), (2, 0)]))
    [[0, 2], [1, 3]]
    """
    return sorted(sorted(group) for group in nx.connected_components(graph))


def closed_neighbourhoods(graph: nx.Graph) -> list[Nodes]:
    """For each node, itself and those it shares an edge with, in ascending order."""
    return [np.array(sorted({node, *graph[node]}), np.int64) for node in range(len(graph))]


def live_edges(graph: nx.Graph, probability: float, rng: Generator) -> nx.Graph:
    """The graph of one round of a time-varying network: each edge is up with this probability, all nodes stay."""
    _probability("probability that an edge is up", probability)
    edges = sorted_edges(graph)
    alive = nx.empty_graph(len(graph))
    alive.add_edges_from(edge for edge, up in zip(edges, rng.random(len(edges)) < probability, strict=True) if up)
    return alive


def mixing_matrix(neighbourhoods: Sequence[Nodes], weights: Sequence[ArrayLike]) -> Floats:
    """W with W[i, k] = the weight of node k at node i; every row sums to 1.

    >>> mixing_matrix([np.array([0, 1]), np.array([1])], [[0.25, 0.75], [1.0]]).tolist()
    [[0.25, 0.75], [0.0, 1.0]]
    """
    if len(neighbourhoods) != len(weights):
        raise DataError(f"there are {len(neighbourhoods)} neighbourhoods and {len(weights)} rows of weights")
    matrix = np.zeros((len(weights), len(weights)))
    for node, (hood, given) in enumerate(zip(neighbourhoods, weights, strict=True)):
        row = distribution(f"weights of node {node}", given)
        if row.shape != hood.shape:
            raise DataError(f"node {node} has {len(hood)} in its closed neighbourhood and weights {row.shape}")
        matrix[node, hood] = row / row.sum()
    return matrix


def closed_groups(matrix: Floats) -> list[Nodes]:
    """The groups of nodes that weigh nobody outside and cannot be split further; with one, there is a consensus.

    >>> [group.tolist() for group in closed_groups(np.array([[0.5, 0.5, 0], [0, 1, 0], [0, 0, 1]]))]
    [[1], [2]]
    """
    count, group = connected_components(distribution("mixing matrix", matrix) > 0, connection="strong")
    members = [np.flatnonzero(group == number) for number in range(count)]
    closed = [nodes for nodes in members if not np.delete(matrix[nodes], nodes, axis=1).any()]
    return sorted(closed, key=lambda nodes: int(nodes[0]))


def spectral_gap(matrix: Floats) -> float:
    """1 - |lambda_2|, the second largest modulus of the eigenvalues: 0 if all never agree, 1 if all rows are alike.

    After many rounds what is left of the disagreement shrinks by |lambda_2| a round. If W is not symmetric the
    eigenvalues may be complex, and disagreement may grow at first. Exactly 0 with more than one closed group, as in a
    graph that is not connected; 1 with one node.

    >>> round(spectral_gap(np.array([[0.75, 0.25], [0.5, 0.5]])), 12)
    0.75
    """
    if len(closed_groups(matrix)) > 1:
        return 0.0
    if len(matrix) == 1:
        return 1.0
    second = np.sort(np.abs(np.linalg.eigvals(matrix)))[-2]
    return float(np.clip(1 - second, 0.0, 1.0))


def stationary(matrix: Floats) -> Floats:
    """The weights p = p W, sum p = 1, of the nodes' models in the consensus: whom it is biased to.

    Nodes outside the one closed group, whom it does not listen to, get 0. Nothing is subtracted on the way, so that
    small weights are as exact as large ones.

    Reference: Grassmann, Taksar and Heyman, Regenerative analysis and steady state distributions for Markov chains
    (Operations Research, 1985).

    >>> stationary(np.array([[0.75, 0.25], [0.5, 0.5]])).round(12).tolist()
    [0.666666666667, 0.333333333333]
    """
    groups = closed_groups(matrix)
    if len(groups) != 1:
        raise DataError(f"there are {len(groups)} groups that never hear of each other, so there is no consensus")
    (nodes,) = groups
    steps = matrix[np.ix_(nodes, nodes)]
    for last in range(len(nodes) - 1, 0, -1):  # leave the last node out: who went there goes on from there
        steps[:last, last] /= steps[last, :last].sum()
        steps[:last, :last] += np.outer(steps[:last, last], steps[last, :last])
    found = np.ones(len(nodes))
    for node in range(1, len(nodes)):
        found[node] = found[:node] @ steps[:node, node]
    weights = np.zeros(len(matrix))
    weights[nodes] = found / found.sum()
    return weights


def _below_nodes(kind: str, name: str, value: int, least: int, nodes: int) -> None:
    if not least <= value < nodes:
        raise ConfigError(
            f"topology {kind!r}: {name} = {value}, but with {nodes} nodes it must be from {least} to {nodes - 1}"
        )


def _probability(what: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ConfigError(f"{what} = {value}, but must be from 0 to 1")


def _seed(rng: Generator) -> int:
    return int(rng.integers(2**32))
