"""Mean ranks of methods, and which of them differ."""

from collections.abc import Mapping

import altair as alt


def ranks_chart(mean_ranks: Mapping[str, float], difference: float) -> alt.TopLevelMixin:
    """A dot for each method, best first, in a bar of the critical difference: two differ if their bars do not meet."""
    rows = [
        {"method": method, "rank": rank, "low": rank - difference / 2, "high": rank + difference / 2}
        for method, rank in mean_ranks.items()
    ]
    y = alt.Y("method:N", sort=list(mean_ranks), title=None, axis=alt.Axis(labelLimit=0))
    scale = alt.Scale(domain=[1, len(rows)], clamp=True, nice=False)
    bars = alt.Chart().mark_bar(height=7, color="#56b4e9", opacity=0.45)
    dots = alt.Chart().mark_point(filled=True, size=45, opacity=1, color="#000000")
    layers = alt.layer(
        bars.encode(y=y, x=alt.X("low:Q", title="mean rank (1 is best)", scale=scale), x2="high:Q"),
        dots.encode(y=y, x=alt.X("rank:Q", scale=scale)),
        data=alt.InlineData(values=rows),
    )
    return layers.properties(width=420, height=16 * len(rows))
