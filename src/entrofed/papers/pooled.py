"""A table as a whole, over its cells and seeds: what its method gains, how columns rank, and what becomes of claims."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from entrofed.papers.reported import UNITS, Claim, Table
from entrofed.papers.results import Result
from entrofed.papers.tables import find
from entrofed.papers.verdict import ALIKE, Verdict, longest, verdicts
from entrofed.suite.blocks import Block, Pooled, pooled
from entrofed.suite.ranking import Rank, ranks
from entrofed.suite.statistics import LEVEL

Pair = tuple[str, str]
"""A column, and what it is compared with."""


@dataclass(frozen=True)
class ClaimVerdict:
    """What became of a claim, for the column that makes it or one reading of that."""

    claim: Claim
    column: str
    verdict: str
    """holds: better than all, and shown; does not hold: worse than one, and shown, or the interval of the gain ends
    below what the paper reports; else undecided."""
    rows: tuple[Pooled, ...]
    """Against each of the others; negative differences are against the claim."""
    missing: tuple[str, ...]
    """Columns it cannot be compared with: not run, or unsettled."""
    reported: Mapping[str, float]
    """The paper's gain over each, mean over the same cells."""
    controls: tuple[Pooled, ...]
    rounds: tuple[int, ...]


def shown(row: Pooled) -> str:
    """better, worse, open (no difference is shown), or nothing where there is no test.

    >>> shown(Pooled("a", "b", 0.1, 0.05, 0.15, 0.01, 0.03, 6, 0, 6, 2, (3, 3)))
    'better'
    """
    if row.p is None:
        return ""
    return "open" if row.p >= LEVEL else "better" if row.difference > 0 else "worse"


def pooled_gains(
    path: str, results: Iterable[Result], *, cells: Sequence[str] = (), pairs: Sequence[Pair] = ()
) -> list[Pooled]:
    """Each of the table's own against its rivals over all cells and seeds; what is unsettled or diverged is left out.

    ``cells`` and ``pairs`` are by default the cells that the paper has (all, if there are results of none of these) and
    all own columns with their rivals.
    """
    table = find(path)[1]
    values = _blocks(path, table, list(results), cells)
    return pooled(values, pairs or [(own, other) for own in table.own for other in table.rivals(own)])


def claims(path: str, results: Iterable[Result]) -> list[ClaimVerdict]:
    """Every claim of the table about columns that there are results of; a line for each reading."""
    table, results = find(path)[1], list(results)
    judged = {verdict.cell.id: verdict for verdict in verdicts(path, results, metrics=(table.judged_by,))}
    return [
        _judge(path, table, claim, column, [judged[cell] for cell in cells], results)
        for claim in table.claims
        if (cells := [cell for cell in claim.cells if cell in judged])
        for column in table.readings.get(claim.column, (claim.column,))
        if any(line.column == column for cell in cells for line in judged[cell].lines)
    ]


def _judge(
    path: str, table: Table, claim: Claim, column: str, judged: Sequence[Verdict], results: list[Result]
) -> ClaimVerdict:
    cells = [verdict.cell.id for verdict in judged]
    rows = pooled_gains(path, results, cells=cells, pairs=[(column, other) for other in claim.over])
    controls = [(column, other) for other in table.rivals(column) if other in table.controls]
    beside = pooled_gains(path, results, cells=cells, pairs=controls) if controls else []
    reported: dict[str, float] = {}
    for other in claim.over:
        told = [
            numbers[claim.column].value - numbers[other].value
            for verdict in judged
            if claim.column in (numbers := verdict.cell.values.get(table.judged_by, {})) and other in numbers
        ]
        reported |= {other: mean(told)} if told else {}
    missing = [other for other in claim.over if other not in {row.against for row in rows}]
    verdict = "undecided"
    if any(shown(row) == "worse" or _below(row, reported.get(row.against)) for row in rows):
        verdict = "does not hold"
    elif rows and not missing and all(shown(row) == "better" for row in rows):
        verdict = "holds"
    rounds = sorted({line.rounds for one in judged for line in one.lines if line.column == column})
    return ClaimVerdict(claim, column, verdict, tuple(rows), tuple(missing), reported, tuple(beside), tuple(rounds))


def _below(row: Pooled, reported: float | None) -> bool:
    """Whether no gain is shown, and one as large as the paper's is excluded."""
    return shown(row) == "open" and row.high is not None and reported is not None and row.high < reported


def _blocks(path: str, table: Table, results: list[Result], cells: Sequence[str]) -> dict[str, dict[Block, float]]:
    """The values by column, cell and seed, of columns that have settled and of one length in each cell."""
    found = verdicts(path, results, metrics=(table.judged_by,))
    told = {verdict.cell.id for verdict in found if verdict.cell.values}
    wanted = set(cells) or told or {verdict.cell.id for verdict in found}
    usable = set()
    for verdict in found:
        most = max(line.share for line in verdict.lines)
        usable |= {
            (verdict.cell.id, line.column) for line in verdict.lines if line.settled and most - line.share <= ALIKE
        }
    values: dict[str, dict[Block, float]] = defaultdict(dict)
    for run in longest(results):
        if run.table == path and run.cell in wanted and (run.cell, run.column) in usable:
            value = run.value(table.judged_by)
            if value is not None:
                values[run.column][run.cell, run.seed] = value * UNITS[table.metrics[table.judged_by]]
    return values


def ranking(path: str, results: Iterable[Result]) -> list[Rank]:
    """The columns by mean rank over cells and seeds, if there are three or more; who lacks a cell is left out.

    Cells of ours, which the paper does not have, count only if there are no others; what is unsettled does not count.
    """
    values = _blocks(path, find(path)[1], list(results), ())
    cells = {cell for blocks in values.values() for cell, _ in blocks}
    whole = {label: blocks for label, blocks in values.items() if {cell for cell, _ in blocks} == cells}
    common = set.intersection(*(set(blocks) for blocks in whole.values())) if whole else set()
    return ranks(whole) if len(whole) > 1 and len(common) > 2 else []
