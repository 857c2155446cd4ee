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
        "How balanced the cohorts of each selector are, before any training",
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


def attacks_chart(rows: list[dict[str, Any]]) -> Any:
    """Accuracy by attack and defence, a cell for each."""
    attacks, defences = (list(dict.fromkeys(row[key] for row in rows)) for key in ("attack", "defence"))
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=alt.X("defence:N", sort=defences, title=None, axis=alt.Axis(orient="top", labelAngle=0)),
        y=alt.Y("attack:N", sort=attacks, title=None),
    )
    scale = alt.Scale(domain=[0, 1], scheme="blues")
    cells = base.mark_rect().encode(color=alt.Color("accuracy:Q", title="Accuracy", scale=scale))
    dark = alt.condition("datum.accuracy > 0.6", alt.value("white"), alt.value("black"))
    words = base.mark_text().encode(text=alt.Text("accuracy:Q", format=".2f"), color=dark)
    title = alt.Title(
        f"What {rows[0]['hostile']} hostile clients do, by attack and by defence",
        subtitle="accuracy of the model, mean over seeds; the first row is what defences cost where nobody attacks",
        anchor="start",
    )
    return alt.layer(cells, words).properties(title=title, width=90 * len(defences), height=34 * len(attacks))


def leakage_chart(rows: list[dict[str, Any]]) -> alt.FacetChart:
    """How far guesses of labels are off, and how well members are told, a line for each protection."""
    sides = {
        "counts": "Labels by counts: error",
        "message": "Labels by a message: error",
        "model": "Labels by the model: error",
        "membership": "Membership: AUC",
    }
    shown = [
        {
            "setting": row["setting"],
            "metric": words,
            "value": row[key],
            "low": max(row[key] - (row[f"{key}_std"] or 0.0), 0.0),
            "high": min(row[key] + (row[f"{key}_std"] or 0.0), 1.0),
            "nothing": 0.5 if key == "membership" else row["beforehand"],
        }
        for row in rows
        for key, words in sides.items()
        if row[key] is not None
    ]
    plain = alt.Chart(alt.InlineData(values=shown))
    base = plain.encode(y=alt.Y("setting:N", sort=[row["setting"] for row in rows], title=None))
    bars = base.mark_rule(strokeWidth=1.5).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    points = base.mark_point(filled=True, size=50, opacity=1).encode(
        x=alt.X("value:Q", scale=alt.Scale(domain=[0, 1])),
        tooltip=["setting:N", "metric:N", alt.Tooltip("value:Q", format=".3f")],
    )
    nothing = plain.mark_rule(strokeDash=[4, 3], color="#555").encode(x="mean(nothing):Q")
    title = alt.Title(
        "What an honest-but-curious server learns under each protection",
        subtitle="mean and spread over seeds; dashed: known without looking; no point: the server does not get it",
        anchor="start",
    )
    layers = alt.layer(nothing, bars, points).properties(width=170, height=alt.Step(18))
    return layers.facet(column=alt.Column("metric:N", sort=list(sides.values()), title=None)).properties(title=title)
