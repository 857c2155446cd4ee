"""What becomes of the papers' claims, over the cells and seeds there are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import mean

from entrofed.papers.pooled import Pool, shown
from entrofed.papers.reported import WITHOUT, Claim, Reported
from entrofed.papers.results import Result
from entrofed.papers.tables import find
from entrofed.papers.verdict import Verdict
from entrofed.suite.blocks import Pooled
from entrofed.suite.statistics import FEW


@dataclass(frozen=True)
class ClaimVerdict:
    """What became of a claim, for the column that makes it or one reading of that."""

    claim: Claim
    column: str
    verdict: str
    """holds: better than all, and shown, by what is claimed at least; does not hold: worse than one, and shown, or the
    interval of the gain has 0 in it and ends below half of what the paper reports, or it ends below what is claimed;
    else undecided, as with fewer than three seeds in a cell."""
    rows: tuple[Pooled, ...]
    """Against each of the others; negative differences are against the claim, also where less is better."""
    missing: tuple[str, ...]
    """Columns it cannot be compared with: not run, or unsettled."""
    reported: Mapping[str, float]
    """The paper's gain over each, mean over the same cells."""
    controls: tuple[Pooled, ...]
    rounds: tuple[int, ...]


def judge_claims(path: str, results: Sequence[Result]) -> list[ClaimVerdict]:
    """Every claim of a table, run or not; of what can be read in several ways, one for each, if any of them was run."""
    table = find(path)[1]
    found = []
    for claim in table.claims:
        pool = Pool(path, results, claim.metric)
        judged = [verdict for verdict in pool.judged if verdict.cell.id in claim.cells]
        readings = table.readings.get(claim.column, ())
        any_run = {line.column for verdict in judged for line in verdict.lines} & {*readings}
        found += [_judge(pool, claim, column, judged) for column in (readings if any_run else [claim.column])]
    return found


def _judge(pool: Pool, claim: Claim, column: str, judged: Sequence[Verdict]) -> ClaimVerdict:
    table, cells = pool.table, [verdict.cell.id for verdict in judged]
    others = [other for other in table.rivals(column) if other in table.controls and other not in claim.over]
    rows, controls = (
        [_turned(row) if claim.less else row for row in pool.gains(cells, [(column, other) for other in against])]
        for against in (claim.over, others)
    )
    metric = claim.metric or table.judged_by
    reported: dict[str, float] = {}
    for other in claim.over:
        numbers = [{WITHOUT: Reported(0.0), **verdict.cell.values.get(metric, {})} for verdict in judged]
        both = [found for found in numbers if claim.column in found and other in found]
        told = [found[claim.column].value - found[other].value for found in both]
        reported |= {other: mean(told) * (-1 if claim.less else 1)} if told else {}
    missing = [other for other in claim.over if other not in {row.against for row in rows}]
    verdict = "undecided"
    enough = [row for row in rows if row.seeds[0] >= FEW]
    if any(shown(row) == "worse" or _below(row, reported.get(row.against), claim.by) for row in enough):
        verdict = "does not hold"
    elif rows and not missing and len(enough) == len(rows):
        ahead = all(shown(row) == "better" and row.difference >= claim.by for row in rows)
        verdict = "holds" if ahead else "undecided"
    rounds = sorted({line.rounds for one in judged for line in one.lines if line.column == column})
    return ClaimVerdict(claim, column, verdict, tuple(rows), tuple(missing), reported, tuple(controls), tuple(rounds))


def _turned(row: Pooled) -> Pooled:
    """The same where less is better."""
    low, high = (None if end is None else -end for end in (row.high, row.low))
    return replace(row, difference=-row.difference, low=low, high=high, wins=row.losses, losses=row.wins)


def _below(row: Pooled, reported: float | None, least: float = 0.0) -> bool:
    """Whether no gain is shown, there may be none, and one half as large as the paper's is excluded; or the least.

    Half, for a claim to be ahead does not fall because a rival came off better here than in the paper; nor does it
    while every pair was won: then more seeds may show a gain that is smaller than the paper's.
    """
    if row.low is None or row.high is None:
        return False
    if least and row.high < least:
        return True
    if reported is None or shown(row) != "open" or not row.losses:
        return False
    return row.low <= 0 and row.high < reported / 2
