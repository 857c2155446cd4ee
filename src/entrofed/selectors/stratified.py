"""Every client once per sweep, in cohorts that are each like the whole federation."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.strata import deal

TOGETHER = 320
"""Clients that are dealt into cohorts together, where more are waiting; at least two cohorts."""


@dataclass(frozen=True)
class Stratified(Selector):
    """Deals the clients into cohorts of like labels and sizes; each takes part once before anybody does again.

    A sweep (a meta-epoch) goes through all clients. In each of its rounds those who have not had their turn are divided
    into cohorts so that ``I(cohort; label)``, plus the divergence of the cohorts' sizes from equal ones, is as small as
    swaps of two clients make it (:mod:`entrofed.info.strata`): the mean entropy of the cohorts' pooled labels is then
    as large as it gets with all of them in one cohort each. One of the cohorts, drawn by the random start, takes part.

    Greedy selectors fill a cohort with whoever suits it, and clients that never suit are hardly chosen: FedEntOpt and
    ``maxent`` train on a few clients again and again. Here all data counts alike, so that over a sweep the labels that
    were learned from are those of the federation, whatever they are.

    Fewer than a cohort left: they take part, and others of the next sweep with them, each the one with whom the
    cohort's labels are most like those of all. Who is away waits. Of many clients, 320 (or two cohorts) are dealt at a
    time. Counts may be noised. A client that lies about its counts gets no turn more.
    """

    name: ClassVar[str] = "stratified"
    reference: ClassVar[str] = (
        "our own; each client once per meta-epoch as in Malinovsky et al., Federated Learning with Regularized Client "
        "Participation, 2023, arXiv 2302.03662, whose cohorts are random"
    )
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Everybody waits for a turn."""
        return {"waiting": np.ones(len(clients.sizes), np.bool_)}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """One cohort of a division of those who wait."""
        counts = clients.told(LabelCounts.name, f"selector {self.name!r}")
        size, waiting = min(size, len(among)), state["waiting"].copy()
        if not size:
            return Selection([], state)
        if not waiting[among].any():
            waiting[among] = True
        pool = among[waiting[among]]
        if len(pool) >= size:
            some = _some(pool, size * max(TOGETHER // size, 2), rng)
            cohort = some[deal(counts[some], size, rng)[0]]
            waiting[cohort] = False
        else:
            others = np.setdiff1d(among, pool)
            waiting[others] = True
            added = _fill(counts, pool, _some(others, TOGETHER, rng), size - len(pool))
            waiting[added] = False
            cohort = np.concatenate([pool, added])
        reasons = [{"client": int(client), "pool": len(pool)} for client in cohort]
        return Selection(cohort.tolist(), {"waiting": waiting}, reasons)


def _some(clients: NDArray[np.int64], most: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """All, or as many as are dealt together."""
    return clients if len(clients) <= most else rng.choice(clients, size=most, replace=False)


def _fill(
    counts: NDArray[np.float64], cohort: NDArray[np.int64], others: NDArray[np.int64], number: int
) -> NDArray[np.int64]:
    """So many of the others, each the one with whom the cohort's labels are most like those of all clients."""
    pooled, like = counts[cohort].sum(axis=0), np.maximum(counts.sum(axis=0), 1e-300)
    added: list[int] = []
    for _ in range(number):
        together = np.maximum(pooled + counts[others], 1e-300)
        together /= together.sum(axis=1, keepdims=True)
        place = int((together * np.log(together / like)).sum(axis=1).argmin())
        pooled = pooled + counts[others[place]]
        added.append(int(others[place]))
        others = np.delete(others, place)
    return np.array(added, np.int64)
