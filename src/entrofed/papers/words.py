"""Verdicts as the words and cells that the terminal and the page of results share."""

from collections.abc import Sequence

from entrofed.papers.results import Result
from entrofed.papers.tables import Table
from entrofed.papers.verdict import Line, Verdict, outcome, verdicts
from entrofed.suite.ranking import Rank
from entrofed.suite.statistics import Row


def number(value: float, spread: float | None, unit: str) -> str:
    """A value with the digits that its unit deserves.

    >>> number(81.2345, 1.5, "percent")
    '81.23 ± 1.50'
    """
    digits = {"percent": 2, "rounds": 1}.get(unit, 3)
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def signed(value: float, unit: str) -> str:
    """A difference.

    >>> signed(-0.0, "percent")
    '+0.00'
    """
    return f"{value + 0.0:+.{2 if unit == 'percent' else 3}f}"  # + 0.0: no negative zero


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
        "" if line.difference is None else signed(line.difference, unit),
    ]


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
        signed(-found.difference, unit),
        "" if low is None or high is None else f"{signed(-high, unit)}..{signed(-low, unit)}",
        f"{found.losses}, {found.wins}",
        "" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}",
        outcome(row),
    ]


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


def ordering_words(verdict: Verdict) -> str:
    """Whether the paper's ordering holds, in a sentence."""
    ordering = verdict.ordering
    if ordering is None or ordering.tau is None:
        return ""
    words = f"the paper's ordering: {ordering.held} of {ordering.pairs} pairs hold (tau {ordering.tau:+.2f})"
    if ordering.discordant and len(ordering.discordant) <= 4:
        words += "; the other way round: " + ", ".join(f"{better} > {worse}" for better, worse in ordering.discordant)
    return words


def other_metrics(table: Table, path: str, cell: str, results: list[Result]) -> tuple[list[str], list[list[str]]]:
    """Head and rows of the metrics that a table's columns are not judged by."""
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
