"""Who took part and counted how much, how diverse the cohorts were, and who holds what."""

from collections.abc import Sequence
from math import log2

import altair as alt
import numpy as np

from entrofed.charts.report import WHOLE, heat_chart, numbered, participation_chart
from entrofed.report.blocks import Grid, Picture, Section, Sheets, View
from entrofed.report.collect import Group, Run
from entrofed.report.course import binned
from entrofed.report.lines import course_view

MOST_WEIGHED = 50
"""Clients of a heat map of weights."""
MOST_SHOWN = 100
"""Clients of a partition that are drawn, and bars of participation."""
LISTED = 20
"""Rows of a table that stands for a picture of many clients."""


def weights(groups: Sequence[Group], sheets: Sheets) -> Section | None:
    """How much each client counted in each round."""
    views = [_weights(group, sheets) for group in groups if len(group.first.weights.round)]
    if not views:
        return None
    reading = (
        "A row is a client, a column a round (or a few). Orange: the client counted more than an equal share of the "
        "cohort; blue: less; empty: it was not in the cohort. The first seed."
    )
    return Section(
        "weights", "Weights of the clients", [Picture("Weight, as a multiple of an equal share", reading, views)]
    )


def _weights(group: Group, sheets: Sheets) -> View:
    found = group.first.weights
    totals = np.bincount(found.client, weights=found.share)
    often = np.bincount(found.client)
    order = np.argsort(-totals, kind="stable")[: min(MOST_WEIGHED, int((often > 0).sum()))]
    shown = np.sort(order)
    cells = binned(found, shown)
    color = alt.Color("share:Q", title="x equal share", scale=alt.Scale(domainMid=1, domainMin=0)).legend(tickCount=4)
    tooltip = [
        alt.Tooltip("client:O", title="Client"),
        alt.Tooltip("round:Q", title="Round"),
        alt.Tooltip("share:Q", title="x equal share", format=".3f"),
    ]
    ends = (0.5, group.first.rounds + 0.5)
    x = alt.X("from:Q", title="Round", scale=alt.Scale(domain=ends, nice=False), axis=WHOLE)
    y = alt.Y(**numbered("client", "Client", shown.tolist()))
    height = max(120, min(18 * len(shown), 420))
    data = sheets.add("weights", cells)
    chart = heat_chart(data, x, y, color, tooltip, height).encode(x2="until:Q")
    lines = [[str(k), str(often[k]), f"{totals[k] / often[k]:.3f}"] for k in order[:LISTED].tolist()]
    some = (
        ""
        if len(shown) == (often > 0).sum()
        else f" The {len(shown)} of {(often > 0).sum()} clients with the largest total."
    )
    most = totals[order[0]] / often[order[0]]
    words = f"{group.name}: client {order[0]} counted most, on average {most:.2f} times an equal share.{some}"
    table = Grid(["Client", "Rounds", "Mean x equal share"], lines, "Those that counted most in total.")
    return View(chart, words, table, group.name, len(cells["round"]))


def diversity(groups: Sequence[Group], sheets: Sheets, shared: str) -> Section | None:
    """Entropy of the cohorts' labels."""
    central = [group for group in groups if group.first.experiment.topology is None and group.first.rounds]
    views = []
    for count in dict.fromkeys(len(group.first.classes) for group in central):
        if count < 2:
            continue
        levels = [(log2(count), f"log2 {count}: the most there can be")]
        if count > 2:
            levels.insert(0, (log2(count - 1), f"log2 {count - 1}: above it, every label is there"))
        family = [group for group in central if len(group.first.classes) == count]
        label = f"{count} classes"
        views.append(course_view(family, shared, "entropy", "Entropy (bits)", ".2f", label=label, levels=levels))
    if not views:
        return None
    reading = (
        "The entropy of all labels that the clients of a cohort hold together, in bits: the higher, the more evenly "
        "the cohort knows the classes. Mean over seeds, band from the lowest to the highest."
    )
    return Section("diversity", "Diversity of the cohorts", [Picture("Cohort entropy", reading, views)])


