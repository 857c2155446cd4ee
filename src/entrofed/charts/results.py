"""Our results beside a paper's, and their curves."""

from collections.abc import Sequence
from typing import Any

import altair as alt

OURS, PAPERS = "ours, 95 % interval", "in the paper"
COLOURS = (
    *("#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#8c564b", "#9467bd"),
    *("#bcbd22", "#17becf", "#e377c2", "#1b7837", "#762a83"),
)
NAMES = {OURS: "#0072b2", PAPERS: "#d55e00"}


def results_chart(
    rows: Sequence[dict[str, Any]], cells: Sequence[str], columns: Sequence[str], axis: str
) -> alt.FacetChart:
    """Ours (with the interval) and the paper's, a panel for each cell.

    Args:
        rows: Tables of ``cell``, ``column``, ``ours``, ``low``, ``high`` and ``paper``; None where there is no value.
        cells: The order of the panels.
        columns: The order of the rows of a panel.
        axis: What is measured, with its unit.
    """
    known = [OURS, PAPERS] if any(row["paper"] is not None for row in rows) else [OURS]
    who = alt.Color("who:N", scale=alt.Scale(domain=known, range=[NAMES[name] for name in known]), title=None)
    shape = alt.Shape("who:N", scale=alt.Scale(domain=known, range=["circle", "diamond"][: len(known)]), title=None)
    y = alt.Y("column:N", sort=list(columns), title=None)
    x = alt.X("value:Q", title=axis, scale=alt.Scale(zero=False))
    span = alt.Chart().mark_rule(strokeWidth=2).encode(y=y, x=x, x2="high:Q", color=who)
    dots = alt.Chart().mark_point(filled=True, size=60, opacity=1).encode(y=y, x=x, color=who, shape=shape)
    panel = alt.layer(
        span.transform_calculate(who=f"'{OURS}'", value="datum.low"),
        dots.transform_calculate(who=f"'{OURS}'", value="datum.ours"),
        dots.transform_calculate(who=f"'{PAPERS}'", value="datum.paper").transform_filter("datum.paper != null"),
    ).properties(width=220, height=18 * len(columns))
    facets: alt.FacetChart = panel.facet(
        facet=alt.Facet("cell:N", title=None, sort=list(cells)), columns=3, data=alt.InlineData(values=list(rows))
    ).resolve_scale(x="independent")  # datasets differ more than methods do
    return facets


def curves_chart(
    rows: Sequence[dict[str, Any]],
    columns: Sequence[str],
    across: str,
    axis: str,
    in_a_row: int = 3,
    *,
    shared: bool = False,
) -> alt.FacetChart:
    """Values of columns against something, with the span over seeds, a panel for each ``panel``.

    Args:
        rows: Tables of ``panel``, ``column``, ``x``, ``value``, ``low`` and ``high``.
        columns: The order of the legend.
        across: What x is.
        axis: What is drawn; empty if panels differ in it.
        in_a_row: Panels.
        shared: Whether panels have the same values on their axes.
    """
    legend = alt.Legend(symbolOpacity=1, symbolType="stroke", symbolStrokeWidth=3)
    scale = alt.Scale(domain=list(columns), range=[COLOURS[i % len(COLOURS)] for i in range(len(columns))])
    colour = alt.Color("column:N", title=None, scale=scale, legend=legend)
    x, zero = alt.X("x:Q", title=across), alt.Scale(zero=False)
    low, value = alt.Y("low:Q", title=axis, scale=zero), alt.Y("value:Q", title=axis, scale=zero)
    band = alt.Chart().mark_area(opacity=0.12).encode(x=x, y=low, y2="high:Q", color=colour)
    line = alt.Chart().mark_line(strokeWidth=1.5).encode(x=x, y=value, color=colour)
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    facets: alt.FacetChart = (
        alt.layer(band, line)
        .properties(width=260, height=180)
        .facet(alt.Facet("panel:N", title=None, sort=panels), columns=in_a_row, data=alt.InlineData(values=list(rows)))
        .resolve_scale(x="independent", y="shared" if shared else "independent")
    )
    return facets


def bars_chart(rows: Sequence[dict[str, Any]], columns: Sequence[str], axis: str) -> alt.FacetChart:
    """Values of columns as bars, with the span over seeds, a panel for each ``panel``.

    Args:
        rows: Tables of ``panel``, ``column``, ``value``, ``low`` and ``high``.
        columns: The order of the bars.
        axis: What is drawn.
    """
    x = alt.X("column:N", sort=list(columns), title=None)
    bar = alt.Chart().mark_bar(color="#56b4e9").encode(x=x, y=alt.Y("value:Q", title=axis))
    span = alt.Chart().mark_rule(strokeWidth=2).encode(x=x, y="low:Q", y2="high:Q")
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    facets: alt.FacetChart = (
        alt.layer(bar, span)
        .properties(width=22 * len(columns), height=180)
        .facet(facet=alt.Facet("panel:N", title=None, sort=panels), columns=3, data=alt.InlineData(values=list(rows)))
        .resolve_scale(y="independent")
    )
    return facets


def confusion_chart(rows: Sequence[dict[str, Any]], columns: int) -> alt.FacetChart:
    """Confusion matrices in percent of each class, a panel for each ``panel``.

    Args:
        rows: Tables of ``panel``, ``is`` (the class), ``taken`` (what it is taken for) and ``percent``.
        columns: Panels in a row.
    """
    place = {"x": alt.X("taken:O", title="taken for"), "y": alt.Y("is:O", title="is")}
    shade = alt.Color("percent:Q", title="%", scale=alt.Scale(scheme="blues", domain=[0, 100]))
    boxes = alt.Chart().mark_rect().encode(**place, color=shade)
    dark = alt.condition("datum.percent > 50", alt.value("white"), alt.value("black"))
    texts = alt.Chart().mark_text().encode(**place, text=alt.Text("percent:Q", format=".1f"), color=dark)
    panels = list(dict.fromkeys(row["panel"] for row in rows))
    facet = alt.Facet("panel:N", title=None, sort=panels)
    drawn: alt.FacetChart = (
        alt.layer(boxes, texts)
        .properties(width=110, height=110)
        .facet(facet=facet, columns=columns, data=alt.InlineData(values=list(rows)))
        .resolve_scale(x="independent", y="independent")
    )
    return drawn
