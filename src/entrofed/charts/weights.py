"""How much each client counted, over the rounds of a run."""

from typing import Any

import altair as alt

from entrofed.errors import CheckpointError
from entrofed.experiment.run_folder import RunFolder


def weights_chart(run: RunFolder) -> alt.TopLevelMixin:
    """A heat map of the weights, clients by rounds, above the largest weight of each round."""
    cells: list[dict[str, Any]] = []
    rounds: list[dict[str, Any]] = []
    for record in run.records():
        if not record.clients:
            continue
        number, equal = record.round + 1, 1 / len(record.clients)
        rounds.append({"round": number, "largest": max(client.weight for client in record.clients), "equal": equal})
        cells += [
            {
                "round": number,
                "client": client.client,
                "weight": client.weight,
                "share": client.weight / equal,
                "examples": client.examples,
            }
            for client in record.clients
        ]
    if not cells:
        raise CheckpointError(f"{run.path}: no update was weighed yet, so there is nothing to draw")
    every = max(1, len(rounds) // 20)
    x = alt.X("round:O", title="Round", axis=alt.Axis(values=[r["round"] for r in rounds[::every]], labelAngle=0))
    clients = len({row["client"] for row in cells})
    width = alt.Step(max(3, min(24, 760 / len(rounds))))
    heat = (
        alt.Chart(alt.InlineData(values=cells), width=width, height=alt.Step(max(4, min(16, 600 / clients))))
        .mark_rect()
        .encode(
            x=x.axis(None),
            y=alt.Y("client:O", title="Client", axis=alt.Axis(labelOverlap=True, ticks=False)),
            color=alt.Color("share:Q", title=["Weight,", "x equal share"]).scale(scheme="blueorange", domainMid=1),
            tooltip=["round:O", "client:O", alt.Tooltip("weight:Q", format=".4f"), "examples:Q"],
        )
    )
    base = alt.Chart(alt.InlineData(values=rounds), width=width, height=90)
    largest = base.mark_line(color="#0072B2").encode(x=x, y=alt.Y("largest:Q", title="Largest weight"))
    equal_share = base.mark_line(color="#555", strokeDash=[4, 3]).encode(x=x, y="equal:Q")
    title = alt.Title(
        f"How much each client counted in {run.label}",
        subtitle=["orange: more than an equal share, blue: less, white: not in the cohort; dashed: an equal share"],
        anchor="start",
    )
    return alt.vconcat(heat, alt.layer(largest, equal_share), spacing=8, title=title)
