"""Our results beside a paper's: means, differences, whether its ordering holds, and what its method gains over others.

>>> from entrofed.papers.tables import find
>>> runs = [
...     Result("inv_entropy/table8", "iris", label, seed, "1", "", {"accuracy": 10 * [value + 0.01 * seed]})
...     for label, value in (("FedAvg", 0.9), ("Entropy", 0.92))
...     for seed in range(3)
... ]
>>> [found] = verdicts("inv_entropy/table8", runs, metrics=("accuracy",))
>>> [(line.column, round(line.ours.mean, 6), line.paper.value) for line in found.lines]
[('FedAvg', 91.0, 83.33), ('Entropy', 93.0, 90.0)]
>>> found.orderings["Entropy"].tau, found.gains[0].method, round(-found.gains[0].paired.difference, 6)
(1.0, 'FedAvg', 2.0)
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from statistics import mean, median, stdev

from entrofed.papers.reported import SHARES, UNITS, Cell, Reported, Table
from entrofed.papers.results import Result
from entrofed.papers.tables import find
from entrofed.suite.statistics import (
    FEW,
    LEVEL,
    Interval,
    Ordering,
    Row,
    compare,
    few_seeds,
    interval,
    one_family,
    ordering_holds,
)

COLLAPSED = 0.5
"""A run has collapsed if its last accuracy is below this share of its own best, or of the median of the other seeds."""
ALIKE = 0.05
"""Columns do not compare if their shares of the paper's rounds differ by more."""


@dataclass(frozen=True)
class Line:
    """A column of a cell, in the paper's unit."""

    column: str
    ours: Interval
    rounds: int
    share: float
    """Of the paper's rounds."""
    settled: bool
    """Whether it was run for all of them, or at least has come to rest (:meth:`Result.settled`) with every seed."""
    over_rounds: float | None
    """Sample standard deviation over the rounds of a run, mean over runs; for metrics that are means of all rounds."""
    paper: Reported | None
    ours_only: bool
    """Whether the paper does not have it: a variant or control."""

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
    orderings: Mapping[str, Ordering]
    """How far the paper's ordering of its columns holds, with each of the table's own; '' if it has none."""
    gains: tuple[Row, ...]
    """Every rival against each of the table's own (``against``), in pairs, only for the metric it is judged by; Holm's
    correction goes over all cells of the table."""
    collapsed: tuple[str, ...]
    """Runs that broke down, in words."""
    warnings: tuple[str, ...]

    @property
    def unsettled(self) -> frozenset[str]:
        """Columns that were cut before they had come to rest: nothing is shown by them."""
        return frozenset(line.column for line in self.lines if not line.settled)

    def outcome(self, row: Row) -> str:
        """What a gain comes to: better, worse, open (no difference is shown), unsettled, or nothing without a test."""
        if row.paired is None or row.t_p_holm is None:
            return ""
        if {row.method, row.against} & self.unsettled:
            return "unsettled"
        return "open" if row.t_p_holm >= LEVEL else "better" if row.paired.difference < 0 else "worse"


def verdicts(path: str, results: Iterable[Result], *, metrics: Sequence[str] | None = None) -> list[Verdict]:
    """The table's cells that there are results of, by every metric."""
    paper, table = find(path)
    results = longest(results)
    ours = [found for found in results if found.table == path]
    below = [found for found in results if found.table == f"{paper.name}/{table.gain_over}"]
    judged = [
        _verdict(table, cell, metric, mine, [found for found in below if found.cell == cell.id])
        for cell in table.cells.values()
        if (mine := [found for found in ours if found.cell == cell.id])
        for metric in metrics or table.metrics
        if any(found.value(metric) is not None for found in mine)
    ]
    family = iter(one_family([row for verdict in judged for row in verdict.gains]))
    return [replace(verdict, gains=tuple(next(family) for _ in verdict.gains)) for verdict in judged]


def longest(results: Iterable[Result]) -> list[Result]:
    """Of each column of a cell the runs with the most rounds: what was cut is replaced, not mixed in."""

    def column(found: Result) -> tuple[str, str, str]:
        return found.table, found.cell, found.column

    kept = []
    for _, group in groupby(sorted(results, key=lambda found: (column(found), found.seed)), key=column):
        runs = list(group)
        most = max(found.rounds for found in runs)
        kept += [found for found in runs if found.rounds == most]
    return kept


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
    lines = tuple(
        _line(table, cell, label, metric, values[label], [found for found in ours if found.column == label])
        for label in cell.columns
        if values.get(label)
    )
    shares = {line.column: line.share for line in lines}
    gains = []
    for own in table.own if metric == table.judged_by else ():
        alike = [
            o for o in table.rivals(own) if o in shares and own in shares and abs(shares[o] - shares[own]) <= ALIKE
        ]
        if alike:
            gains += compare({label: values[label] for label in (own, *alike)}, own)
    return Verdict(
        cell,
        metric,
        unit,
        lines,
        dict(_orderings(table, cell.values.get(metric, {}), values, lines)),
        tuple(gains),
        tuple(_collapsed(ours)),
        _warnings(lines),
    )


