"""Verdicts as the words and cells that the terminal and the page of results share."""

from collections.abc import Iterator, Sequence
from math import inf

from entrofed.papers.claims import ClaimVerdict
from entrofed.papers.pooled import shown
from entrofed.papers.reported import METRICS, SHARES, UNITS, Claim, Table
from entrofed.papers.results import Result
from entrofed.papers.verdict import Line, Verdict, verdicts
from entrofed.suite.blocks import Pooled
from entrofed.suite.ranking import Rank
from entrofed.suite.statistics import Row
from entrofed.suite.words import p_value


def number(value: float, spread: float | None, unit: str) -> str:
    """A value with the digits that its unit deserves.

    >>> number(81.2345, 1.5, "percent")
    '81.23 ± 1.50'
    """
    digits = _digits(unit)
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")


def signed(value: float, unit: str) -> str:
    """A difference.

    >>> signed(-0.0, "percent"), signed(-0.004, "percent"), signed(2.5, "rounds")
    ('+0.00', '-0.00', '+2.5')
    """
    return f"{value + 0.0:+.{_digits(unit)}f}"  # + 0.0: no negative zero


def _digits(unit: str) -> int:
    return {"percent": 2, "rounds": 1}.get(unit, 3)


def line_cells(line: Line, unit: str) -> list[str]:
    """The cells of a line of a table."""
    low, high = line.ours.low, line.ours.high
    return [
        line.column + ("*" if line.ours_only else ""),
        number(line.ours.mean, line.ours.spread, unit),
        "" if low is None or high is None else f"{number(low, None, unit)}..{number(high, None, unit)}",
        str(line.ours.n),
        str(line.rounds) + ("" if line.share >= 1 else ", cut" if line.settled else ", cut, unsettled"),
        "" if line.paper is None else number(line.paper.value, line.paper.spread, unit),
        "" if line.difference is None else signed(line.difference, unit),
    ]


def span(low: float | None, high: float | None, unit: str) -> str:
    """An interval of a difference, if there is one; shares differ by 1 at most.

    >>> span(-1.25, 3.0, "percent"), span(-1.25, 3.0, "fraction")
    ('-1.25..+3.00', '-1.000..+1.000')
    """
    if low is None or high is None:
        return ""
    most = UNITS[unit] if unit in SHARES else inf
    return f"{signed(max(low, -most), unit)}..{signed(min(high, most), unit)}"


GAINS = ("gain of", "over", "n", "gain", "95 % interval", "won, lost", "p", "")
POOLED = ("gain of", "over", "cells", "n", "gain", "95 % interval", "won, lost", "p", "Wilcoxon's p", "")


def gain_cells(verdict: Verdict, row: Row) -> list[str]:
    """What the paper's method gains over another column in a cell."""
    if (found := row.paired) is None:
        return [row.against, row.method, "0", *[""] * 5]
    low, high = found.interval.low, found.interval.high
    return [
        row.against,
        row.method,
        str(found.n),
        signed(-found.difference, verdict.unit),
        span(None if high is None else -high, None if low is None else -low, verdict.unit),
        f"{found.losses}, {found.wins}",
        p_value(row.t_p_holm),
        verdict.outcome(row),
    ]


def pooled_cells(row: Pooled, unit: str) -> list[str]:
    """What it gains over all cells."""
    return [
        row.method,
        row.against,
        str(row.cells),
        str(row.n),
        signed(row.difference, unit),
        span(row.low, row.high, unit),
        f"{row.wins}, {row.losses}",
        p_value(row.p),
        p_value(row.wilcoxon_p),
        shown(row),
    ]


def family_words(table: Table, judged: Sequence[Verdict]) -> str:
    """Which tests are corrected together."""
    rows = [row for verdict in judged for row in verdict.gains]
    tested = [row for row in rows if row.t_p_holm is not None]
    if not tested:
        return ""
    own = ", ".join(dict.fromkeys(row.against for row in tested))
    others = ", ".join(dict.fromkeys(row.method for row in tested))
    cells = sum(any(row.t_p_holm is not None for row in verdict.gains) for verdict in judged)
    words = f"One family of {len(tested)} tests, corrected together: {own} against {others}"
    words += f", in {cells} {_noun('cell', cells)}"
    shuffled = {row.method for row in tested} & {*table.shuffled}
    return words + ("; shuffled weights only against those they shuffle." if shuffled else ".")


def sentences(table: Table, judged: Sequence[Verdict], rows: Sequence[Pooled], unit: str) -> Iterator[str]:
    """What a table shows of each of its own columns, from the pooled gains."""
    run = {line.column for verdict in judged for line in verdict.lines}
    for own in table.own:
        mine = [row for row in rows if row.method == own]
        if not mine and own in run:
            yield f"{own}: nothing is shown; it had not settled, or the others are missing or had not settled."
        if not mine:
            continue
        rivals = [row for row in mine if row.against not in table.controls]
        words = [_compared(rivals, table, unit)] if rivals else []
        plain = [row for row in mine if row.against == "Uniform" or row.against in table.shuffled]
        words += [f"beside its controls {_compared(plain, table, unit)}"] if plain else []
        cells, seeds = sorted({row.cells for row in mine}), sorted({n for row in mine for n in row.seeds})
        where = f"{from_to(cells)} {_noun('cell', cells[-1])} with {from_to(seeds)} {_noun('seed', seeds[-1])}"
        yield f"{own}, over {where}: {'; '.join(words)}."
    if absent := [own for own in table.own if own not in run]:
        yield f"Not run yet: {', '.join(absent)}."


