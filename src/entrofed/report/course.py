"""Courses over rounds: mean and range over seeds, thinned to what a screen can show."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entrofed.info.entropy import Floats
from entrofed.report.blocks import Sheets
from entrofed.report.collect import Group, Weights

POINTS = 200
"""Rounds of a line that are kept."""
COLUMNS = 100
"""Columns of a heat map over rounds."""


@dataclass(frozen=True)
class Course:
    """Mean, least and most over the seeds that have played the round; NaN where none has a value."""

    mean: Floats
    low: Floats
    high: Floats


def course(series: Sequence[Floats]) -> Course:
    """One course of the courses of several seeds, which may be of different lengths.

    >>> found = course([np.array([1.0, 2.0]), np.array([3.0])])
    >>> found.mean.tolist(), found.low.tolist(), found.high.tolist()
    ([2.0, 2.0], [1.0, 2.0], [3.0, 2.0])
    """
    table = np.full((len(series), max(map(len, series))), np.nan)
    for row, values in zip(table, series, strict=True):
        row[: len(values)] = values
    there = ~np.isnan(table)
    count = there.sum(axis=0)
    nothing = np.full(table.shape[1], np.nan)
    return Course(
        mean=np.divide(np.where(there, table, 0.0).sum(axis=0), count, out=nothing, where=count > 0),
        low=np.where(count > 0, np.where(there, table, np.inf).min(axis=0), np.nan),
        high=np.where(count > 0, np.where(there, table, -np.inf).max(axis=0), np.nan),
    )


def spread_out(places: NDArray[np.int64], most: int = POINTS) -> NDArray[np.int64]:
    """At most so many of the places, evenly spread, the first and the last among them.

    >>> spread_out(np.arange(10), 4).tolist()
    [0, 3, 6, 9]
    """
    if len(places) <= most:
        return places
    return np.asarray(places[np.linspace(0, len(places) - 1, most).round().astype(int)], np.int64)


def courses_sheet(groups: Sequence[Group]) -> dict[str, list[object]]:
    """The columns that all line charts share: experiment, round, and each metric's mean, least and most."""
    columns: dict[str, list[object]] = {"experiment": [], "round": []}
    metrics = list(dict.fromkeys(metric for group in groups for run in group.runs for metric in run.series))
    for group in groups:
        if not any(run.rounds for run in group.runs):
            continue
        found = {metric: course([run.values(metric) for run in group.runs]) for metric in metrics}
        evaluated = np.flatnonzero(~np.isnan(found["accuracy"].mean))
        kept = np.union1d(spread_out(np.arange(len(found["accuracy"].mean))), spread_out(evaluated))
        columns["experiment"] += [group.name] * len(kept)
        columns["round"] += (kept + 1).tolist()
        for metric, of_seeds in found.items():
            for column in ("mean", "low", "high"):
                name = metric if column == "mean" else f"{metric}_{column}"
                columns.setdefault(name, []).extend(getattr(of_seeds, column)[kept].tolist())
    return _without_empty(columns)


def _without_empty(columns: dict[str, list[object]]) -> dict[str, list[object]]:
    return {name: values for name, values in columns.items() if any(value == value for value in values)}


def binned(weights: Weights, clients: NDArray[np.int64]) -> dict[str, list[object]]:
    """Cells of a heat map of these clients by rounds; many rounds share a column, each cell the mean of its rounds.

    A cell goes from half a round before its first to half a round after its last.
    """
    of_them = np.isin(weights.client, clients)
    rounds, who, share = weights.round[of_them], weights.client[of_them], weights.share[of_them]
    last = int(rounds.max(initial=1))
    width = -(-last // COLUMNS)
    cells, place = np.unique(np.stack([(rounds - 1) // width, who]), axis=1, return_inverse=True)
    place = place.reshape(-1)
    means = np.bincount(place, weights=share) / np.bincount(place)
    first = cells[0] * width + 1
    return {
        "round": first.tolist(),
        "from": (first - 0.5).tolist(),
        "until": (np.minimum(first + width - 1, last) + 0.5).tolist(),
        "client": cells[1].tolist(),
        "share": means.tolist(),
    }


def shared_courses(groups: Sequence[Group], sheets: Sheets) -> str:
    """Put the courses on the page; returns the name of their sheet."""
    return str(sheets.add("courses", courses_sheet(groups)).name)
