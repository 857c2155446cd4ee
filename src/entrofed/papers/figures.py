"""The papers' figures from stored results: curves by round, values against what cells differ in, bars, confusion
matrices; and of partitions."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isqrt
from statistics import mean
from typing import Any

import altair as alt
import numpy as np
from numpy.typing import NDArray

from entrofed.charts.partition import partition_chart
from entrofed.charts.results import bars_chart, confusion_chart, curves_chart
from entrofed.data import PARTITIONS
from entrofed.data.partition import label_counts
from entrofed.papers.reported import METRICS, Figure, Paper
from entrofed.papers.results import SERIES, Result
from entrofed.papers.verdict import longest

POINTS = 100
"""At most so many points of a curve are drawn."""
AXES = {
    "cohort_entropy": "entropy of the cohort's labels, bits",
    "train_loss": "training loss",
    "loss": "test loss",
    "alignment_cosine": "cosine of the step and the negative gradient",
    "alignment_error": "alignment error A_t",
}
"""What an axis is called, unless it is a metric."""


def figure(paper: Paper, found: Figure, results: Iterable[Result]) -> alt.TopLevelMixin | None:
    """The figure, as far as there are results for it; None if there are none."""
    if found.deal is not None:
        counts = dealt(found.deal)
        return partition_chart(counts, [str(c) for c in range(counts.shape[1])])
    cells = _cells(found)
    runs = drawn_from(paper, found, results)
    table = paper.tables[found.table]
    if found.series == ("confusion",):
        order = [label for label in table.runs if any(run.column == label for run in runs)]
        matrices = [row for cell in found.panels for label in order for row in _confusion(cell, label, runs)]
        return confusion_chart(matrices, len(order)) if matrices else None
    if found.together:
        return _together(found, runs)
    if not found.at and found.series[0] in METRICS and found.series[0] not in SERIES:
        order = [label for label in table.runs if any(run.column == label for run in runs)]
        bars = [{**row, "panel": cell} for cell in found.panels for row in _bars(cell, runs, found.series[0])]
        return bars_chart(bars, order, METRICS[found.series[0]]) if bars else None
    rows = [
        {**row, "panel": title if len(found.series) == 1 else f"{title}: {AXES.get(series, series)}"}
        for title, panel in found.panels.items()
        for series in found.series
        for row in (_against(found, panel, runs, series) if found.at else _by_round(panel[0], runs, series))
    ]
    if not rows:
        return None
    series = found.series[0]
    axis = AXES.get(series, METRICS.get(series, series).split(" after ")[0]) if len(found.series) == 1 else ""
    columns = [label for label in table.runs if any(row["column"] == label for row in rows)]
    datasets = {table.cells[cell].setting["data"]["name"] for cell in cells}
    in_a_row = len(found.series) if len(found.series) > 1 else 3
    return curves_chart(rows, columns, found.axis, axis, in_a_row, shared=bool(axis) and len(datasets) == 1)


def drawn_from(paper: Paper, found: Figure, results: Iterable[Result]) -> list[Result]:
    """The runs that show in a figure."""
    return [run for run in longest(results) if _shows(paper, found, run)]


def shortened(paper: Paper, found: Figure, results: Iterable[Result]) -> list[str]:
    """What of a figure is drawn from runs of fewer rounds than the paper's (``CELL: COLUMN, COLUMN``)."""
    columns: dict[str, list[str]] = {}
    for run in drawn_from(paper, found, results):
        cell = paper.tables[found.table].cells[run.cell]
        if run.rounds < cell.experiment(cell.columns[run.column])["rounds"]:
            columns.setdefault(run.cell, []).append(run.column)
    return [f"{cell}: {', '.join(dict.fromkeys(labels))}" for cell, labels in columns.items()]


def lacking(paper: Paper, found: Figure, results: Iterable[Result]) -> list[str]:
    """What of a figure nothing is stored of: cells, or columns of a cell (``CELL: COLUMN, COLUMN``)."""
    table = paper.tables[found.table]
    wanted = found.columns or [label for label in table.runs if table.told_as(label) is not None]
    known = {(run.cell, run.column) for run in results if _shows(paper, found, run)}
    words = []
    for cell in _cells(found):
        absent = [label for label in wanted if (cell, label) not in known]
        if absent:
            words.append(cell if len(absent) == len(wanted) else f"{cell}: {', '.join(absent)}")
    return words


def undrawn(papers: Iterable[Paper], results: Sequence[Result]) -> list[tuple[Paper, Figure]]:
    """The figures of which nothing is stored."""
    return [(paper, found) for paper in papers for found in paper.figures if figure(paper, found, results) is None]


def _cells(found: Figure) -> list[str]:
    return list(dict.fromkeys(cell for panel in found.panels.values() for cell in panel))


