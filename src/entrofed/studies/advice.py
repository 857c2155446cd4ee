"""``entrofed advise``: what label counts alone say about a federation, and what to do; in seconds, without training."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from numpy.typing import ArrayLike

from entrofed.data.count_table import CountTable, counts_of
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.studies.advice_text import text
from entrofed.studies.findings import Findings, find
from entrofed.studies.recommendation import Recommendation, recommend
from entrofed.studies.selection import check_cohort

BUFFERS = (0.0, 0.3, 0.5, 0.7, 0.9)
EPSILONS = (0.1, 0.5, 1.0, 5.0)


@dataclass(frozen=True)
class Advice:
    """The findings and the recommendation; ``str`` gives them as text."""

    findings: Findings
    recommendation: Recommendation

    def to_json(self) -> str:
        """Everything as JSON."""
        return json.dumps(asdict(self), indent=2, allow_nan=False)

    def __str__(self) -> str:
        return text(self.findings, self.recommendation)


def advise(
    counts: ArrayLike | CountTable | Federation,
    classes: Sequence[Any] | None = None,
    names: Sequence[Any] | None = None,
    *,
    cohort: int | None = None,
    rounds: int = 100,
    seeds: int = 5,
    buffers: Sequence[float] = BUFFERS,
    epsilons: Sequence[float] = EPSILONS,
) -> Advice:
    """What follows from label counts: skew, cohorts, selectors, noise, secure aggregation, and a recommendation.

    Args:
        counts: ``[client, class]``, whole numbers, or real numbers if they are noised; or a federation, or a table read
            from a file, which also have names.
        classes: Names of the classes; numbers by default.
        names: Names of the clients; numbers by default.
        cohort: Clients per round; by default 10, or half of the clients if that is less.
        rounds: Rounds that each selector plays.
        seeds: How often this is repeated, with other random draws; intervals are over seeds.
        buffers: Sizes of the buffer for selectors that have one, as shares of the clients.
        epsilons: Privacy budgets of the counts whose cost is computed.

    >>> advice = advise([[50, 0, 0], [0, 50, 0], [0, 0, 50]] * 4, ["cat", "dog", "owl"], cohort=3, rounds=20, seeds=3)
    >>> advice.findings.skew.entropy.mean, advice.recommendation.selector
    (0.0, 'stratified')
    """
    if isinstance(counts, Federation):
        counts = counts_of(counts)
    table = counts if isinstance(counts, CountTable) else CountTable.of(counts, classes, names)
    if cohort is None:
        cohort = min(10, max(1, int(table.counts.any(axis=1).sum()) // 2))
    check_cohort(cohort, table)
    for name, number in (("rounds", rounds), ("seeds", seeds)):
        if number < 1:
            raise ConfigError(f"{name} = {number}: at least 1 is needed")
    for buffer in buffers:
        if not 0 <= buffer <= 1:
            raise ConfigError(f"buffer = {buffer}: it is a share of the clients, from 0 to 1")
    for epsilon in epsilons:
        if not 0 < epsilon < float("inf"):
            raise ConfigError(f"epsilon = {epsilon}: it must be a finite number above 0")
    findings = find(table, cohort=cohort, rounds=rounds, seeds=seeds, buffers=buffers, epsilons=epsilons)
    return Advice(findings, recommend(findings))
