"""Every client once per sweep, in cohorts that are each like the whole federation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.strata import TINY, deal
from entrofed.selectors.joined import widened

TOGETHER = 320
"""Most clients that are divided into cohorts at a time, or two cohorts if that is more."""


@dataclass(frozen=True)
class Stratified(Selector):
    """Divides the clients into cohorts with similar labels; every client takes part once per sweep.

    A sweep (meta-epoch) is as many rounds as it takes until every client had a turn. In each round, the clients whose
    turn is still to come are divided into cohorts; swaps of two clients lower ``I(cohort; label)`` plus the KL
    divergence of the cohorts' sizes from equal ones (:mod:`entrofed.info.strata`), which raises the mean entropy of the
    cohorts' pooled labels. One of the cohorts, drawn at random, trains.

    Greedy selectors such as FedEntOpt and ``maxent`` choose some clients often, and others hardly ever. Here all train
    equally often.

    If the last clients of a sweep are fewer than a cohort, clients of the next sweep are added one by one: each time
    the one that brings the pooled labels closest (KL) to those of all clients. A client that is not available keeps its
    turn; one that drops out after it was chosen has used it. Of many clients, 320 (or two cohorts), drawn at random,
    are divided at a time. Counts may be noised. False counts do not make a client's turn come more often.
    """

    name: ClassVar[str] = "stratified"
    reference: ClassVar[str] = (
        "our own; each client once per meta-epoch as in Malinovsky et al., Federated Learning with Regularized Client "
        "Participation, 2023, arXiv 2302.03662, whose cohorts are random"
    )
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Every client waits for its turn."""
        return {"waiting": np.ones(len(clients.sizes), np.bool_)}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """One cohort of those whose turn is still to come, and how many these were."""
        counts = clients.told(LabelCounts.name, f"selector {self.name!r}")
        size, waiting = min(size, len(among)), widened(state["waiting"], len(counts), fill=True)
        if not size:
            return Selection([], state)
        if not waiting[among].any():
            waiting[:] = True
        pool = among[waiting[among]]
        if len(pool) >= size:
            some = _some(pool, max(TOGETHER // size, 2) * size, rng)
            cohort = some[deal(counts[some], size, rng)[0]]
            waiting[cohort] = False
        else:
            missing = size - len(pool)
            others = _some(np.setdiff1d(among, pool), max(TOGETHER, missing), rng)
            added = _closest(counts, pool, others, missing)
            waiting[:] = True
            waiting[added] = False
            cohort = np.concatenate([pool, added])
        reasons = [{"client": int(client), "pool": len(pool)} for client in cohort]
        return Selection(cohort.tolist(), {"waiting": waiting}, reasons)


def _some(clients: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """All clients, or as many as may be considered, drawn at random."""
    return clients if len(clients) <= most else rng.choice(clients, size=most, replace=False)


def _closest(
    counts: NDArray[np.float64], cohort: NDArray[np.int64], others: NDArray[np.int64], number: int
) -> NDArray[np.int64]:
    """So many of the others, each the one that brings the cohort's labels closest to those of all clients."""
    if number == len(others):
        return others
    pooled, target = counts[cohort].sum(axis=0), np.maximum(counts.sum(axis=0), TINY)
    added: list[int] = []
    for _ in range(number):
        mixed = np.maximum(pooled + counts[others], TINY)
        mixed /= mixed.sum(axis=1, keepdims=True)
        place = int((mixed * np.log(mixed / target)).sum(axis=1).argmin())
        pooled = pooled + counts[others[place]]
        added.append(int(others[place]))
        others = np.delete(others, place)
    return np.array(added, np.int64)
