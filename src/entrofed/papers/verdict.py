"""Our results beside a paper's: means, differences, whether its ordering holds, and what its method gains over others.

>>> from entrofed.papers.tables import find
>>> runs = [
...     Result("inv_entropy/table8", "iris", label, seed, "1", "", {"accuracy": [value + 0.01 * seed]})
...     for label, value in (("FedAvg", 0.9), ("Entropy", 0.92))
...     for seed in range(3)
... ]
>>> [found] = verdicts("inv_entropy/table8", runs, metrics=("accuracy",))
>>> [(line.column, round(line.ours.mean, 6), line.paper.value) for line in found.lines]
[('FedAvg', 91.0, 83.33), ('Entropy', 93.0, 90.0)]
>>> found.ordering.tau, found.gains[0].method, round(-found.gains[0].paired.difference, 6)
(1.0, 'FedAvg', 2.0)
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from entrofed.papers.results import Result
from entrofed.papers.tables import UNITS, Cell, Reported, Table, find
from entrofed.suite.ranking import Rank, ranks
from entrofed.suite.statistics import (
    FEW,
    LEVEL,
    Interval,
    Ordering,
    Row,
    compare,
    few_seeds,
    interval,
    ordering_holds,
)


@dataclass(frozen=True)
class Line:
    """A column of a cell, in the paper's unit."""

    column: str
    ours: Interval
    rounds: int
    over_rounds: float | None
    """Sample standard deviation over the rounds of a run, mean over runs; for metrics that are means of all rounds."""
    paper: Reported | None
    control: bool

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None else self.ours.mean - self.paper.value


@dataclass(frozen=True)
class Verdict:
    """A cell by one metric."""

    cell: Cell
    metric: str
    unit: str
    lines: tuple[Line, ...]
    ordering: Ordering | None
    """How far the paper's ordering of its columns holds."""
    gains: tuple[Row, ...]
    """Every column against each of the paper's own (``against``), in pairs; only for the metric it is judged by."""
    warnings: tuple[str, ...]


def verdicts(path: str, results: Iterable[Result], *, metrics: Sequence[str] | None = None) -> list[Verdict]:
    """The table's cells that there are results of, by every metric."""
    paper, table = find(path)
    results = list(results)
    ours = [found for found in results if found.table == path]
    below = [found for found in results if found.table == f"{paper.name}/{table.gain_over}"]
    return [
        _verdict(table, cell, metric, mine, [found for found in below if found.cell == cell.id])
        for cell in table.cells.values()
        if (mine := [found for found in ours if found.cell == cell.id])
        for metric in metrics or table.metrics
        if any(found.value(metric) is not None for found in mine)
    ]


def outcome(row: Row) -> str:
    """What a gain comes to: better, worse, open (no difference is shown), or nothing where there is no test."""
    if row.paired is None or row.t_p_holm is None:
        return ""
    return "open" if row.t_p_holm >= LEVEL else "better" if row.paired.difference < 0 else "worse"


def ranking(path: str, results: Iterable[Result]) -> list[Rank]:
    """The columns by mean rank over cells and seeds, if there are three or more; who lacks a cell is left out.

    Cells of ours, which the paper does not have, count only if there are no others.
    """
    table = find(path)[1]
    values: dict[str, dict[tuple[str, int], float]] = {}
    mine = [found for found in results if found.table == path]
    told = [found for found in mine if table.cells[found.cell].values]
    for found in told or mine:
        if (value := found.value(table.judged_by)) is not None:
            values.setdefault(found.column, {})[found.cell, found.seed] = value
    cells = {cell for blocks in values.values() for cell, _ in blocks}
    whole = {label: blocks for label, blocks in values.items() if {cell for cell, _ in blocks} == cells}
    common = set.intersection(*(set(blocks) for blocks in whole.values())) if whole else set()
    return ranks(whole) if len(whole) > 1 and len(common) > 2 else []


def _verdict(table: Table, cell: Cell, metric: str, ours: list[Result], below: list[Result]) -> Verdict:
    unit = table.metrics[metric]
    values = _values(ours, metric, unit)
    if table.gain_over is not None:
        without = _values(below, metric, unit)
        values = {
            label: {seed: value - without[label][seed] for seed, value in seeds.items() if seed in without[label]}
            for label, seeds in values.items()
            if label in without
        }
    reported = cell.values.get(metric, {})
    lines = tuple(
        Line(
            label,
            interval(values[label].values()),
            min(found.rounds for found in ours if found.column == label),
            _over_rounds([found for found in ours if found.column == label], metric, unit),
            reported.get(label),
            label in table.controls,
        )
        for label in cell.columns
        if values.get(label)
    )
    gains = [
        row
        for own in (table.own if metric == table.judged_by else ())
        if values.get(own)
        for row in compare({label: values[label] for label in cell.columns if values.get(label)}, own)
    ]
    told = {label: number.value for label, number in reported.items()}
    ordering = ordering_holds({line.column: line.ours.mean for line in lines}, told) if told else None
    return Verdict(cell, metric, unit, lines, ordering, tuple(gains), _warnings(cell, lines))


def _values(results: list[Result], metric: str, unit: str) -> dict[str, dict[int, float]]:
    """By column and seed; runs that diverged are left out."""
    values: dict[str, dict[int, float]] = {}
    for found in results:
        if (value := found.value(metric)) is not None:
            values.setdefault(found.column, {})[found.seed] = value * UNITS[unit]
    return values


def _over_rounds(results: list[Result], metric: str, unit: str) -> float | None:
    if not metric.endswith("_mean"):
        return None
    every = [[v for v in found.series[metric.removesuffix("_mean")] if v is not None] for found in results]
    spreads = [stdev(series) * UNITS[unit] for series in every if len(series) > 1]
    return mean(spreads) if spreads else None


def _warnings(cell: Cell, lines: Sequence[Line]) -> tuple[str, ...]:
    """What weakens a claim: few seeds, fewer rounds than the paper's, columns of different length."""
    if not lines:
        return ()
    fewest = min(line.ours.n for line in lines)
    found = [word] if (word := few_seeds(fewest)) else []
    few = [line.column for line in lines if line.ours.n < FEW]
    if found and len(few) < len(lines):
        found = [f"{', '.join(few)}: {found[0]}"]
    shares = {}
    for line in lines:
        whole = cell.experiment(cell.columns[line.column])["rounds"]
        shares[line.column] = line.rounds / whole
    least, most = min(shares, key=lambda label: shares[label]), max(shares.values())
    if shares[least] < 1:
        found.append(f"{shares[least]:.0%} of the paper's rounds" + (f" ({least})" if most > shares[least] else ""))
    if most - shares[least] > 0.05:
        found.append("columns were run for different numbers of rounds and do not compare")
    return tuple(found)
