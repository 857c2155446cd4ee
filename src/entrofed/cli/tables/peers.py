"""How peers without a server did: what ``entrofed show --peers`` prints and draws."""

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
from rich.table import Table

from entrofed.errors import ConfigError
from entrofed.experiment.run_folder import Record, RunFolder
from entrofed.info.entropy import entropy_of_counts
from entrofed.papers.results import NEAR, convergence


def peers_tables(run: RunFolder) -> Iterator[Table]:
    """Each node after the last evaluation, and the course of consensus."""
    records = _records(run)
    facts = run.federation_facts()
    counts = np.array(facts["label_counts"]) if facts is not None else None
    last = records[-1]
    table = Table(
        "node", "samples", "labels", "hears", "own weight", "largest", "of", "accuracy", "macro F1", "held out"
    )
    table.title = f"peers after round {last['round'] + 1}"
    for peer in last["peers"]:
        weights = dict(zip(peer["from"], peer["weights"], strict=True))
        largest = max(weights, key=weights.__getitem__)
        held = counts[peer["node"]] if counts is not None else None
        table.add_row(
            str(peer["node"]),
            "" if held is None else str(held.sum()),
            "" if held is None else f"{float(entropy_of_counts(held, base='bits')):.2f}",
            str(len(weights) - (peer["node"] in weights)),
            f"{weights.get(peer['node'], 0.0):.3f}",
            f"{weights[largest]:.3f}",
            str(largest),
            f"{peer['accuracy']:.3f}",
            f"{peer['macro_f1']:.3f}",
            f"{peer['held_out']:.3f}" if "held_out" in peer else "",
        )
    table.caption = "labels: entropy in bits; held out: accuracy on the node's own held-out data (data.holdout)"
    yield table
    yield _course(records)


def _course(records: list[Record]) -> Table:
    f1 = [record["test"]["macro_f1"] for record in records]
    converged = convergence(f1)
    table = Table("round", "macro F1 (mean)", "least", "most", "distance to consensus", "spectral gap", title="course")
    table.caption = (
        f"{NEAR:.0%} of the best mean macro F1 was reached in round {converged}; the gap is that "
        "of the round's weights: 1 is consensus at once, 0 never"
    )
    step = max(1, len(records) // 12)
    for record in {r["round"]: r for r in [*records[::step], records[-1]]}.values():
        of_nodes = [peer["macro_f1"] for peer in record["peers"]]
        gap = record["spectral_gap"]
        table.add_row(
            str(record["round"] + 1),
            f"{record['test']['macro_f1']:.4f}",
            f"{min(of_nodes):.4f}",
            f"{max(of_nodes):.4f}",
            f"{record['consensus']:.4g}",
            "" if gap is None else f"{gap:.4f}",
        )
    return table


def mixing_chart(run: RunFolder) -> alt.Chart:
    """The weights that each node gave to each model in the last round: the mixing matrix."""
    last = _records(run)[-1]
    nodes = [peer["node"] for peer in last["peers"]]
    cells: list[dict[str, Any]] = [
        {"node": peer["node"], "model": sender, "weight": weight}
        for peer in last["peers"]
        for sender, weight in zip(peer["from"], peer["weights"], strict=True)
    ]
    scale = alt.Scale(domain=nodes)
    size = alt.Step(max(4, min(28, 560 / len(nodes))))
    title = alt.Title(
        f"Who listens to whom in {run.label}",
        subtitle=f"weights of round {last['round'] + 1}; each row sums to 1; white: not heard",
        anchor="start",
    )
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=cells), width=size, height=size, title=title)
        .mark_rect()
        .encode(
            x=alt.X("model:O", title="model of node", scale=scale, axis=alt.Axis(labelOverlap=True, labelAngle=0)),
            y=alt.Y("node:O", title="weighed by node", scale=scale, axis=alt.Axis(labelOverlap=True)),
            color=alt.Color("weight:Q", title="Weight").scale(scheme="viridis", reverse=True, domainMin=0),
            tooltip=["node:O", "model:O", alt.Tooltip("weight:Q", format=".4f")],
        )
    )
    return chart


def _records(run: RunFolder) -> list[Record]:
    records = [record for record in run.records() if record.get("peers") and record["test"] is not None]
    if not records:
        raise ConfigError(f"{run.path}: there are no evaluated rounds of peers in this run; it needs a [topology]")
    return records