def participation(groups: Sequence[Group], sheets: Sheets) -> Section | None:
    """How often each client was chosen; peers are always there, unless they drop out."""
    counts = [(group, group.first.participation) for group in groups]
    chosen = [group for group, times in counts if group.first.experiment.topology is None or len({*times.values()}) > 1]
    views = [_participation(group, sheets) for group in chosen if group.first.participation]
    if not views:
        return None
    reading = (
        f"Clients in the order of how often they were in the cohort, the first seed; with more than {MOST_SHOWN} "
        "clients, how many were chosen how often."
    )
    return Section("participation", "Participation", [Picture("Times in the cohort", reading, views)])


def _participation(group: Group, sheets: Sheets) -> View:
    run = group.first
    clients = max(len(run.label_counts), max(run.participation) + 1)
    times = sorted(((run.participation[k], k) for k in range(clients)), key=lambda pair: (-pair[0], pair[1]))
    counts = [count for count, _ in times]
    columns = {"client": [k for _, k in times], "times": counts}
    if not (by_client := clients <= MOST_SHOWN):
        often, clients_so_often = np.unique(counts, return_counts=True)
        columns = {"times": often.tolist(), "clients": clients_so_often.tolist()}
    chart = participation_chart(sheets.add("participation", columns), by_client=by_client)
    words = (
        f"{group.name}: {sum(count > 0 for count in counts)} of {clients} clients were chosen at least once; client "
        f"{times[0][1]} most often, {counts[0]} times in {run.rounds} rounds."
    )
    table = Grid(["Client", "Times"], [[str(k), str(count)] for count, k in times[:LISTED]], "The most frequent.")
    return View(chart, words, table, group.name)


def partition(groups: Sequence[Group], sheets: Sheets) -> Section | None:
    """Who holds how many samples of which class; experiments that share a partition share a picture."""
    same: dict[bytes, list[Group]] = {}
    for group in groups:
        if group.first.label_counts.size:
            same.setdefault(group.first.label_counts.tobytes(), []).append(group)
    views = [_partition(members, sheets) for members in same.values()]
    if not views:
        return None
    reading = "A cell says how many training samples of a class a client holds, the first seed; empty: none of them."
    return Section("partition", "Who holds what", [Picture("Samples of each class at each client", reading, views)])


def _partition(members: Sequence[Group], sheets: Sheets) -> View:
    run: Run = members[0].first
    counts = run.label_counts[:MOST_SHOWN]
    names = run.classes
    held = np.argwhere(counts > 0)
    columns = {
        "client": held[:, 0].tolist(),
        "class": [names[c] for c in held[:, 1]],
        "samples": counts[counts > 0].tolist(),
    }
    data = sheets.add("partition", columns)
    tooltip = [alt.Tooltip("client:O"), alt.Tooltip("class:N"), alt.Tooltip("samples:Q", format=",")]
    color = alt.Color("samples:Q", title="Samples", scale=alt.Scale(type="sqrt", domainMin=0)).legend(tickCount=4)
    x = alt.X(**numbered("client", "Client", range(len(counts))))
    y = alt.Y(**numbered("class", "Class", names))  # type: ignore[arg-type]
    chart = heat_chart(data, x, y, color, tooltip, max(120, min(22 * len(names), 420)))
    label = members[0].name if len(members) == 1 else f"{members[0].name} and {len(members) - 1} more"
    sizes, kinds = run.label_counts.sum(axis=1), (run.label_counts > 0).sum(axis=1)
    some = f" The first {len(counts)} are drawn." if len(run.label_counts) > len(counts) else ""
    words = (
        f"{len(sizes)} clients hold {sizes.min():,} to {sizes.max():,} samples of {kinds.min()} to {kinds.max()} "
        f"of {len(names)} classes.{some}"
    )
    lines = [[str(k), f"{sizes[k]:,}", str(kinds[k])] for k in range(min(LISTED, len(sizes)))]
    return View(chart, words, Grid(["Client", "Samples", "Classes"], lines, "The first clients."), label, len(held))
