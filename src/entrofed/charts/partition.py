"""A picture of who holds what."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from entrofed.data.shifts import FeatureShift
from entrofed.errors import DataError

NAMED = 40
"""Up to so many clients are called by their names; more are numbered."""


def partition_chart(
    counts: NDArray[np.int64],
    class_names: Sequence[str],
    names: Sequence[str] = (),
    shift: FeatureShift | None = None,
    what: str = "training samples",
) -> alt.VConcatChart:
    """Samples per client as bars, above a heat map of classes by clients; ``counts`` is [clients, classes].

    A cell without samples stays white. Colours differ in lightness, so they can be told apart without hue,
    and their scale is a square root, so that small counts stay visible beside large ones. Bars in between show by
    how much the features of each client were shifted, if they were. ``what`` is counted, for the title.
    """
    if counts.ndim != 2 or counts.shape[1] != len(class_names) or not counts.size:
        raise DataError(
            f"counts must be one row per client and one column for each of {len(class_names)} classes, "
            f"not {counts.shape}"
        )
    clients = len(counts)
    named = len(names) == clients <= NAMED
    called: list[Any] = [*names] if named else [*range(clients)]
    cells = [
        {"client": called[k], "class": class_names[c], "samples": int(counts[k, c])} for k, c in np.argwhere(counts > 0)
    ]
    totals = [{"client": k, "samples": int(n)} for k, n in zip(called, counts.sum(axis=1), strict=True)]
    every = 1 if named else next((step for step in (1, 2, 5, 10, 20, 50) if clients <= 25 * step), 100)
    client = alt.X(
        "client:O",
        title="Client",
        scale=alt.Scale(domain=called),
        axis=alt.Axis(values=called[::every], labelAngle=-45 if named else 0, ticks=False),
    )
    width = alt.Step(max(4, min(28, 800 / clients)))
    tooltip = [alt.Tooltip("client:O", title="Client"), alt.Tooltip("samples:Q", title="Samples", format=",")]

    sizes = (
        alt.Chart(alt.InlineData(values=totals), width=width, height=70)
        .mark_bar(color="#666666")
        .encode(x=client.axis(None), y=alt.Y("samples:Q", title="Samples").axis(tickCount=3), tooltip=tooltip)
    )
    panels = [sizes]
    if shift is not None:
        amounts = [{"client": k, "shift": amount} for k, amount in zip(called, shift.amounts, strict=True)]
        panels.append(
            alt.Chart(alt.InlineData(values=amounts), width=width, height=50)
            .mark_bar(color="#b5651d")
            .encode(x=client.axis(None), y=alt.Y("shift:Q", title=shift.what.split(" ", 1)).axis(tickCount=3))
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
        f"How the {what} are spread over the clients",
        subtitle=f"{clients:,} clients, {int(counts.sum()):,} samples; white: none of that class",
        anchor="start",
    )
    return alt.vconcat(*panels, shares, spacing=6, title=title)