def _shows(paper: Paper, found: Figure, run: Result) -> bool:
    """Whether a run is one of those that the figure is drawn from."""
    mine = run.table == f"{paper.name}/{found.table}" and run.cell in _cells(found)
    return mine and (not found.columns or run.column in found.columns)


def dealt(deal: Mapping[str, Any]) -> NDArray[np.int64]:
    """Samples by client and class of a figure's partition; it depends on nothing but the sizes of the classes."""
    known = ("partition", "seed", "classes", "clients")
    partition, seed, classes, clients = (deal[key] for key in known)
    options = {key: value for key, value in deal.items() if key not in known}
    labels = np.repeat(np.arange(len(classes)), classes)
    shards = PARTITIONS[partition](labels, clients, np.random.RandomState(seed), **options)
    return label_counts(labels, shards, len(classes))


def dealt_words(counts: NDArray[np.int64]) -> str:
    """What a partition comes to.

    >>> dealt_words(np.array([[4, 1], [0, 2]])).partition("; ")[2]
    'client 0 has most samples (5), client 1 fewest (2).'
    """
    held, sizes = (counts > 0).sum(axis=1), counts.sum(axis=1)
    return (
        f"On average a client has {held.mean():.2f} classes: client {held.argmax()} most ({held.max()}), client "
        f"{held.argmin()} fewest ({held.min()}); client {sizes.argmax()} has most samples ({sizes.max():,}), client "
        f"{sizes.argmin()} fewest ({sizes.min():,})."
    )


def _together(found: Figure, runs: Sequence[Result]) -> alt.TopLevelMixin | None:
    """Lines are series of the one column, by round."""
    rows = [
        {**row, "column": series.split("_")[0] if "_" in series else "test", "panel": f"{cell}: {axis}"}
        for axis, lines in found.together.items()
        for cell in found.panels
        for series in lines
        for row in _by_round(cell, runs, series)
    ]
    lines = dict.fromkeys(str(row["column"]) for row in rows)
    return curves_chart(rows, [*lines], found.axis, "", len(found.panels)) if rows else None


def _bars(cell: str, runs: Sequence[Result], metric: str) -> list[dict[str, object]]:
    values: dict[str, list[float]] = defaultdict(list)
    for run in runs:
        if run.cell == cell and (value := run.value(metric)) is not None:
            values[run.column].append(value)
    return [_row(column, 0, found) for column, found in values.items()]


def _by_round(cell: str, runs: Sequence[Result], series: str) -> list[dict[str, object]]:
    """Mean over seeds of each evaluated round, and the least and the greatest."""
    values: dict[tuple[str, int], list[float]] = defaultdict(list)
    for run in runs:
        if run.cell == cell:
            for number, value in _curve(run, series):
                values[run.column, number].append(value)
    rounds = sorted({number for _, number in values})
    kept = set(rounds[:: max(len(rounds) // POINTS, 1)]) | set(rounds[-1:])
    return [_row(column, number, found) for (column, number), found in values.items() if number in kept]


def _curve(run: Result, series: str) -> list[tuple[int, float]]:
    values = run.course.get(series) or run.series.get(series, [])
    rounds = run.at if run.at and series not in run.course else range(1, len(values) + 1)
    return [(number, value) for number, value in zip(rounds, values, strict=True) if value is not None]


def _against(found: Figure, cells: Sequence[str], runs: Sequence[Result], series: str) -> list[dict[str, object]]:
    values: dict[tuple[str, float], list[float]] = defaultdict(list)
    for cell, x in zip(cells, found.at, strict=True):
        for run in runs:
            if run.cell == cell and (value := run.value(series)) is not None:
                values[run.column, x].append(value)
    return [_row(column, x, found) for (column, x), found in values.items()]


def _confusion(cell: str, column: str, runs: Sequence[Result]) -> list[dict[str, object]]:
    """The last round's matrices of all seeds together, in percent of each class."""
    mine = [run.course.get("confusion", [None])[-1] for run in runs if (run.cell, run.column) == (cell, column)]
    kept = [matrix for matrix in mine if matrix]
    if not kept:
        return []
    total = [sum(counts) for counts in zip(*kept, strict=True)]
    classes = isqrt(len(total))
    rows = [total[i * classes : (i + 1) * classes] for i in range(classes)]
    return [
        {"panel": f"{cell}: {column}", "is": i, "taken": j, "percent": 100 * count / (sum(row) or 1)}
        for i, row in enumerate(rows)
        for j, count in enumerate(row)
    ]


def _row(column: str, x: float, values: Sequence[float]) -> dict[str, object]:
    return {"column": column, "x": x, "value": mean(values), "low": min(values), "high": max(values)}
