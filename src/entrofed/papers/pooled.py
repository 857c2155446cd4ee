"""A table as a whole, over its cells and seeds: what its method gains, and how columns rank."""

from collections import defaultdict
from collections.abc import Sequence

from entrofed.papers.reported import UNITS, WITHOUT
from entrofed.papers.results import Result
from entrofed.papers.tables import find
from entrofed.papers.verdict import ALIKE, longest, verdicts
from entrofed.suite.blocks import Block, Pooled, pooled
from entrofed.suite.ranking import Rank, ranks
from entrofed.suite.statistics import LEVEL

Pair = tuple[str, str]
"""A column, and what it is compared with."""


def shown(row: Pooled) -> str:
    """better, worse, open (no difference is shown), or nothing where there is no test.

    >>> shown(Pooled("a", "b", 0.1, 0.05, 0.15, 0.01, 0.03, 6, 0, 6, 2, (3, 3)))
    'better'
    """
    if row.p is None:
        return ""
    return "open" if row.p >= LEVEL else "better" if row.difference > 0 else "worse"


class Pool:
    """A table's results by column, cell and seed; unsettled or diverged ones left out.

    ``metric``: instead of that which the table is judged by. Of each cell the columns of one length count, the longest.
    Those of a table of gains are gains, beside a column of zeros (:data:`~entrofed.papers.reported.WITHOUT`).
    """

    def __init__(self, path: str, results: Sequence[Result], metric: str | None = None) -> None:
        paper, self.table = find(path)
        metric = metric or self.table.judged_by
        ours = [found for found in longest(results) if found.table == path]
        self.judged = verdicts(path, results, metrics=(metric,))
        usable = set()
        for verdict in self.judged:
            most = max((line.share for line in verdict.lines), default=0.0)
            lines = [line for line in verdict.lines if line.settled and most - line.share <= ALIKE]
            usable |= {(verdict.cell.id, line.column) for line in lines}
        self.values: dict[str, dict[Block, float]] = defaultdict(dict)
        scale = UNITS[self.table.metrics[metric]]
        for run in ours:
            if (run.cell, run.column) in usable and (value := run.value(metric)) is not None:
                self.values[run.column][run.cell, run.seed] = value * scale
        if self.table.gain_over is not None:
            below = Pool(f"{paper.name}/{self.table.gain_over}", results, metric).values
            for column, found in self.values.items():
                known = {block: value for block, value in found.items() if block in below[column]}
                self.values[column] = {block: value - below[column][block] for block, value in known.items()}
            self.values[WITHOUT] = {block: 0.0 for found in self.values.values() for block in found}

    def of_cells(self, cells: Sequence[str] | None = None) -> dict[str, dict[Block, float]]:
        """Of some cells; by default those that the paper has, or all, if there are results of none of these."""
        told = [verdict.cell.id for verdict in self.judged if verdict.cell.values]
        wanted = set((told or [verdict.cell.id for verdict in self.judged]) if cells is None else cells)
        found = {
            column: {block: value for block, value in values.items() if block[0] in wanted}
            for column, values in self.values.items()
        }
        return {column: values for column, values in found.items() if values}

    def gains(self, cells: Sequence[str] | None = None, pairs: Sequence[Pair] | None = None) -> list[Pooled]:
        """Of each of the table's own over its rivals (of all, where they are gains), or of such ``pairs``."""
        table = self.table
        usual = [(own, other) for own in table.own for other in table.rivals(own)]
        usual += [(column, WITHOUT) for column in table.columns if table.gain_over is not None]
        return pooled(self.of_cells(cells), usual if pairs is None else pairs)

    def ranks(self) -> list[Rank]:
        """The columns by mean rank over cells and seeds, if there are three or more of these.

        Of a table that is not run in every cell, those columns and cells that make the largest full table.
        """
        if self.table.gain_over is not None:
            return []
        values = self.of_cells()
        held: dict[str, set[str]] = defaultdict(set)
        for column, blocks in values.items():
            for cell, _ in blocks:
                held[cell].add(column)
        full = [(columns, {cell for cell in held if held[cell] >= columns}) for columns in held.values()]
        columns, cells = max(full, key=lambda both: (len(both[0]) * len(both[1]), len(both[0])), default=(set(), set()))
        whole = {
            column: {block: value for block, value in blocks.items() if block[0] in cells}
            for column, blocks in values.items()
            if column in columns
        }
        common = set.intersection(*(set(blocks) for blocks in whole.values())) if whole else set()
        return ranks(whole) if len(whole) > 1 and len(common) > 2 else []
