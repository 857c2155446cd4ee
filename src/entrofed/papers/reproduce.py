"""Play the papers' tables: which runs a cell takes, which of them fit a budget, and what they gave.

Runs lie in ``OUT/PAPER/TABLE/CELL/COLUMN/seed-N``, so that whatever was stopped goes on where it was.
"""

import math
import re
import tempfile
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from entrofed.backends import Backend, backend_of
from entrofed.data.catalog import CATALOG, data_directory
from entrofed.errors import ConfigError, unknown
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import is_finished, run
from entrofed.papers.reported import Cell, Column, Table
from entrofed.papers.results import Result, read_all, result
from entrofed.papers.tables import find, find_cell, papers
from entrofed.papers.verdict import verdicts
from entrofed.suite.words import file_name

SEEDS = 3
"""The least for a claim, and what is run if nobody says otherwise."""
LEAST_SHARE = 0.3
"""Of the paper's rounds: a budget takes rounds down to here before it takes seeds."""
PROBE = 3
"""Rounds that are played to see how long one takes; the first is not counted."""


@dataclass(frozen=True)
class Planned:
    """One run of a cell."""

    table: str
    cell: Cell
    column: Column
    experiment: Experiment
    folder: RunFolder

    @property
    def done(self) -> bool:
        """Whether the run is finished."""
        return is_finished(self.experiment, self.folder)

    @property
    def run(self) -> "Run":
        """By which its stored results are known."""
        return self.table, self.cell.id, self.column.label, self.experiment.seed, self.experiment.rounds

    def result(self) -> Result:
        """What the finished run gave."""
        return result(self.folder, self.table, self.cell.id, self.column.label)


@dataclass(frozen=True)
class Selection:
    """The cells and columns of a table that are asked for."""

    path: str
    table: Table
    cells: tuple[Cell, ...]
    columns: tuple[str, ...]

    def plan(self, out: Path, rounds: int | None, seeds: int) -> list[Planned]:
        """Every run, seed by seed, so that what is stopped early has compared all columns on some seeds.

        A cell that replays public runs has the seeds of these, whatever ``seeds`` says.
        """
        return [
            planned(self.path, cell, label, rounds, seed, out)
            for cell in self.cells
            for seed in (cell.seeds or range(seeds))
            for label in self.columns
        ]

    def without(self, cells: Iterable[str]) -> "Selection":
        """The same but for some cells."""
        return replace(self, cells=tuple(cell for cell in self.cells if cell.id not in set(cells)))


def planned(path: str, cell: Cell, label: str, rounds: int | None, seed: int, out: Path) -> Planned:
    """One run; if it has been played for more rounds already, it stays at them.

    Of a column that another cell has (:attr:`~entrofed.papers.reported.Cell.also`), that cell's run.
    """
    if cell.also is not None and label in (other := find_cell(cell.also)).columns:
        return planned(cell.also.rpartition("/")[0], other, label, rounds, seed, out)
    folder = RunFolder(out / cell.path / file_name(label) / f"seed-{seed}")
    experiment = parse(cell.experiment(cell.columns[label], rounds=rounds, seed=seed), where=f"{cell.path} {label}")
    if folder.exists() and (before := folder.experiment()).rounds > experiment.rounds:
        experiment = before
    return Planned(path, cell, cell.columns[label], experiment, folder)


def select(path: str, cells: Sequence[str] = (), columns: Sequence[str] = ()) -> list[Selection]:
    """What is asked for; a table of gains brings the table along that they are gains over."""
    paper, table = find(path)
    every = table.runs
    for label in columns:
        if label not in every:
            raise unknown(f"column of {path}", label, every)
    chosen = tuple(table.cell(name) for name in cells) if cells else tuple(table.cells.values())
    labels = tuple(label for label in every if label in columns) if columns else every
    found = [Selection(path, table, chosen, labels)]
    if table.gain_over is not None:
        below = paper.tables[table.gain_over]
        under = tuple(below.cell(cell.id) for cell in chosen)
        found.insert(0, Selection(f"{paper.name}/{below.id}", below, under, labels))
    return found


def missing_data(selection: Selection, directory: Path | None) -> dict[str, str]:
    """The cells whose dataset is not here, with the words to say so."""
    return {cell.id: words for cell in selection.cells if (words := without_data(cell, directory)) is not None}


def without_data(cell: Cell, directory: Path | None) -> str | None:
    """The words to say so, if the dataset of a cell is not here."""
    root, name = data_directory(directory), cell.setting["data"]["name"]
    if CATALOG[name].here(root):
        return None
    return f"{cell.path}: left out, {name} is not in {root}; get it with 'entrofed data fetch {name}'"


def playable(directory: Path | None) -> list[dict[str, Any]]:
    """Every cell of every table, as ``reproduce list --json`` tells it; ``reported``: the paper has it, too."""
    return [
        {
            "table": f"{paper.name}/{table.id}",
            "cell": cell.id,
            "rounds": cell.setting["rounds"],
            "columns": list(cell.columns),
            "data": cell.setting["data"]["name"],
            "here": without_data(cell, directory) is None,
            "reported": bool(cell.values),
        }
        for paper in papers().values()
        for table in paper.tables.values()
        for cell in table.cells.values()
    ]


def seconds_of(budget: str) -> float:
    """A time such as ``90s``, ``30min`` or ``1.5h`` in seconds.

    >>> seconds_of("30min"), seconds_of("1.5h")
    (1800.0, 5400.0)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*(s|sec|m|min|h|hours?)\s*", budget)
    seconds = float(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2][0]] if found else 0
    if not seconds:
        raise ConfigError(f"budget = {budget!r}: must be a time above 0, such as 90s, 30min or 1.5h")
    return seconds


@dataclass(frozen=True)
class Fit:
    """What fits a budget."""

    share: float
    """Of the paper's rounds."""
    seeds: int
    seconds: float
    """What it takes, as estimated."""


