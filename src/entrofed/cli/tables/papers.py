"""What the papers report, and what came of it here: what ``entrofed papers`` and ``entrofed reproduce`` print."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.table import Table

from entrofed.cli.tables.cells import NARROW
from entrofed.papers.pooled import Pool
from entrofed.papers.reported import SPREADS
from entrofed.papers.reported import Table as Reports
from entrofed.papers.results import Result
from entrofed.papers.tables import find, papers
from entrofed.papers.verdict import Verdict
from entrofed.papers.words import (
    GAINS,
    POOLED,
    family_words,
    gain_cells,
    line_cells,
    number,
    ordering_words,
    other_metrics,
    pooled_cells,
    rank_rows,
    sentences,
)


def list_of_tables() -> Table:
    """Every table of every paper."""
    shown = Table("table", "cells", "columns", "what it shows")
    shown.columns[0].no_wrap = True
    for paper in papers().values():
        for table in paper.tables.values():
            shown.add_row(f"{paper.name}/{table.id}", str(len(table.cells)), ", ".join(table.columns), table.caption)
    return shown


def cells_table(cells: Iterable[Mapping[str, Any]]) -> Table:
    """Every cell that can be played, of :func:`entrofed.papers.reproduce.playable`."""
    shown = Table("table", "cell", "rounds", "columns", "", **NARROW)
    shown.columns[0].no_wrap = shown.columns[1].no_wrap = True
    for table, rows in groupby(cells, key=itemgetter("table")):
        for i, cell in enumerate(rows):
            state = "" if cell["reported"] else "ours"
            shown.add_row(
                "" if i else table,
                cell["cell"],
                str(cell["rounds"]),
                str(len(cell["columns"])),
                state if cell["here"] else "absent",
            )
        shown.add_section()
    shown.caption = (
        "columns: the paper's and our controls; ours: a cell that the paper does not have\n"
        "absent: its data is not in the data directory (entrofed data list)\n"
        "play one with: entrofed reproduce TABLE --cell CELL"
    )
    return shown


def reported_tables(path: str) -> Iterator[Table]:
    """One table's numbers, a table for each metric, with the doubts about them; its cells, if it has no numbers."""
    paper, table = find(path)
    if not any(cell.values for cell in table.cells.values()):
        shown = Table("cell", "columns", title=f"{paper.title}: {table.caption}", show_lines=True)
        shown.columns[0].no_wrap = True
        for cell in table.cells.values():
            shown.add_row(cell.id, ", ".join(cell.columns))
        shown.caption = "\n".join(table.notes)
        yield shown
    for metric, unit in table.metrics.items():
        shown = Table("cell", f"{metric}, {unit}", title=f"{paper.title}: {table.caption}", show_lines=True)
        shown.columns[0].no_wrap = True
        for cell in table.cells.values():
            values = cell.values.get(metric, {})
            words = [
                f"{label} {number(values[label].value, values[label].spread, unit)}"
                for label in table.columns
                if label in values
            ]
            if words:
                shown.add_row(cell.id, ", ".join(words))
        shown.caption = "\n".join(table.notes)
        if shown.row_count:
            yield shown


def reported_facts(path: str | None = None) -> list[dict[str, Any]]:
    """Every table of every paper, or one, with the numbers that it reports."""
    every = {f"{paper.name}/{table.id}": paper for paper in papers().values() for table in paper.tables.values()}
    found = []
    for name, (paper, table) in {name: find(name) for name in (every if path is None else [path])}.items():
        found.append(
            {
                "table": name,
                "paper": paper.title,
                "caption": table.caption,
                "columns": list(table.columns),
                "metrics": dict(table.metrics),
                "cells": [{"cell": cell.id, "values": cell.values} for cell in table.cells.values()],
                "notes": list(table.notes),
            }
        )
    return found


def verdict_tables(path: str, results: list[Result]) -> Iterator[Table]:
    """The cells of a table: ours beside the paper's, what its method gains, and the other metrics."""
    pool = Pool(path, results)
    table, judged = pool.table, pool.judged
    for verdict in judged:
        yield _judged_table(table, verdict)
        if verdict.gains:
            yield _gains_table(verdict)
        head, rows = other_metrics(table, path, verdict.cell.id, results)
        if rows:
            shown = Table(*head, title=f"{verdict.cell.path}: other metrics, ours (paper's)")
            for row in rows:
                shown.add_row(*row)
            yield shown
    if gains := pool.gains():
        unit = table.metrics[table.judged_by]
        shown = Table(*POOLED, title=f"{path}: {table.judged_by}, over cells and seeds")
        shown.caption = "\n".join([*sentences(table, judged, gains, unit), family_words(table, judged)])
        for pooled in gains:
            shown.add_row(*pooled_cells(pooled, unit))
        yield shown
    if found := pool.ranks():
        ranked, words = rank_rows(found)
        shown = Table("column", "mean rank", "group", title=f"{path}: ranks by {table.judged_by}", caption=words)
        for row in ranked:
            shown.add_row(*row)
        yield shown


def _judged_table(table: Reports, verdict: Verdict) -> Table:
    shown = Table("column", "ours", "n", "rounds", "paper", "off")
    shown.title = f"{verdict.cell.path}: {verdict.metric}, {verdict.unit}"
    shown.columns[0].no_wrap = True
    for line in verdict.lines:
        label, ours, _, *others = line_cells(line, verdict.unit)
        shown.add_row(label, ours, *others)
    words = [*ordering_words(verdict), *verdict.warnings, *verdict.collapsed]
    words.append("ours: mean ± sample standard deviation over n seeds; off: ours less the paper's; *: ours only")
    if table.spread:
        words.append(f"the paper's spread: {SPREADS[table.spread]}")
    shown.caption = "\n".join(word for word in words if word)
    return shown


def _gains_table(verdict: Verdict) -> Table:
    shown = Table(*GAINS)
    shown.title = f"{verdict.cell.path}: {verdict.metric}"
    shown.columns[4].no_wrap = True
    for row in verdict.gains:
        shown.add_row(*gain_cells(verdict, row))
    shown.caption = (
        "runs with the same seed are paired; p: paired t-test, after Holm over all cells that were run; "
        "open: no difference is shown; unsettled: cut before it had come to rest"
    )
    return shown
