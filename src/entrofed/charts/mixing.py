"""Whose models the peers of a run listen to."""

from typing import Any

import altair as alt

from entrofed.errors import ConfigError
from entrofed.experiment.run_folder import RunFolder


def mixing_chart(run: RunFolder) -> alt.Chart:
    """The weights that each node gave to each model in the last round: the mixing matrix."""
    records = [record for record in run.records() if record.peers]
    if not records:
        raise ConfigError(f"{run.path}: there are no rounds of peers in this run; it needs a [topology]")
    last = records[-1]
    nodes = [peer.node for peer in last.peers]
    cells: list[dict[str, Any]] = [
        {"node": peer.node, "model": sender, "weight": weight}
        for peer in last.peers
        for sender, weight in peer.mixing.items()
    ]
    scale = alt.Scale(domain=nodes)
    size = len(nodes) * max(4, min(28, 560 / len(nodes)))
    title = alt.Title(
        f"Who listens to whom in {run.label}",
        subtitle=f"weights of round {last.round + 1}; each row sums to 1; white: not heard",
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
