"""Runs without a server: who talks to whom, how near the peers are to each other, how each did."""

from collections.abc import Sequence

import numpy as np

from entrofed.charts.mixing import mixing_chart
from entrofed.charts.report import peers_chart
from entrofed.charts.topology import topology_chart
from entrofed.core.seeds import stream
from entrofed.core.topologies import build_graph, components
from entrofed.errors import EntrofedError
from entrofed.info.entropy import entropy_of_counts
from entrofed.report.blocks import Block, Grid, Picture, Section, Sheets, View
from entrofed.report.clients import LISTED
from entrofed.report.collect import Group
from entrofed.report.course import spread_out
from entrofed.report.lines import course_view
from entrofed.report.results import percent


def peers(groups: Sequence[Group], sheets: Sheets, shared: str) -> Section | None:
    """Everything about peers."""
    without = [group for group in groups if group.first.experiment.topology is not None]
    if not without:
        return None
    blocks: list[Block] = []
    if pictured := [view for group in without if (view := _topology(group)) is not None]:
        reading = (
            "Every dot is a peer, every line a connection; the lighter a dot, the more evenly the peer's labels are "
            "spread; the larger, the more samples it holds. The first seed."
        )
        blocks.append(Picture("Who talks to whom", reading, pictured))
    if "consensus" in sheets.columns[shared]:
        reading = (
            "The mean distance of the peers' models from their average, over the rounds: at 0 all peers agree. Mean "
            "over seeds, band from the lowest to the highest."
        )
        blocks.append(
            Picture("Distance to consensus", reading, [course_view(without, shared, "consensus", "Distance", ".3~g")])
        )
    if mixed := [_mixing(group) for group in without if group.first.rounds]:
        reading = (
            "A row is a peer, a column the model of a peer: the darker, the more it counted in the last round, as "
            "measured; white: it was not heard. The first seed."
        )
        blocks.append(Picture("Who listens to whom", reading, mixed))
    if views := [_nodes(group, sheets) for group in without if np.isfinite(group.first.nodes).any()]:
        reading = "A thin line is a peer's test accuracy, the thick one the mean of all peers. The first seed."
        blocks.append(Picture("Accuracy of each peer", reading, views))
    return Section("peers", "Without a server", blocks) if blocks else None


def _topology(group: Group) -> View | None:
    """None if the graph cannot be built again, because its file is gone, or who holds what is not known."""
    run = group.first
    section, counts = run.experiment.topology, run.label_counts
    if section is None or not counts.size:
        return None
    try:
        graph = build_graph(section.kind, len(counts), stream(run.experiment.seed, "topology"), **section.options())
    except EntrofedError:
        return None
    bits = entropy_of_counts(counts, base="bits")
    lines = [
        [str(k), str(graph.degree[k]), f"{int(counts[k].sum()):,}", f"{float(bits[k]):.2f}"]
        for k in range(min(LISTED, len(counts)))
    ]
    parts = len(components(graph))
    words = f"{group.name}: {len(graph)} peers and {graph.number_of_edges()} connections ({section.kind}), " + (
        "all reach each other." if parts == 1 else f"in {parts} parts that never hear of each other."
    )
    table = Grid(["Peer", "Neighbours", "Samples", "Entropy of its labels (bits)"], lines, "The first peers.")
    return View(topology_chart(graph, counts, ""), words, table, group.name)


def _mixing(group: Group) -> View:
    """The weights of the last round."""
    last = group.first.folder.records()[-1]
    lines = []
    for peer in last.peers[:LISTED]:
        weights = peer.mixing
        largest = max(weights, key=weights.__getitem__, default=peer.node)
        own, most = weights.get(peer.node, 0.0), weights.get(largest, 0.0)
        lines.append([str(peer.node), str(len(weights)), f"{own:.3f}", f"{most:.3f}", str(largest)])
    gap = "" if last.spectral_gap is None else f"; spectral gap {last.spectral_gap:.3f}"
    table = Grid(["Peer", "Models", "Own weight", "Largest", "Of"], lines, "The first peers.")
    return View(mixing_chart(group.first.folder), f"{group.name}: round {last.round + 1}{gap}.", table, group.name)


def _nodes(group: Group, sheets: Sheets) -> View:
    nodes = group.first.nodes
    evaluated = spread_out(np.flatnonzero(np.isfinite(nodes).all(axis=1)))
    courses = nodes[evaluated].T
    columns = {
        "round": (evaluated + 1).tolist() * len(courses),
        "node": [node for node in range(len(courses)) for _ in evaluated],
        "accuracy": courses.reshape(-1).tolist(),
    }
    chart = peers_chart(sheets.add("nodes", columns))
    last = courses[:, -1]
    low, mid, high = (percent(value) for value in (last.min(), last.mean(), last.max()))
    words = f"{group.name}: at the end from {low} % to {high} %, on average {mid} %."
    lines = [
        [str(node), percent(courses[node, 0]), percent(last[node])] for node in np.argsort(-last)[:LISTED].tolist()
    ]
    table = Grid(["Peer", "First %", "Last %"], lines, "The best first.")
    return View(chart, words, table, group.name)
