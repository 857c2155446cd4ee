"""A table as a whole, over its cells and seeds: what its method gains, how columns rank, and what becomes of claims."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean

from entrofed.papers.reported import UNITS, Claim
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


class Pool:
    """A table's results by column, cell and seed, by the metric it is judged by; unsettled or diverged ones left out.

    Of each cell the columns of one length count, the longest.
    """

    def __init__(self, path: str, results: Iterable[Result]) -> None:
        self.table = find(path)[1]
        ours = [found for found in longest(results) if found.table == path]
        self.judged = verdicts(path, results, metrics=(self.table.judged_by,))
        usable = set()
        for verdict in self.judged:
            most = max(line.share for line in verdict.lines)
            lines = [line for line in verdict.lines if line.settled and most - line.share <= ALIKE]
            usable |= {(verdict.cell.id, line.column) for line in lines}
        self.values: dict[str, dict[Block, float]] = defaultdict(dict)
        scale = UNITS[self.table.metrics[self.table.judged_by]]
        for run in ours:
            if (run.cell, run.column) in usable and (value := run.value(self.table.judged_by)) is not None:
                self.values[run.column][run.cell, run.seed] = value * scale

    def of_cells(self, cells: Sequence[str] = ()) -> dict[str, dict[Block, float]]:
        """Of some cells; by default those that the paper has, or all, if there are results of none of these."""
        told = [verdict.cell.id for verdict in self.judged if verdict.cell.values]
        wanted = set(cells or told or [verdict.cell.id for verdict in self.judged])
        found = {
            column: {block: value for block, value in values.items() if block[0] in wanted}
            for column, values in self.values.items()
        }
        return {column: values for column, values in found.items() if values}

    def gains(self, cells: Sequence[str] = (), pairs: Sequence[Pair] = ()) -> list[Pooled]:
        """Of each of the table's own over its rivals, or of such ``pairs``, over cells and seeds."""
        table = self.table
        return pooled(self.of_cells(cells), pairs or [(own, other) for own in table.own for other in table.rivals(own)])

    def ranks(self) -> list[Rank]:
        """The columns by mean rank over cells and seeds, if there are three or more; who lacks a cell is left out."""
        values = self.of_cells()
        cells = {cell for blocks in values.values() for cell, _ in blocks}
        whole = {label: blocks for label, blocks in values.items() if {cell for cell, _ in blocks} == cells}
        common = set.intersection(*(set(blocks) for blocks in whole.values())) if whole else set()
        return ranks(whole) if len(whole) > 1 and len(common) > 2 else []

    def claims(self) -> list[ClaimVerdict]:
        """Every claim of the table about columns that there are results of; one for each reading."""
        judged = {verdict.cell.id: verdict for verdict in self.judged}
        return [
            self._judge(claim, column, [judged[cell] for cell in cells])
            for claim in self.table.claims
            if (cells := [cell for cell in claim.cells if cell in judged])
            for column in self.table.readings.get(claim.column, (claim.column,))
            if any(line.column == column for cell in cells for line in judged[cell].lines)
        ]

    def _judge(self, claim: Claim, column: str, judged: Sequence[Verdict]) -> ClaimVerdict:
        table, cells = self.table, [verdict.cell.id for verdict in judged]
        rows = self.gains(cells, [(column, other) for other in claim.over])
        controls = [(column, other) for other in table.rivals(column) if other in table.controls]
        beside = self.gains(cells, controls) if controls else []
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
