"""The charts of the report: courses, ranked dots, heat maps, bars.

Colours, fonts and backgrounds are not set here: the page has them for light and dark. ``chosen`` names the experiments
that the reader has picked; they have a colour and a dash pattern each, all others are thin and grey.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt

SLOTS = 8
"""Experiments that have a colour at the same time."""
DASHES = ([1, 0], [6, 3], [3, 2], [8, 3, 2, 3], [12, 4], [4, 4], [1, 3], [10, 3, 2, 3, 2, 3])
"""A dash pattern for each slot, so that colour is not all that tells lines apart."""
QUIET, RULE, MAIN = "quiet", "guide", "main"
"""Styles of the page: lines in the background, lines for orientation, what the chart is about."""
WHOLE = alt.Axis(tickMinStep=1, labelExpr="datum.value % 1 ? '' : format(datum.value, 'd')")
"""An axis of rounds, of which there are no halves."""
OVER_ROUNDS = alt.X("round:Q", title="Round", axis=WHOLE, scale=alt.Scale(nice=False, zero=False))
"""From the first round to the last."""
ROW = 22
"""Pixels per row of a chart with one row for each experiment."""


def course_chart(
    data: alt.NamedData,
    metric: str,
    axis: str,
    form: str,
    *,
    dashed: str | None = None,
    logarithmic: bool = False,
    only: Sequence[str] | None = None,
    levels: Sequence[tuple[float, str]] = (),
) -> alt.TopLevelMixin:
    """A line for each experiment, or for some of them ``only``, with the range of its seeds.

    ``dashed`` is a second metric, drawn dashed in the same colour; ``levels`` are fixed lines with their labels.
    """
    x = OVER_ROUNDS
    y_scale = alt.Scale(type="log") if logarithmic else alt.Scale(zero=False)
    y = alt.Y(f"{metric}:Q", title=axis, axis=alt.Axis(format=form), scale=y_scale)
    color = alt.Color("slot:N", scale=alt.Scale(domain=list(range(SLOTS))), legend=None)
    dash = alt.StrokeDash("slot:N", scale=alt.Scale(domain=list(range(SLOTS)), range=DASHES), legend=None)
    tooltip = [
        alt.Tooltip("experiment:N", title="Experiment"),
        alt.Tooltip("round:Q", title="Round"),
        alt.Tooltip(f"{metric}:Q", title=axis, format=form.replace(".0", ".2")),
    ]
    base = (
        alt.Chart(data)
        .transform_filter(f"isValid(datum[{metric!r}])")
        .transform_calculate(slot="indexof(chosen, datum.experiment)")
    )
    if only is not None:
        base = base.transform_filter(alt.FieldOneOfPredicate("experiment", list(only)))
    others = base.transform_filter("datum.slot < 0")
    picked = base.transform_filter("datum.slot >= 0")
    solid, dashes = (
        picked.transform_filter(f"datum.slot {which} 0").mark_line(strokeWidth=2).encode(x=x, y=y, color=color)
        for which in ("==", ">")
    )
    layers: list[Any] = [
        others.mark_line(style=QUIET).encode(x=x, y=y, detail="experiment:N", tooltip=tooltip[:1]),
        picked.mark_area(opacity=0.14).encode(
            x=x, y=alt.Y(f"{metric}_low:Q", scale=y_scale), y2=f"{metric}_high:Q", color=color
        ),
        solid,  # below the others: through their gaps it is seen where two courses are the same
        dashes.encode(strokeDash=dash) if dashed is None else dashes,
        picked.mark_point(size=40, opacity=0, filled=True).encode(x=x, y=y, color=color, tooltip=tooltip),
    ]
    if dashed is not None:
        layers.append(picked.mark_line(strokeWidth=2, strokeDash=[5, 4]).encode(x=x, y=f"{dashed}:Q", color=color))
    for level, label in levels:
        layers += _level(level, label)
    return alt.layer(*layers, height=300).add_params(alt.param(name="chosen", value=[]))


def _level(value: float, label: str) -> list[alt.Chart]:
    nowhere = alt.InlineData(values=[{"level": value, "label": label}])
    return [
        alt.Chart(nowhere).mark_rule(style=RULE, strokeDash=[4, 3]).encode(y="level:Q"),
        alt.Chart(nowhere)
        .mark_text(style=RULE, align="left", baseline="bottom", dx=4, dy=-2)
        .encode(x=alt.value(0), y="level:Q", text="label:N"),
    ]


def ranking_chart(
    data: alt.NamedData, names: Sequence[str], axis: str, form: str, ends: tuple[float, float] | None = None
) -> alt.TopLevelMixin:
    """A row for each experiment: a dot at ``mean``, a bar from ``low`` to ``high``.

    With ``ends``, the axis goes from one to the other, whatever the bars do, and 0 has a line.
    """
    y = rows(names)
    scale = alt.Scale(zero=False) if ends is None else alt.Scale(domain=ends, nice=False)
    x = alt.X("mean:Q", title=axis, axis=alt.Axis(format=form), scale=scale)
    tooltip = [
        alt.Tooltip("experiment:N", title="Experiment"),
        *(alt.Tooltip(f"{key}:Q", title=key, format=form.replace(".0", ".2")) for key in ("mean", "low", "high")),
    ]
    base = alt.Chart(data)
    layers: list[Any] = [
        base.mark_rule(style=MAIN, strokeWidth=2, opacity=0.5, clip=True).encode(y=y, x="low:Q", x2="high:Q"),
        base.mark_point(style=MAIN, filled=True, size=70, opacity=1).encode(y=y, x=x, tooltip=tooltip),
    ]
    if ends is not None:
        at_zero = alt.Chart(alt.InlineData(values=[{"at": 0}]))
        layers.insert(0, at_zero.mark_rule(style=RULE, strokeDash=[4, 3]).encode(x="at:Q"))
    return alt.layer(*layers, height=ROW * len(names) + 10)


def rows(names: Sequence[str], grid: bool = True) -> alt.Y:
    """The axis with one row for each experiment."""
    scale = alt.Scale(domain=list(names))
    return alt.Y("experiment:N", title=None, scale=scale, axis=alt.Axis(labelLimit=140, grid=grid, ticks=False))


def tradeoff_chart(data: alt.NamedData, logarithmic: bool) -> alt.TopLevelMixin:
    """A dot for each experiment, ``accuracy`` by ``traffic``; those that have a colour have their own shape, too."""
    slots = list(range(SLOTS))
    base = (
        alt.Chart(data)
        .transform_calculate(slot="indexof(chosen, datum.experiment)")
        .encode(
            x=alt.X("traffic:Q", title="MB", scale=alt.Scale(type="log") if logarithmic else alt.Scale(zero=True)),
            y=alt.Y("accuracy:Q", title="Accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False)),
            tooltip=[
                alt.Tooltip("experiment:N", title="Experiment"),
                alt.Tooltip("traffic:Q", title="MB", format=",.1f"),
                alt.Tooltip("accuracy:Q", title="Accuracy", format=".2%"),
            ],
        )
    )
    others = base.transform_filter("datum.slot < 0").mark_point(style=QUIET, filled=True, size=60, opacity=1)
    picked = (
        base.transform_filter("datum.slot >= 0")
        .mark_point(filled=True, size=110, opacity=1)
        .encode(
            color=alt.Color("slot:N", scale=alt.Scale(domain=slots), legend=None),
            shape=alt.Shape("slot:N", scale=alt.Scale(domain=slots), legend=None),
        )
    )
    return alt.layer(others, picked, height=280).add_params(alt.param(name="chosen", value=[]))


def stacked_chart(data: alt.NamedData, names: Sequence[str], kinds: Sequence[str], axis: str) -> alt.Chart:
    """A bar for each experiment, made of ``amount`` of each ``kind``."""
    chart: alt.Chart = (
        alt.Chart(data, height=ROW * len(names) + 10)
        .mark_bar()
        .encode(
            y=rows(names),
            x=alt.X("amount:Q", title=axis, axis=alt.Axis(format=",.3~f")),  # ~s writes 0.1 s as 100m
            color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(kinds))),
            order="order:O",
            tooltip=[
                alt.Tooltip("experiment:N", title="Experiment"),
                alt.Tooltip("kind:N", title="What"),
                alt.Tooltip("amount:Q", title=axis, format=",.3~f"),
            ],
        )
    )
    return chart


def heat_chart(
    data: alt.NamedData,
    x: alt.X,
    y: alt.Y,
    color: alt.Color,
    tooltip: Sequence[alt.Tooltip],
    height: int,
) -> alt.Chart:
    """Rectangles coloured by a number; where there is no value, the background shows."""
    chart: alt.Chart = (
        alt.Chart(data, height=height).mark_rect(clip=True).encode(x=x, y=y, color=color, tooltip=list(tooltip))
    )
    return chart


def peers_chart(data: alt.NamedData) -> alt.TopLevelMixin:
    """A thin line for the ``accuracy`` of each ``node``, and a thick one for their mean."""
    x = OVER_ROUNDS
    y = alt.Y("accuracy:Q", title="Accuracy", axis=alt.Axis(format=".0%"), scale=alt.Scale(zero=False))
    each = alt.Chart(data).mark_line(style=QUIET).encode(x=x, y=y, detail="node:N", tooltip=[alt.Tooltip("node:N")])
    mean = alt.Chart(data).mark_line(style=MAIN, strokeWidth=2.5).encode(x=x, y=alt.Y("mean(accuracy):Q"))
    return alt.layer(each, mean, height=300)


def participation_chart(data: alt.NamedData, *, by_client: bool) -> alt.Chart:
    """Bars of ``times`` by ``client``; or, of many clients, of how many ``clients`` were chosen so many ``times``."""
    if by_client:
        x = alt.X("client:O", sort=None, title="Client", axis=alt.Axis(labelOverlap=True, labelAngle=0, ticks=False))
        y = alt.Y("times:Q", title="Times chosen", axis=alt.Axis(tickMinStep=1))
    else:
        x = alt.X("times:O", title="Times chosen", axis=alt.Axis(labelOverlap=True, labelAngle=0))
        y = alt.Y("clients:Q", title="Clients", axis=alt.Axis(tickMinStep=1))
    bars = alt.Chart(data, height=220).mark_bar(style=MAIN)
    chart: alt.Chart = bars.encode(x=x, y=y, tooltip=[x.shorthand, y.shorthand])
    return chart


def refusals_chart(data: alt.NamedData, kinds: Sequence[str]) -> alt.Chart:
    """Areas of ``updates`` of each ``kind`` over the rounds."""
    chart: alt.Chart = (
        alt.Chart(data, height=200)
        .mark_area(interpolate="step")
        .encode(
            x=OVER_ROUNDS,
            y=alt.Y("updates:Q", title="Updates"),
            color=alt.Color("kind:N", title=None, scale=alt.Scale(domain=list(kinds))),
            tooltip=["kind:N"],
        )
    )
    return chart


def numbered(field: str, title: str, numbers: Sequence[int]) -> dict[str, Any]:
    """Options of an axis of clients or classes: every one has a place, as many as fit have a label."""
    return {
        "shorthand": f"{field}:O",
        "title": title,
        "scale": alt.Scale(domain=list(numbers)),
        "axis": alt.Axis(labelOverlap=True, labelAngle=0, ticks=False, grid=False),
    }


def specification(chart: alt.TopLevelMixin) -> dict[str, Any]:
    """The chart for the page: as wide as there is room, without a look of its own."""
    spec: dict[str, Any] = chart.to_dict()
    for key in ("$schema", "config", "title"):
        spec.pop(key, None)
    return spec | {"width": "container"}