def _compared(rows: Sequence[Pooled], table: Table, unit: str) -> str:
    def gains(outcome: str) -> str:
        found = [row for row in rows if shown(row) == outcome]
        return ", ".join(f"{_named(row.against, table)} ({signed(row.difference, unit)})" for row in found)

    words = {
        "better": "shown better than",
        "worse": "shown worse than",
        "open": "not shown to differ from",
        "": "one seed a cell, so that nothing is shown, against",
    }
    return "; ".join(f"{said} {found}" for outcome, said in words.items() if (found := gains(outcome)))


def _named(column: str, table: Table) -> str:
    """The controls by what they tell: whether its weights, or its choice, are worth anything."""
    if column in table.shuffled:
        return "its own weights shuffled"
    return "equal weights" if column == "Uniform" and column in table.controls else column


def _noun(what: str, number: int) -> str:
    return what + ("" if number == 1 else "s")


def from_to(numbers: Sequence[int]) -> str:
    """The first and the last, of ascending numbers.

    >>> from_to([1, 2, 3]), from_to([2]), from_to([])
    ('1 to 3', '2', '0')
    """
    return " to ".join(str(n) for n in dict.fromkeys((numbers[0], numbers[-1]))) if numbers else "0"


def absent_words(table: Table, judged: Sequence[Verdict]) -> str:
    """The cells of which nothing was run yet."""
    absent = [cell for cell in table.cells if cell not in {verdict.cell.id for verdict in judged}]
    return f"Cells of which nothing was run yet: {', '.join(absent)}." if absent else ""


def lacking_words(verdict: Verdict) -> list[str]:
    """The columns of a cell of which nothing was run yet."""
    absent = [label for label in verdict.cell.columns if label not in {line.column for line in verdict.lines}]
    return [f"not run yet: {', '.join(absent)}"] if absent else []


CLAIM = ("claim", "here", "why", "cells", "seeds", "rounds", "beside controls")


def claim_cells(found: ClaimVerdict, table: Table) -> list[str]:
    """A claim and what became of it."""
    claim, unit = found.claim, table.metrics[found.claim.metric or table.judged_by]
    parts = []
    if claim.metric and found.rows:
        parts = [f"{METRICS[claim.metric].partition(';')[0]}, {unit}" + (" (less is better)" if claim.less else "")]
    for row in found.rows:
        told = found.reported.get(row.against)
        words = f"{row.against} {_claimed(row.difference, claim, unit)}"
        ends = (row.low, row.high) if not claim.less else (_turned(row.high), _turned(row.low))
        words += f" ({reach})" if (reach := span(*ends, unit)) else ""
        words += f" {said}" if (said := shown(row)) else ""
        parts.append(words + ("" if told is None else f", paper {_claimed(told, claim, unit)}"))
    if not found.rounds:
        parts.append("not run")
    elif found.missing:
        parts.append(f"not run to the end: {', '.join(found.missing)}")
    seeds = sorted({n for row in found.rows for n in row.seeds})
    cells = sorted({row.cells for row in found.rows})
    says = claim.says if found.column == claim.column else f"{claim.says} (read as {found.column})"
    return [
        says,
        f"**{found.verdict}**",
        "; ".join(parts),
        f"{from_to(cells)} of {len(claim.cells)}",
        from_to(seeds),
        ", ".join(str(number) for number in found.rounds),
        "; ".join(
            f"{row.against} {_claimed(row.difference, claim, unit)} {shown(row)}".strip() for row in found.controls
        ),
    ]


def _claimed(difference: float, claim: Claim, unit: str) -> str:
    """A difference as it was measured: below 0 for a column that has less, also where that is what is claimed."""
    return signed(-difference if claim.less else difference, unit)


def _turned(end: float | None) -> float | None:
    return None if end is None else -end


def rank_rows(found: Sequence[Rank]) -> tuple[list[list[str]], str]:
    """Columns by mean rank with the letters of the groups they belong to, and what that means."""
    rows = [
        [rank.method, f"{rank.mean_rank:.2f}", "".join(chr(ord("a") + group) for group in rank.groups)]
        for rank in found
    ]
    first = found[0]
    difference, friedman = first.critical_difference, first.friedman_p
    words = f"mean rank over {first.blocks} pairs of a cell and a seed"
    words += "; columns that share a letter are not shown to differ"
    words += "" if difference is None else f" (Nemenyi's critical difference {difference:.2f})"
    if friedman is not None:
        words += f"; any difference at all: Friedman's p {'< 0.001' if friedman < 0.001 else f'= {friedman:.3f}'}"
    return rows, words + (f"; {first.warning}" if first.warning else "")


def ordering_words(verdict: Verdict) -> Iterator[str]:
    """Whether the paper's ordering holds, in a sentence for each of its own columns."""
    for own, ordering in verdict.orderings.items():
        if ordering.tau is None:
            continue
        who = f" with {own}" if len(verdict.orderings) > 1 else ""
        words = f"the paper's ordering{who}: {ordering.held} of {ordering.pairs} pairs hold (tau {ordering.tau:+.2f})"
        if ordering.discordant and len(ordering.discordant) <= 4:
            pairs = ", ".join(f"{better} > {worse}" for better, worse in ordering.discordant)
            words += f"; the other way round: {pairs}"
        yield words


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
