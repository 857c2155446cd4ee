"""The small studies as pictures; rows are those that a study returns."""

from collections.abc import Mapping
from math import log2
from typing import Any

import altair as alt

WEIGHING_COLOURS = ("#000000", "#999999", "#0072B2", "#56B4E9", "#CC79A7", "#009E73", "#D55E00")
ATTACK_COLOURS, ATTACK_SHAPES = ("#000000", "#0072B2", "#D55E00"), ("circle", "square", "triangle-up")


def selection_chart(rows: list[dict[str, Any]], classes: int) -> alt.FacetChart:
    """Cohort entropy of every selector, with the two lines that matter for so many classes."""
    spread = [(row["entropy"], row["entropy_std"] or 0.0) for row in rows]
    shown = [{**row, "low": mean - std, "high": mean + std} for row, (mean, std) in zip(rows, spread, strict=True)]
    order = list(dict.fromkeys(row["selector"] for row in rows))
    base = alt.Chart(alt.InlineData(values=shown))
    x = alt.X("entropy:Q", title="entropy of the cohort's pooled labels (bits)", scale=alt.Scale(zero=False, padding=8))
    y = alt.Y("selector:N", sort=order, title=None)
    every = base.mark_rule(strokeDash=[4, 3], color="#555").encode(x=alt.datum(log2(classes - 1)))
    most = base.mark_rule(color="#555").encode(x=alt.datum(log2(classes)))
    bars = base.mark_rule(strokeWidth=2, color="#0072B2").encode(x="low:Q", x2="high:Q", y=y)
    points = base.mark_point(filled=True, size=70, color="#0072B2").encode(x=x, y=y)
    title = alt.TitleParams(
        "What each selector gets together, without training anything",
        subtitle="mean and spread over draws; dashed: log2(C-1), above it all labels are there; solid: log2 C",
    )
    layers = alt.layer(every, most, bars, points).properties(width=360, height=24 * len(order))
    return layers.facet(column=alt.Column("partition:N", title=None)).properties(title=title)


def topology_study_chart(rows: list[dict[str, Any]]) -> alt.FacetChart:
    """Spectral gap of every topology and weighing, a panel for each alpha."""
    spread = [(row["gap"], row["gap_std"] or 0.0) for row in rows]
    shown = [
        {**row, "low": max(mean - std, 0.0), "high": min(mean + std, 1.0), "panel": f"Dirichlet {row['alpha']:g}"}
        for row, (mean, std) in zip(rows, spread, strict=True)
    ]
    kinds, titles, panels = (
        list(dict.fromkeys(row[key] for row in shown)) for key in ("topology", "weighing", "panel")
    )
    colours = alt.Scale(domain=titles, range=WEIGHING_COLOURS)
    base = alt.Chart(alt.InlineData(values=shown)).encode(
        y=alt.Y("topology:N", sort=kinds, title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("weighing:N", sort=titles),
        color=alt.Color("weighing:N", sort=titles, title="Weighing", scale=colours),
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title="Spectral gap"), x2="high:Q")
    points = base.mark_point(filled=True, size=45, opacity=1).encode(
        x="gap:Q",
        tooltip=["topology:N", "weighing:N", alt.Tooltip("gap:Q", format=".3f"), alt.Tooltip("bias:Q", format=".3f")],
    )
    title = alt.Title(
        "How fast decentralized averaging comes to a consensus",
        subtitle="spectral gap of the mixing matrix, mean and spread over partitions; 1: after one round, 0: never",
        anchor="start",
    )
    layers = alt.layer(bars, points).properties(width=230, height=alt.Step(9))
    return layers.facet(column=alt.Column("panel:N", sort=panels, title=None)).properties(title=title)


def adversaries_chart(rows: list[dict[str, Any]], attacks: Mapping[str, str]) -> alt.FacetChart:
    """The adversary's weight and the others' accuracy, a row of panels for each alpha; ``attacks``: each in words."""
    sides = {"weight": "Weight of the adversary (line: an equal share)", "accuracy": "Accuracy of the others"}
    shown = [
        {
            "way": row["way"],
            "attack": attacks[row["attack"]],
            "panel": f"Dirichlet {row['alpha']:g}",
            "metric": words,
            "value": row[key],
            "low": max(row[key] - (row[f"{key}_std"] or 0.0), 0.0),
            "high": min(row[key] + (row[f"{key}_std"] or 0.0), 1.0),
            "equal": 1 / row["peers"] if key == "weight" else None,
        }
        for row in rows
        for key, words in sides.items()
    ]
    order = list(attacks.values())
    titles, panels = (list(dict.fromkeys(one[key] for one in shown)) for key in ("way", "panel"))
    colours = alt.Scale(domain=order, range=ATTACK_COLOURS)
    shapes = alt.Scale(domain=order, range=ATTACK_SHAPES)
    plain = alt.Chart(alt.InlineData(values=shown))
    base = plain.encode(
        y=alt.Y("way:N", sort=titles, title=None, axis=alt.Axis(grid=True, tickBand="extent")),
        yOffset=alt.YOffset("attack:N", sort=order),
        color=alt.Color("attack:N", sort=order, title="Adversary", scale=colours),
    )
    bars = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    points = base.mark_point(filled=True, size=50, opacity=1).encode(
        x=alt.X("value:Q", scale=alt.Scale(domain=[0, 1])),
        shape=alt.Shape("attack:N", sort=order, title="Adversary", scale=shapes),
        tooltip=["way:N", "attack:N", alt.Tooltip("value:Q", format=".3f")],
    )
    equal = plain.mark_rule(strokeDash=[4, 3], color="#555").encode(x="min(equal):Q")
    title = alt.Title(
        "What an adversarial peer gains by a false claim about its labels, and what helps",
        subtitle="mean and spread over seeds; poisons: also trains on flipped labels",
        anchor="start",
    )
    layers = alt.layer(equal, bars, points).properties(width=260, height=alt.Step(9))
    return layers.facet(
        row=alt.Row("panel:N", sort=panels, title=None),
        column=alt.Column("metric:N", sort=list(sides.values()), title=None),
    ).properties(title=title)