def _line(
    table: Table, cell: Cell, label: str, metric: str, values: Mapping[int, float], runs: Sequence[Result]
) -> Line:
    unit = table.metrics[metric]
    most = UNITS[unit] if unit in SHARES else float("inf")
    rounds = min(found.rounds for found in runs)
    share = rounds / cell.experiment(cell.columns[label])["rounds"]
    reported = cell.values.get(metric, {})
    return Line(
        label,
        interval(values.values(), bounds=(-most if table.gain_over else 0.0, most)),
        rounds,
        share,
        share >= 1 or all(found.settled(table.judged_by) for found in runs),
        _over_rounds(runs, metric, unit),
        reported.get(table.told_as(label) or ""),
        table.told_as(label) is None,
    )


def _orderings(
    table: Table,
    reported: Mapping[str, Reported],
    values: Mapping[str, Mapping[int, float]],
    lines: Sequence[Line],
) -> Iterator[tuple[str, Ordering]]:
    """Among columns that have settled and are of one length: that of the own column, or the greatest."""
    shares = {line.column: line.share for line in lines if line.settled}
    for own in table.own or ("",):
        if not reported or (own and own not in shares):
            continue
        share = shares[own] if own else max(shares.values(), default=0.0)
        told = {
            label: reported[column].value
            for label in (*(label for label in shares if label not in table.own), own)
            if (column := table.told_as(label) or "") in reported and abs(shares[label] - share) <= ALIKE
        }
        yield own, ordering_holds({label: values[label] for label in told}, told)


def _values(results: list[Result], metric: str, unit: str) -> dict[str, dict[int, float]]:
    """By column and seed; runs that diverged are left out."""
    values: dict[str, dict[int, float]] = {}
    for found in results:
        if (value := found.value(metric)) is not None:
            values.setdefault(found.column, {})[found.seed] = value * UNITS[unit]
    return values


def _over_rounds(results: Sequence[Result], metric: str, unit: str) -> float | None:
    if not metric.endswith("_mean"):
        return None
    name = metric.removesuffix("_mean")
    every = [[v for v in found.course.get(name) or found.series.get(name, []) if v is not None] for found in results]
    spreads = [stdev(series) * UNITS[unit] for series in every if len(series) > 1]
    return mean(spreads) if spreads else None


def _collapsed(results: Sequence[Result]) -> Iterator[str]:
    for run in results:
        known = [value for value in run.series["accuracy"] if value is not None]
        last = run.value("accuracy")
        who = f"{run.column}, seed {run.seed}"
        if last is None or not known:
            yield f"{who}: diverged, and left out"
            continue
        others = [o.value("accuracy") or 0.0 for o in results if o.column == run.column and o.seed != run.seed]
        usual, best = median(others) if others else 0.0, max(known)
        beside = f"other seeds end at {100 * usual:.1f} %"
        if last < COLLAPSED * best:
            words = f"{who}: collapsed to an accuracy of {100 * last:.1f} % after the last round"
            yield f"{words} (its best was {100 * best:.1f} %" + (f", {beside})" if others else ")")
        elif last < COLLAPSED * usual:
            yield f"{who}: never above an accuracy of {100 * best:.1f} % ({beside})"


def _warnings(lines: Sequence[Line]) -> tuple[str, ...]:
    """What weakens a claim: few seeds, fewer rounds than the paper's, columns of different length."""
    if not lines:
        return ()
    fewest = min(line.ours.n for line in lines)
    found = [word] if (word := few_seeds(fewest)) else []
    few = [line.column for line in lines if line.ours.n < FEW]
    if found and len(few) < len(lines):
        found = [f"{', '.join(few)}: {found[0]}"]
    least, most = min(lines, key=lambda line: line.share), max(line.share for line in lines)
    if least.share < 1:
        who = f" ({least.column})" if most > least.share else ""
        found.append(f"{100 * least.share:.0f} % of the paper's rounds{who}")
    if most - least.share > ALIKE:
        found.append("columns were run for different numbers of rounds; only those of one length are compared")
    if swinging := [line.column for line in lines if not line.settled]:
        found.append(f"unsettled when they were cut, so that nothing is shown: {', '.join(swinging)}")
    return tuple(found)
