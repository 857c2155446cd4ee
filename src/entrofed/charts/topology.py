"""A picture of who talks to whom."""

from math import log2

import altair as alt
import networkx as nx
import numpy as np
from numpy.typing import NDArray

from entrofed.core.graphs import sorted_edges
from entrofed.core.topologies import components
from entrofed.errors import DataError
from entrofed.info.entropy import Floats, entropy_of_counts

LABELLED = 50
"""Nodes of a picture that still get their number."""
SPRUNG = 100
"""Nodes of a picture above which path lengths take too long, and springs must do."""


def topology_chart(graph: nx.Graph, label_counts: NDArray[np.int64], title: str) -> alt.LayerChart:
    """The graph; a node is coloured by the entropy of its labels and grows with its samples."""
    if label_counts.ndim != 2 or len(label_counts) != len(graph) or not label_counts.size:
        raise DataError(f"label counts must be one row for each of {len(graph)} nodes, not {label_counts.shape}")
    places, bits = layout(graph), entropy_of_counts(label_counts, base="bits")
    sizes = label_counts.sum(axis=1)
    most, labelled = log2(label_counts.shape[1]), len(graph) <= LABELLED
    nodes = [
        {"node": k, "x": x, "y": y, "samples": int(n), "bits": float(h), "neighbours": graph.degree[k]}
        for k, ((x, y), n, h) in enumerate(zip(places.tolist(), sizes, bits, strict=True))
    ]
    ends = [(*places[a].tolist(), *places[b].tolist()) for a, b in sorted_edges(graph)]
    edges = [dict(zip(("x", "y", "x2", "y2"), end, strict=True)) for end in ends]

    margin = 0.08 * np.ptp(places, axis=0).max() or 1.0
    (left, low), (right, high) = places.min(axis=0) - margin, places.max(axis=0) + margin
    width = 460
    x = alt.X("x:Q", axis=None, scale=alt.Scale(domain=[left, right], nice=False, zero=False))
    y = alt.Y("y:Q", axis=None, scale=alt.Scale(domain=[low, high], nice=False, zero=False))
    base = alt.Chart(alt.InlineData(values=nodes)).encode(x=x, y=y)
    crowded = len(edges) > 3 * len(nodes)
    lines = (
        alt.Chart(alt.InlineData(values=edges))
        .mark_rule(color="#888888", strokeWidth=1, opacity=0.45 if crowded else 0.9)
        .encode(x=x, y=y, x2="x2:Q", y2="y2:Q")
    )
    bit_scale = alt.Scale(scheme="viridis", domain=[0, most or 1])
    shown = sorted({int(sizes.min()), int(sizes.max())})
    size_scale = alt.Scale(domainMin=0, range=[260, 900] if labelled else [15, 160])
    dots = base.mark_point(opacity=1, stroke="#333333", strokeWidth=1).encode(
        fill=alt.condition(
            "datum.samples > 0",
            alt.Fill("bits:Q", title=["Entropy of its", "labels (bits)"], scale=bit_scale),
            alt.value("white"),
        ),
        size=alt.Size("samples:Q", title="Samples", scale=size_scale).legend(values=shown, format=",d"),
        tooltip=[
            alt.Tooltip("node:O", title="Node"),
            alt.Tooltip("samples:Q", title="Samples", format=","),
            alt.Tooltip("bits:Q", title="Entropy (bits)", format=".3f"),
            alt.Tooltip("neighbours:Q", title="Neighbours"),
        ],
    )
    dark = f"datum.samples > 0 && datum.bits < {0.6 * most}"
    names = base.mark_text(fontSize=11, fontWeight="bold").encode(
        text="node:O", color=alt.condition(dark, alt.value("white"), alt.value("black"))
    )
    parts = len(components(graph))
    words = f"{len(nodes):,} nodes, {len(edges):,} edges" + ("" if parts == 1 else f", {parts:,} components")
    chart: alt.LayerChart = (
        alt.layer(lines, dots, *([names] if labelled else []))
        .properties(
            width=width,
            height=max(120, width * (high - low) / (right - left)),
            title=alt.Title(title, subtitle=words, anchor="start"),
        )
        .configure_view(stroke=None)
    )
    return chart


def layout(graph: nx.Graph) -> Floats:
    """A place for each node, the same every time, [nodes, 2]: longest from left to right, node 0 at the upper left.

    A ring or a complete graph is a circle. In others distances follow path lengths, or, in a large graph, springs.
    """
    degrees = {degree for _, degree in graph.degree}
    if len(graph) > 2 and (degrees == {len(graph) - 1} or (degrees == {2} and nx.is_connected(graph))):
        order = [0, *(node for _, node in nx.dfs_edges(graph, 0))]
        turn = 2 * np.pi * np.argsort(order) / len(order)
        return np.column_stack([np.sin(turn), np.cos(turn)])
    if len(graph) > SPRUNG:
        found = nx.spring_layout(graph, seed=0)
    else:
        paths = dict(nx.all_pairs_shortest_path_length(graph))
        apart = 1 + max(length for lengths in paths.values() for length in lengths.values()) / 2
        found = nx.kamada_kawai_layout(graph, {a: {b: paths[a].get(b, apart) for b in graph} for a in graph})
    places = np.array([found[node] for node in range(len(graph))])
    places -= places.mean(axis=0)
    places = places @ np.linalg.svd(places)[2].T
    return np.asarray(places * np.where(places[0] * [-1, 1] < 0, -1, 1))
