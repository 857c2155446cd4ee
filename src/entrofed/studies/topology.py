"""``entrofed study topology``: what a topology and a weighing make of decentralized averaging, without training.

Label counts as of MNIST are dealt out to the nodes; every node weighs its closed neighbourhood. How much does a node
keep of its own model, how much can one neighbour take, how fast do the models come together, and how far is what they
come to from an average by data size?
"""

import statistics
from collections.abc import Callable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from entrofed.core.graphs import Nodes, closed_groups, closed_neighbourhoods, mixing_matrix, spectral_gap, stationary
from entrofed.core.seeds import stream
from entrofed.core.topologies import build_graph
from entrofed.data import PARTITIONS
from entrofed.data.partition import label_counts
from entrofed.errors import unknown
from entrofed.facts.label_mixture import LabelMixture
from entrofed.info.entropy import Floats
from entrofed.info.pooling import Mode, pooled_weights, pooling_weights

CLASSES, PER_CLASS = 10, 6000
Weights = Callable[[int, Nodes], Floats]
"""The weights at a node of the nodes in its closed neighbourhood."""

KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "ring": {},
    "line": {},
    "star": {},
    "small_world": {"degree": 4, "rewire": 0.2},
    "regular": {"degree": 4},
    "scale_free": {"edges": 2},
    "erdos_renyi": {"probability": 0.4},
}
"""The topologies of the study with their options."""


def weighings(counts: NDArray[np.int64]) -> dict[str, Weights]:
    """The weighings of the study for nodes with these label counts; every node's mixture is fitted once, here."""
    sizes = counts.sum(axis=1).astype(np.float64)
    mixtures = LabelMixture().of_all(list(counts))

    def pooled(mode: Mode) -> Weights:
        summaries = list(counts) if mode == "histogram" else mixtures

        def weigh(node: int, hood: Nodes) -> Floats:
            own = np.flatnonzero(counts[node])
            return pooling_weights([summaries[k] for k in hood], counts.shape[1], mode=mode, labels=own)[0]

        return weigh

    return {
        "data size": lambda node, hood: pooled_weights(np.zeros(len(hood)), sizes[hood]),
        "uniform": lambda node, hood: np.full(len(hood), 1 / len(hood)),
        **{f"FedEP {mode}": pooled(mode) for mode in get_args(Mode)},
    }


def mixing_metrics(matrix: Floats, sizes: NDArray[np.int64]) -> dict[str, Any]:
    """Of one mixing matrix: the nodes' weights of their own models, the largest of all, the gap, the bias.

    ``bias`` is the total variation distance ``sum_k |p_k - N_k / N| / 2`` of the consensus weights from the shares of
    the data; None without a consensus.

    >>> mixing_metrics(np.eye(2), np.array([30, 10]))
    {'own': [1.0, 1.0], 'largest': 1.0, 'gap': 0.0, 'bias': None}
    """
    bias = None
    if len(closed_groups(matrix)) == 1:
        bias = float(np.abs(stationary(matrix) - sizes / sizes.sum()).sum() / 2)
    own = np.diag(matrix).tolist()
    return {"own": own, "largest": float(matrix.max()), "gap": spectral_gap(matrix), "bias": bias}


def study(
    *, nodes: int, alphas: Sequence[float], seeds: int, kinds: Sequence[str] = tuple(KINDS)
) -> list[dict[str, Any]]:
    """One row per alpha, topology and weighing, over partitions and graphs drawn with different seeds.

    ``own_min``, ``own_max`` and ``largest`` are over all nodes of all partitions; ``consensus`` is the share of
    partitions with one, and ``bias`` the mean over these.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise unknown("topology of the study", kind, KINDS)
    graphs = {
        kind: [build_graph(kind, nodes, stream(seed, "topology"), **KINDS[kind]) for seed in range(seeds)]
        for kind in kinds
    }
    labels = np.repeat(np.arange(CLASSES), PER_CLASS)
    rows: list[dict[str, Any]] = []
    for alpha in alphas:
        shards = [
            PARTITIONS["dirichlet_balanced"](labels, nodes, stream(seed, "partition"), alpha=alpha)
            for seed in range(seeds)
        ]
        tables = [label_counts(labels, dealt, CLASSES) for dealt in shards]
        known = [weighings(table) for table in tables]
        for kind in kinds:
            hoods = [closed_neighbourhoods(graph) for graph in graphs[kind]]
            for title in known[0]:
                found = []
                for table, weighing, hood in zip(tables, known, hoods, strict=True):
                    weights = [weighing[title](node, hood[node]) for node in range(nodes)]
                    found.append(mixing_metrics(mixing_matrix(hood, weights), table.sum(axis=1)))
                rows.append(
                    {"alpha": alpha, "topology": kind, "weighing": title, "partitions": seeds, **_summary(found)}
                )
    return rows


def _summary(found: list[dict[str, Any]]) -> dict[str, Any]:
    own = [weight for one in found for weight in one["own"]]
    biases = [one["bias"] for one in found if one["bias"] is not None]
    gaps = [one["gap"] for one in found]
    return {
        "own": statistics.mean(own),
        "own_min": min(own),
        "own_max": max(own),
        "largest": max(one["largest"] for one in found),
        "gap": statistics.mean(gaps),
        "gap_std": statistics.stdev(gaps) if len(gaps) > 1 else None,
        "bias": statistics.mean(biases) if biases else None,
        "bias_std": statistics.stdev(biases) if len(biases) > 1 else None,
        "consensus": len(biases) / len(found),
    }
