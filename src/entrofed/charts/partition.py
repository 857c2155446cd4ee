"""A picture of who holds what."""

from collections.abc import Sequence

import altair as alt
import numpy as np
from numpy.typing import NDArray

from entrofed.errors import DataError


def partition_chart(counts: NDArray[np.int64], class_names: Sequence[str]) -> alt.VConcatChart:
    """Samples per client as bars, above a heat map of classes by clients; ``counts`` is [clients, classes].

    A cell without samples stays white. Colours differ in lightness, so they can be told apart without hue,
    and their scale is a square root, so that small counts stay visible beside large ones.
    """
    if counts.ndim != 2 or counts.shape[1] != len(class_names) or not counts.size:
        raise DataError(
            f"counts must be one row per client and one column for each of {len(class_names)} classes, "
            f"not {counts.shape}"
        )
    clients = len(counts)
    cells = [
        {"client": int(k), "class": class_names[c], "samples": int(counts[k, c])} for k, c in np.argwhere(counts > 0)
    ]
    totals = [{"client": k, "samples": int(n)} for k, n in enumerate(counts.sum(axis=1))]
    every = next((step for step in (1, 2, 5, 10, 20, 50) if clients <= 25 * step), 100)
    client = alt.X(
        "client:O",
        title="Client",
        scale=alt.Scale(domain=list(range(clients))),
        axis=alt.Axis(values=list(range(0, clients, every)), labelAngle=0, ticks=False),
    )
    width = alt.Step(max(4, min(28, 800 / clients)))
    tooltip = [alt.Tooltip("client:O", title="Client"), alt.Tooltip("samples:Q", title="Samples", format=",")]

    sizes = (
        alt.Chart(alt.InlineData(values=totals), width=width, height=70)
        .mark_bar(color="#666666")
        .encode(x=client.axis(None), y=alt.Y("samples:Q", title="Samples").axis(tickCount=3), tooltip=tooltip)
    )
    shares = (
        alt.Chart(alt.InlineData(values=cells), width=width, height=alt.Step(18))
        .mark_rect()
        .encode(
            x=client,
            y=alt.Y("class:N", title="Class", scale=alt.Scale(domain=list(class_names))),
            color=alt.Color("samples:Q", title=["Samples", "of the class"])
            .legend(tickCount=5)
            .scale(scheme="viridis", reverse=True, type="sqrt", domainMin=0),
            tooltip=[alt.Tooltip("class:N", title="Class"), *tooltip],
        )
    )
    title = alt.Title(
        "How the training samples are spread over the clients",
        subtitle=f"{clients:,} clients, {int(counts.sum()):,} samples; white: none of that class",
        anchor="start",
    )
    return alt.vconcat(sizes, shares, spacing=6, title=title)
