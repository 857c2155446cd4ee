"""Draw cohorts whose pooled labels are balanced."""

from dataclasses import dataclass
from math import log
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.selectors.joined import widened

FLOOR = 1e-6
"""The least imbalance: a cohort in perfect balance would be drawn for certain."""


def imbalance(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """``sum_c (L_c / |L| - 1 / C)^2`` of the counts L in each row: from 0 to ``1 - 1 / C``, which nothing at all has.

    >>> imbalance(np.array([[2.0, 2.0], [3.0, 1.0], [4.0, 0.0], [0.0, 0.0]])).tolist()
    [0.0, 0.125, 0.5, 0.5]
    """
    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    found = np.square(shares - 1 / counts.shape[1]).sum(axis=1)
    return np.asarray(np.where(total[:, 0] > 0, found, 1 - 1 / counts.shape[1]))


@dataclass(frozen=True)
class ClassBalanced(Selector):
    """Draws one client after the other with probabilities that fall with the class imbalance of the cohort.

    With the imbalance ``Q(S) = sum_c (L_c / |L| - 1 / C)^2`` of the pooled counts L, the first client is drawn with
    probability ``~ Q(j)^-1 + explore sqrt(3 ln t / (2 T_j))`` in round t = 1, 2 ..., where ``T_j`` is one more than how
    often j was chosen; the m-th with ``~ Q(S + j)^-m``. Q below 1e-6 counts as that.

    The full paper was not at hand: this is its abstract and two public programs, which differ in how the exponent grows
    (here by 1 a pick) and in the first pick (here drawn, not the largest). The paper computes inner products of counts
    under homomorphic encryption; here the server has the counts.
    """

    name: ClassVar[str] = "class_balanced"
    reference: ClassVar[str] = "Zhang et al., Fed-CBS, ICML 2023, arXiv 2209.15245"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    explore: float = 10.0

    def __post_init__(self) -> None:
        if not 0 <= self.explore < float("inf"):
            raise ConfigError(f"selector {self.name!r}: explore = {self.explore} must be finite and not negative")

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nobody was chosen."""
        return {"times": np.zeros(len(clients.sizes), np.int64), "round": np.zeros((), np.int64)}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A cohort; the score of each pick is the imbalance with it."""
        counts = clients.told(LabelCounts.name, f"selector {self.name!r}")[among]
        times = widened(state["times"], len(clients.sizes))
        number, left = int(state["round"]) + 1, np.arange(len(among))
        pooled = np.zeros(counts.shape[1])
        picked: list[int] = []
        reasons: list[dict[str, Any]] = []
        for m in range(1, min(size, len(among)) + 1):
            found = imbalance(pooled + counts[left])
            logs = -m * np.log(np.maximum(found, FLOOR))
            odds = np.exp(logs - logs.max()) if m > 1 else np.exp(logs)
            if m == 1:
                odds += self.explore * np.sqrt(1.5 * log(number) / (1 + times[among]))
            place = int(rng.choice(len(left), p=odds / odds.sum()))
            client = int(among[left[place]])
            reasons.append({"client": client, "score": float(found[place]), "pool": len(left)})
            pooled += counts[left[place]]
            picked.append(client)
            left = np.delete(left, place)
        times[picked] += 1
        return Selection(picked, {"times": times, "round": np.array(number)}, reasons)
