"""Choose clients whose updates stand for those of all others."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.info.similarity import Floats, euclidean
from entrofed.selectors.gradient_table import GradientTable

TIE = 1e-9
"""Sums of distances that differ by less than this share are the same."""


@dataclass(frozen=True)
class FacilityLocation(GradientTable):
    """Picks one client after the other so that every update is close to that of a picked client.

    ``G(S) = sum_k min_{i in S} |g_k - g_i|`` over the table's rows bounds how far the aggregate of S is from that of
    all. What S takes off G is monotone and submodular, so greedy picks come to ``1 - 1/e`` of the best at least (tests:
    against all subsets). All candidates are looked at at once, which makes the same picks as lazy evaluation.
    ``subsample`` (stochastic greedy): each pick is the best of so large a share of the clients, drawn anew, and of as
    many as the cohort has at least. Ties go to the lower number. A client whose row is missing or not finite comes
    last, by number.

    Rows are the clients' latest updates (the paper's version without overhead); the ideal one asks everybody for a
    gradient in each round.
    """

    name: ClassVar[str] = "facility_location"
    reference: ClassVar[str] = "Balakrishnan et al., DivFL, ICLR 2022, Algorithm 1"

    subsample: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.subsample is not None and not 0 < self.subsample <= 1:
            raise ConfigError(f"selector {self.name!r}: subsample = {self.subsample} must be above 0 and at most 1")

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The picks; the score of each is G with it."""
        there, rows, without = self.table(state, among)
        distances = euclidean(rows)
        nearest, left = np.full(len(there), np.inf), np.arange(len(there))
        reasons: list[dict[str, Any]] = []
        for _ in range(min(size, len(there))):
            pool = self._pool(left, size, len(there), rng)
            values = np.minimum(nearest[:, None], distances[:, pool]).sum(axis=0)
            place, runner_up = best_two(values)
            facts: dict[str, Any] = {"runner_up": None, "runner_up_score": None}
            if runner_up is not None:
                facts = {"runner_up": int(there[pool[runner_up]]), "runner_up_score": float(values[runner_up])}
            pick = int(pool[place])
            reasons.append({"client": int(there[pick]), "score": float(values[place]), **facts, "pool": len(left)})
            nearest = np.minimum(nearest, distances[:, pick])
            left = left[left != pick]
        reasons += [{"client": client, "score": None} for client in without[: size - len(reasons)]]
        return Selection([reason["client"] for reason in reasons], state, reasons)

    def _pool(self, left: NDArray[np.int64], size: int, clients: int, rng: np.random.Generator) -> NDArray[np.int64]:
        """Who is looked at for the next pick."""
        if self.subsample is None:
            return left
        looked_at = min(max(size, int(self.subsample * clients)), len(left))
        return np.sort(rng.choice(left, looked_at, replace=False))


def best_two(values: Floats) -> tuple[int, int | None]:
    """The places of the smallest value and of the next; ties go to the first."""
    tie = TIE * float(np.abs(values).max())
    best = int(np.flatnonzero(values <= values.min() + tie)[0])
    others = np.delete(np.arange(len(values)), best)
    if not len(others):
        return best, None
    return best, int(others[np.flatnonzero(values[others] <= values[others].min() + tie)[0]])
