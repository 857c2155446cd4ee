"""What label counts alone say, as a picture."""

from collections.abc import Mapping, Sequence
from math import log2
from typing import Any

import altair as alt

BLUE, ORANGE, GREEN, GRAY = "#0072B2", "#D55E00", "#009E73", "#555555"
DASHED, DOTTED, SOLID = [6, 3], [2, 2], [1, 0]
WIDTH, HEIGHT = 340, 220


def advice_chart(found: Mapping[str, Any]) -> alt.VConcatChart:
    """Cohorts of every size, and what selectors get together; ``found``: the findings of an advice as a dictionary."""
    classes = len(found["classes"])
    above = alt.hconcat(_entropy(found, classes), _coverage(found), spacing=40)
    rows = [above, _selectors(found, classes)] if found["selectors"] else [above]
    words = f"{found['clients']:,} clients, {classes:,} classes: what cohorts get together, without training anything"
    return alt.vconcat(*rows, spacing=30, title=alt.Title(words, anchor="start", fontSize=15, offset=16))


def _entropy(found: Mapping[str, Any], classes: int) -> Any:
    base, most = _by_size(found["sizes"]), log2(classes)
    y: dict[str, Any] = {"title": "bits", "scale": alt.Scale(domain=[0, most * 1.03])}
    title = alt.Title(
        "Entropy of a cohort's labels",
        subtitle=[
            "blue: greedily the best; orange: random, 90 % of them within the band;",
            "dashed: all clients together; solid: the most there can be; dotted: this cohort",
        ],
        anchor="start",
    )
    return alt.layer(
        base.mark_area(opacity=0.2, color=ORANGE).encode(y=alt.Y("low:Q", **y), y2="high:Q"),
        *(
            alt.Chart().mark_rule(color=GRAY, strokeDash=dash).encode(y=alt.datum(level))
            for level, dash in ((most, SOLID), (found["skew"]["pool_entropy"], DASHED))
        ),
        _here(found["cohort"]),
        *_line(base, alt.Y("entropy:Q", **y), ORANGE, "square"),
        *_line(base, alt.Y("greedy:Q", **y), BLUE, "circle"),
    ).properties(width=WIDTH, height=HEIGHT, title=title)


def _coverage(found: Mapping[str, Any]) -> Any:
    base = _by_size(found["sizes"])
    y: dict[str, Any] = {"title": None, "scale": alt.Scale(domain=[0, 1]), "axis": alt.Axis(format=".0%")}
    title = alt.Title(
        "Classes in a random cohort",
        subtitle=[
            "green: share of the classes that are there;",
            "orange: probability that all are; dotted: this cohort",
        ],
        anchor="start",
    )
    return alt.layer(
        _here(found["cohort"]),
        *_line(base, alt.Y("classes_there:Q", **y), GREEN, "triangle-up"),
        *_line(base, alt.Y("all_there:Q", **y), ORANGE, "square"),
    ).properties(width=WIDTH, height=HEIGHT, title=title)


def _by_size(sizes: Sequence[Mapping[str, Any]]) -> Any:
    most = max(2, *(one["size"] for one in sizes))
    shown = [size for size in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if size <= most]
    scale = alt.Scale(type="log", domain=[1, most], nice=False)
    x = alt.X("size:Q", title="clients in a cohort", scale=scale, axis=alt.Axis(values=shown, grid=False, format=",d"))
    return alt.Chart(alt.InlineData(values=list(sizes))).encode(x=x)


def _line(base: Any, y: alt.Y, colour: str, shape: str) -> Any:
    return base.mark_line(color=colour).encode(y=y), base.mark_point(
        color=colour, shape=shape, filled=True, size=35, opacity=1
    ).encode(y=y)


def _here(cohort: int) -> Any:
    return alt.Chart().mark_rule(color=GRAY, strokeDash=DOTTED).encode(x=alt.datum(cohort))


def _selectors(found: Mapping[str, Any], classes: int) -> Any:
    kinds = ["true counts", "noised counts"]
    chosen = [(one["title"], kinds[0], one["entropy"], one["most_used"]) for one in found["selectors"]]
    noised = [
        (f"{found['preferred']}, epsilon {one['epsilon']:g}", kinds[1], one["entropy"], None) for one in found["noise"]
    ]
    values = [
        {
            "selector": title,
            "bits": bits["mean"],
            "low": bits["mean"] if bits["low"] is None else bits["low"],
            "high": bits["mean"] if bits["high"] is None else bits["high"],
            "counts": kind,
            "most_used": used,
        }
        for title, kind, bits, used in (*chosen, *noised)
    ]
    y = alt.Y("selector:N", title=None, scale=alt.Scale(domain=[value["selector"] for value in values]))
    colours = alt.Color("counts:N", scale=alt.Scale(domain=kinds, range=[BLUE, ORANGE]), legend=None)
    shapes = alt.Shape("counts:N", scale=alt.Scale(domain=kinds, range=["circle", "square"]), legend=None)
    base = alt.Chart(alt.InlineData(values=values)).encode(y=y.axis(labelLimit=300, grid=True), color=colours)
    x = alt.X("low:Q", title="bits, mean and 95 % interval", scale=alt.Scale(zero=False, padding=10))
    entropy = alt.layer(
        alt.Chart().mark_rule(color=GRAY).encode(x=alt.datum(log2(classes))),
        base.mark_rule(strokeWidth=2).encode(x=x, x2="high:Q"),
        base.mark_point(filled=True, size=70, opacity=1).encode(x="bits:Q", shape=shapes),
    )
    used = (
        alt.Chart(alt.InlineData(values=values))
        .transform_filter("datum.most_used != null")
        .mark_bar(color=BLUE, height=8)
        .encode(
            y=y.axis(None),
            x=alt.X("most_used:Q", title="share of the rounds", axis=alt.Axis(format=".0%", tickCount=5)),
        )
    )
    height = 20 * len(values)
    return alt.hconcat(
        entropy.properties(
            width=WIDTH,
            height=height,
            title=alt.Title(
                f"Entropy of the cohorts of {found['cohort']} that selectors choose",
                subtitle=["blue: the selector sees true counts; orange: noised ones", "solid: the most there can be"],
                anchor="start",
            ),
        ),
        used.properties(
            width=WIDTH,
            height=height,
            title=alt.Title(
                "How often the most used client takes part",
                subtitle=[f"{found['rounds']} rounds, mean of {found['seeds']} seeds", ""],
                anchor="start",
            ),
        ),
        spacing=40,
    )
