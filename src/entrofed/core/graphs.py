"""What repeated averaging along the edges of a graph leads to, where there is no server.

Nodes are numbered from 0; the graphs are made in :mod:`entrofed.core.topologies`. Node i averages over its closed
neighbourhood, itself and those it shares an edge with, so a round is a matrix W with rows that sum to 1. It is
neither symmetric nor doubly stochastic in general: where repeated rounds lead is the average with the weights
``stationary(W)``, and how fast is told by ``spectral_gap(W)``.

>>> from entrofed.core.topologies import build_graph
>>> graph = build_graph("ring", 5, np.random.default_rng(0))
>>> [hood.tolist() for hood in closed_neighbourhoods(graph)]
[[0, 1, 4], [0, 1, 2], [1, 2, 3], [2, 3, 4], [0, 3, 4]]
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from entrofed.errors import ConfigError, DataError
from entrofed.info.entropy import Floats, distribution

if TYPE_CHECKING:
    import networkx as nx

Nodes = NDArray[np.int64]


def sorted_edges(graph: "nx.Graph") -> list[tuple[int, int]]:
    """Every edge once, from its lower to its higher node, in ascending order."""
    return sorted((min(edge), max(edge)) for edge in graph.edges)


def closed_neighbourhoods(graph: "nx.Graph") -> list[Nodes]:
    """For each node, itself and those it shares an edge with, in ascending order."""
    return [np.array(sorted({node, *graph[node]}), np.int64) for node in range(len(graph))]


def live_edges(graph: "nx.Graph", probability: float, rng: Generator) -> "nx.Graph":
    """The graph of one round of a time-varying network: each edge is up with this probability, all nodes stay."""
    check_probability("probability that an edge is up", probability)
    edges = sorted_edges(graph)
    alive = type(graph)()
    alive.add_nodes_from(range(len(graph)))
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
    linked = distribution("mixing matrix", matrix) > 0
    count, group = scipy.sparse.csgraph.connected_components(linked, connection="strong")
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


def check_probability(what: str, value: float) -> None:
    """A ConfigError unless the value is from 0 to 1."""
    if not 0 <= value <= 1:
        raise ConfigError(f"{what} = {value}, but must be from 0 to 1")
