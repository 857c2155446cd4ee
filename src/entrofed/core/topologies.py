"""Who talks to whom when there is no server.

Nodes are numbered from 0. A topology takes the number of nodes and a random generator; its options are keywords.
"""

import re
from collections.abc import Callable
from math import isqrt
from pathlib import Path
from typing import Any

import networkx as nx
from numpy.random import Generator

from entrofed.core.graphs import check_probability, sorted_edges
from entrofed.errors import ConfigError, DataError, check_options, unknown


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

    >>> import numpy as np
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
    check_probability("topology 'erdos_renyi': probability", probability)
    return nx.fast_gnp_random_graph(nodes, probability, seed=_seed(rng))


def small_world(nodes: int, rng: Generator, *, degree: int, rewire: float) -> nx.Graph:
    """A ring in which each node knows the ``degree`` nearest; then each edge moves an end with probability ``rewire``.

    Reference: Watts and Strogatz, Collective dynamics of "small-world" networks (Nature, 1998).
    """
    _below_nodes("small_world", "degree", degree, 0, nodes)
    check_probability("topology 'small_world': rewire", rewire)
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


def components(graph: nx.Graph) -> list[list[int]]:
    """The groups of nodes that can reach each other, by their lowest node.

    >>> components(nx.Graph([(3, 1), (2, 0)]))
    [[0, 2], [1, 3]]
    """
    return sorted(sorted(group) for group in nx.connected_components(graph))


def _below_nodes(kind: str, name: str, value: int, least: int, nodes: int) -> None:
    if not least <= value < nodes:
        raise ConfigError(
            f"topology {kind!r}: {name} = {value}, but with {nodes} nodes it must be from {least} to {nodes - 1}"
        )


def _seed(rng: Generator) -> int:
    return int(rng.integers(2**32))
