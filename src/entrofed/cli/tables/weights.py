"""How much each client counted, and why: what ``entrofed show --weights`` prints and draws."""

from collections.abc import Iterator
from itertools import chain
from typing import Any

import altair as alt
from rich.table import Table

from entrofed.cli.tables.runs import sparkline
from entrofed.cli.tables.selection import SHOWN, cell
from entrofed.errors import CheckpointError
from entrofed.experiment.run_folder import Record, RunFolder

MOST_ROWS = 40
"""Clients that are listed: those that count most and those that count least."""


def weights_tables(run: RunFolder) -> Iterator[Table]:
    """The weights of the last rounds with what they came from, and each client's over all rounds."""
    records = [record for record in run.records() if record["clients"]]
    for record in records[-SHOWN:]:
        yield _round(record)
    yield _clients(records)


def _round(record: Record) -> Table:
    origins = [client.get("origin") or {} for client in record["clients"]]
    columns = list(dict.fromkeys(chain.from_iterable(origins)))
    title = f"round {record['round'] + 1}: {len(origins)} updates, worth {record['effective_cohort']:.2f} equal ones"
    table = Table("client", "weight", "x equal", "examples", *(c.replace("_", " ") for c in columns), title=title)
    for client, origin in zip(record["clients"], origins, strict=True):
        table.add_row(
            str(client["client"]),
            f"{client['weight']:.4f}",
            f"{client['weight'] * len(origins):.3f}",
            str(client["examples"]),
            *(cell(origin.get(column)) for column in columns),
        )
    return table


def _clients(records: list[Record]) -> Table:
    """Weights as multiples of an equal share, so that rounds with different numbers of updates compare."""
    shares: dict[int, list[float]] = {}
    for record in records:
        for client in record["clients"]:
            shares.setdefault(client["client"], []).append(client["weight"] * len(record["clients"]))
    ranked = sorted(shares.items(), key=lambda item: -sum(item[1]) / len(item[1]))
    highest = max((share for _, values in ranked for share in values), default=1.0)
    table = Table("client", "rounds", "mean", "least", "most", "course", title="weight of each client, x equal share")
    if len(ranked) > MOST_ROWS:
        half = MOST_ROWS // 2
        table.caption = f"the {half} that count most and the {half} that count least of {len(ranked)} clients"
        ranked = [*ranked[:half], *ranked[-half:]]
    for number, values in ranked:
        figures = (sum(values) / len(values), min(values), max(values))
        course = sparkline([value / highest for value in values], width=30)
        table.add_row(str(number), str(len(values)), *(f"{figure:.3f}" for figure in figures), course)
    return table


def weights_chart(run: RunFolder) -> alt.TopLevelMixin:
    """A heat map of the weights, clients by rounds, above the largest weight of each round."""
    cells: list[dict[str, Any]] = []
    rounds: list[dict[str, Any]] = []
    for record in run.records():
        if not record["clients"]:
            continue
        number, equal = record["round"] + 1, 1 / len(record["clients"])
        rounds.append({"round": number, "largest": max(c["weight"] for c in record["clients"]), "equal": equal})
        cells += [
            {
                "round": number,
                "client": client["client"],
                "weight": client["weight"],
                "share": client["weight"] / equal,
                "examples": client["examples"],
            }
            for client in record["clients"]
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
    equal = base.mark_line(color="#555", strokeDash=[4, 3]).encode(x=x, y="equal:Q")
    title = alt.Title(
        f"How much each client counted in {run.label}",
        subtitle=["orange: more than an equal share, blue: less, white: not in the cohort; dashed: an equal share"],
        anchor="start",
    )
    return alt.vconcat(heat, alt.layer(largest, equal), spacing=8, title=title)
