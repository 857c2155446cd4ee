"""The papers' figures from stored results: curves by round, values against what cells differ in, confusion matrices."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from math import isqrt
from statistics import mean

import altair as alt

from entrofed.charts.results import confusion_chart, curves_chart
from entrofed.papers.reported import METRICS, Figure, Paper
from entrofed.papers.results import Result
from entrofed.papers.verdict import longest

POINTS = 100
"""At most so many points of a curve are drawn."""
AXES = {"cohort_entropy": "entropy of the cohort's labels, bits", "train_loss": "training loss", "loss": "test loss"}
"""What an axis is called, unless it is a metric."""


def figure(paper: Paper, found: Figure, results: Iterable[Result]) -> alt.TopLevelMixin | None:
    """The figure, as far as there are results for it; None if there are none."""
    cells = {cell for panel in found.panels.values() for cell in panel}
    runs = [
        run
        for run in longest(results)
        if run.table == f"{paper.name}/{found.table}" and run.cell in cells
        if not found.columns or run.column in found.columns
    ]
    table = paper.tables[found.table]
    if found.series == ("confusion",):
        order = [label for label in table.runs if any(run.column == label for run in runs)]
        matrices = [row for cell in found.panels for label in order for row in _confusion(cell, label, runs)]
        return confusion_chart(matrices, len(order)) if matrices else None
    rows = [
        {**row, "panel": title if len(found.series) == 1 else f"{title}: {AXES.get(series, series)}"}
        for series in found.series
        for title, panel in found.panels.items()
        for row in (_against(found, panel, runs, series) if found.at else _by_round(panel[0], runs, series))
    ]
    if not rows:
        return None
    series = found.series[0]
    axis = AXES.get(series, METRICS.get(series, series).split(" after ")[0]) if len(found.series) == 1 else ""
    columns = [label for label in table.runs if any(row["column"] == label for row in rows)]
    return curves_chart(rows, columns, found.axis, axis)


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
