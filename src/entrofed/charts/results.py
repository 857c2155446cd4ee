"""Our results beside a paper's."""

from collections.abc import Sequence
from typing import Any

import altair as alt

OURS, PAPERS = "ours, 95 % interval", "in the paper"
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
    who = alt.Color("who:N", scale=alt.Scale(domain=[*NAMES], range=[*NAMES.values()]), title=None)
    shape = alt.Shape("who:N", scale=alt.Scale(domain=[*NAMES], range=["circle", "diamond"]), title=None)
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
