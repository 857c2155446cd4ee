"""What the papers report, and what came of it here: what ``entrofed papers`` and ``entrofed reproduce`` print."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from rich.table import Table

from entrofed.papers.reproduce import missing_data, select
from entrofed.papers.results import Result
from entrofed.papers.tables import SPREADS, find, papers
from entrofed.papers.tables import Table as Reports
from entrofed.papers.verdict import Line, Verdict, outcome, ranking, verdicts
from entrofed.suite.ranking import Rank
from entrofed.suite.statistics import Row


def list_of_tables() -> Table:
    """Every table of every paper."""
    shown = Table("table", "cells", "columns", "what it shows")
    shown.columns[0].no_wrap = True
    for paper in papers().values():
        for table in paper.tables.values():
            shown.add_row(f"{paper.name}/{table.id}", str(len(table.cells)), ", ".join(table.columns), table.caption)
    return shown


def cells_table(directory: Path | None) -> Table:
    """Every cell that can be played."""
    shown = Table("table", "cell", "rounds", "columns", "")
    shown.columns[0].no_wrap = shown.columns[1].no_wrap = True
    for paper in papers().values():
        for table in paper.tables.values():
            path = f"{paper.name}/{table.id}"
            selection = select(path)[-1]
            missing = missing_data(selection, directory)
            for i, cell in enumerate(table.cells.values()):
                shown.add_row(
                    "" if i else path,
                    cell.id,
                    str(cell.setting["rounds"]),
                    str(len(cell.columns)),
                    "absent" if cell.id in missing else "" if cell.values else "ours",
                )
            shown.add_section()
    shown.caption = (
        "columns: the paper's and our controls; ours: a cell that the paper does not have\n"
        "absent: its data is not in the data directory (entrofed data list)\n"
        "play one with: entrofed reproduce TABLE --cell CELL"
    )
    return shown


def reported_tables(path: str) -> Iterator[Table]:
    """One table's numbers, a table a metric, with the doubts about them."""
    paper, table = find(path)
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


def number(value: float, spread: float | None, unit: str) -> str:
    """A figure with the digits that its unit deserves."""
    digits = {"percent": 2, "rounds": 1}.get(unit, 3)
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def verdict_tables(path: str, results: list[Result]) -> Iterator[Table]:
    """The cells of a table: ours beside the paper's, what its method gains, and the other figures."""
    table = find(path)[1]
    for verdict in verdicts(path, results, metrics=(table.judged_by,)):
        yield _judged_table(table, verdict)
        if verdict.gains:
            yield _gains_table(verdict)
        head, rows = other_figures(table, path, verdict.cell.id, results)
        if rows:
            shown = Table(*head, title=f"{verdict.cell.path}: other figures, ours (paper's)")
            for row in rows:
                shown.add_row(*row)
            yield shown
    if found := ranking(path, results):
        ranked, words = rank_rows(found)
        shown = Table("column", "mean rank", "group", title=f"{path}: ranks by {table.judged_by}", caption=words)
        for row in ranked:
            shown.add_row(*row)
        yield shown


def rank_rows(found: Sequence[Rank]) -> tuple[list[list[str]], str]:
    """Columns by mean rank with the letters of the groups they belong to, and what that means."""
    rows = [
        [rank.method, f"{rank.mean_rank:.2f}", "".join(chr(ord("a") + group) for group in rank.groups)]
        for rank in found
    ]
    first = found[0]
    difference, friedman = first.critical_difference, first.friedman_p
    words = f"mean rank over {first.blocks} cells and seeds; columns that share a letter are not shown to differ"
    words += "" if difference is None else f" (Nemenyi's critical difference {difference:.2f})"
    if friedman is not None:
        words += f"; any difference at all: Friedman's p {'< 0.001' if friedman < 0.001 else f'= {friedman:.3f}'}"
    return rows, words + (f"; {first.warning}" if first.warning else "")