def fit(seconds: Iterable[float], seeds: int, budget: float) -> Fit:
    """The rounds and seeds that fit, given the seconds of one seed of each cell and column with all its rounds.

    Rounds are cut first, but not below :data:`LEAST_SHARE`; then seeds, down to one; then rounds again.

    >>> fit([100.0, 100.0], seeds=3, budget=300.0)
    Fit(share=0.5, seeds=3, seconds=300.0)
    >>> fit([100.0, 100.0], seeds=3, budget=130.0)
    Fit(share=0.325, seeds=2, seconds=130.0)
    """
    once = sum(seconds)
    for fewer in range(seeds, 0, -1):
        share = min(1.0, budget / (once * fewer)) if once else 1.0
        if share >= LEAST_SHARE or fewer == 1:
            return Fit(share, fewer, once * fewer * share)
    raise ConfigError(f"seeds = {seeds}: at least 1 is needed")


def fit_words(found: Fit, seeds: int, budget: str) -> str:
    """What a budget cut.

    >>> fit_words(Fit(0.5, 2, 1800.0), 3, "30min")
    'to fit 30min: 50 % of the rounds instead of all, 2 seeds instead of 3; about 30 min'
    >>> fit_words(Fit(1.0, 3, 18.4), 3, "20s")
    'to fit 20s: nothing is cut; about 18 s'
    """
    cuts = [f"{found.share:.0%} of the rounds instead of all".replace("%", " %")] if found.share < 1 else []
    cuts += [f"{found.seeds} seeds instead of {seeds}"] if found.seeds < seeds else []
    time = f"{found.seconds:.0f} s" if found.seconds < 60 else f"{found.seconds / 60:.0f} min"
    return f"to fit {budget}: {', '.join(cuts) or 'nothing is cut'}; about {time}"


def probe(planned: Planned, backend: Backend, directory: Path | None) -> float:
    """Seconds that a round takes: from the run itself if it was begun before, else from a few rounds played aside."""
    records = planned.folder.records() if planned.folder.exists() else []
    if len(records) < PROBE:
        short = parse(planned.experiment.model_dump(exclude_unset=True) | {"rounds": PROBE, "evaluate_every": 1})
        with tempfile.TemporaryDirectory() as aside:
            folder = RunFolder(Path(aside) / "probe" / "seed-0")
            run(short, folder, backend=backend, data_directory=directory)
            records = folder.records()
    return median(record.duration for record in records[1:])


def shorten(
    selections: Sequence[Selection],
    out: Path,
    rounds: int | None,
    seeds: int,
    budget: float,
    directory: Path | None,
    told: Callable[[str], None] = lambda words: None,
) -> tuple[list[Planned], Fit]:
    """The runs that fit the budget; ``told`` hears how the measurement of their rounds gets on."""
    first = [planned for selection in selections for planned in selection.plan(out, rounds, 1)]
    if not first:
        raise ConfigError("there is nothing to run")
    engine = first[0].experiment.engine
    backend = backend_of(engine.backend, engine.workers, engine.timeout)
    costs = []
    try:
        for number, planned in enumerate(first, 1):
            seconds = probe(planned, backend, directory)
            told(f"{number}/{len(first)}  {planned.cell.path}, {planned.column.label}: {seconds:.2f} s per round")
            costs.append(seconds * planned.experiment.rounds)
    finally:
        backend.close()
    fits = fit(costs, seeds, budget)
    runs = []
    for selection in selections:
        for cell in selection.cells:
            asked = rounds or cell.setting["rounds"]
            shorter = max(math.floor(asked * fits.share), 1)
            runs += replace(selection, cells=(cell,)).plan(out, shorter, fits.seeds)
    return runs, fits


Run = tuple[str, str, str, int, int]
"""Table, cell, column, seed and rounds of a run."""


def stored_runs(folder: Path) -> set[Run]:
    """The runs whose results are in a folder of Parquet files; none, if there is no such folder."""
    found = read_all(folder) if folder.is_dir() else []
    return {(run.table, run.cell, run.column, run.seed, run.rounds) for run in found}


def facts(planned: Planned, stored: Container[Run] = ()) -> dict[str, Any]:
    """A run for programs."""
    return {
        "table": planned.table,
        "cell": planned.cell.id,
        "column": planned.column.label,
        "seed": planned.experiment.seed,
        "rounds": planned.experiment.rounds,
        "path": planned.folder.path,
        "finished": planned.done,
        "stored": planned.run in stored,
    }


def judged(runs: Sequence[Planned]) -> list[dict[str, Any]]:
    """The finished runs beside the papers', a table each, for programs."""
    results = [planned.result() for planned in runs if planned.done]
    return [
        {
            "table": path,
            "cells": [
                vars(found)
                | {
                    "cell": found.cell.id,
                    "gains": [{**vars(row), "outcome": found.outcome(row)} for row in found.gains],
                }
                for found in verdicts(path, results)
            ],
        }
        for path in dict.fromkeys(planned.table for planned in runs)
    ]


def finished(out: Path) -> list[Result]:
    """The results of all finished runs below a folder, of all tables."""
    return [
        result(run, f"{paper.name}/{table.id}", cell.id, column.label)
        for paper in papers().values()
        for table in paper.tables.values()
        for cell in table.cells.values()
        for column in cell.columns.values()
        for folder in sorted((out / cell.path / file_name(column.label)).glob("seed-*"))
        if (run := RunFolder(folder)).summary() is not None
    ]