def other_figures(table: Reports, path: str, cell: str, results: list[Result]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the figures that a table's columns are not judged by."""
    others = [metric for metric in table.metrics if metric != table.judged_by]
    found = verdicts(path, [result for result in results if result.cell == cell], metrics=others) if others else []
    cells: dict[str, dict[str, str]] = {}
    for verdict in found:
        for line in verdict.lines:
            told = f" ({number(line.paper.value, line.paper.spread, verdict.unit)})" if line.paper else ""
            spread = line.over_rounds if line.over_rounds is not None else line.ours.spread
            cells.setdefault(line.column, {})[verdict.metric] = number(line.ours.mean, spread, verdict.unit) + told
    metrics = [verdict.metric for verdict in found]
    return ["column", *metrics], [[label, *(row.get(m, "") for m in metrics)] for label, row in cells.items()]


def _judged_table(table: Reports, verdict: Verdict) -> Table:
    shown = Table("column", "ours", "n", "rounds", "paper", "off")
    shown.title = f"{verdict.cell.path}: {verdict.metric}, {verdict.unit}"
    shown.columns[0].no_wrap = True
    for line in verdict.lines:
        label, ours, _, *others = line_cells(line, verdict.unit)
        shown.add_row(label, ours, *others)
    words = [ordering_words(verdict), *verdict.warnings]
    words.append("ours: mean ± sample standard deviation over n seeds; off: ours less the paper's; *: ours only")
    if table.spread:
        words.append(f"the paper's spread: {SPREADS[table.spread]}")
    shown.caption = "\n".join(word for word in words if word)
    return shown


def line_cells(line: Line, unit: str) -> list[str]:
    """The cells of a line of a table."""
    low, high = line.ours.low, line.ours.high
    return [
        line.column + ("*" if line.control else ""),
        number(line.ours.mean, line.ours.spread, unit),
        "" if low is None or high is None else f"{number(low, None, unit)}..{number(high, None, unit)}",
        str(line.ours.n),
        str(line.rounds),
        "" if line.paper is None else number(line.paper.value, line.paper.spread, unit),
        "" if line.difference is None else _signed(line.difference, unit),
    ]


def ordering_words(verdict: Verdict) -> str:
    """Whether the paper's ordering holds, in a sentence."""
    ordering = verdict.ordering
    if ordering is None or ordering.tau is None:
        return ""
    words = f"the paper's ordering: {ordering.held} of {ordering.pairs} pairs hold (tau {ordering.tau:+.2f})"
    if ordering.discordant and len(ordering.discordant) <= 4:
        words += "; the other way round: " + ", ".join(f"{better} > {worse}" for better, worse in ordering.discordant)
    return words


def _gains_table(verdict: Verdict) -> Table:
    shown = Table("gain of", "over", "n", "gain", "95 % interval", "won, lost", "p", "")
    shown.title = f"{verdict.cell.path}: {verdict.metric}"
    shown.columns[4].no_wrap = True
    for row in verdict.gains:
        shown.add_row(*gain_cells(row, verdict.unit))
    shown.caption = "runs with the same seed are paired; p: paired t-test, after Holm; open: no difference is shown"
    return shown


def gain_cells(row: Row, unit: str) -> list[str]:
    """What the paper's method gains over another column."""
    if (found := row.paired) is None:
        return [row.against, row.method, "0", *[""] * 5]
    low, high = found.interval.low, found.interval.high
    p = row.t_p_holm
    return [
        row.against,
        row.method,
        str(found.n),
        _signed(-found.difference, unit),
        "" if low is None or high is None else f"{_signed(-high, unit)}..{_signed(-low, unit)}",
        f"{found.losses}, {found.wins}",
        "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
        outcome(row),
    ]


def _signed(value: float, unit: str) -> str:
    return f"{value + 0.0:+.{2 if unit == 'percent' else 3}f}"  # + 0.0: no negative zero
