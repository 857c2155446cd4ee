"""Weigh by size, less how far a client's labels are from a target."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import ALL_CLIENTS, Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_distance import LabelDistance
from entrofed.info.divergence import kl
from entrofed.info.maxent import Target, check_target, label_rows, present_shares, target_distribution


@dataclass(frozen=True)
class Discrepancy(Weigher):
    """``alpha_k ~ max(n_k / n - a d_k + b, 0)``, with the distance ``d_k`` of the client's labels from the target.

    ``n`` is the cohort's number of examples. ``metric``: ``kl`` is ``KL(p_k || target)`` as a share of the cohort's
    sum, as in the authors' program; ``l2`` the Euclidean distance. ``target``: ``uniform`` as in the paper;
    ``pooled``, or a number per class. If nothing is above 0, weights are by size. ``a = b = 0`` is data-size weighing.
    ``told``: clients tell their ``counts``, or, of the target, their ``distance`` alone; a ``pooled`` target then comes
    as a secure sum of all clients' counts.
    """

    name: ClassVar[str] = "discrepancy"
    reference: ClassVar[str] = "Ye et al., FedDisco, ICML 2023, and the authors' program (a = 0.5, b = 0.1, kl)"
    sees: ClassVar[Sees] = "sum"

    a: float = 0.5
    b: float = 0.1
    metric: Literal["kl", "l2"] = "kl"
    target: Target = "uniform"
    told: Literal["counts", "distance"] = "counts"

    def __post_init__(self) -> None:
        if not 0 <= self.a < float("inf") or not 0 <= self.b < float("inf"):
            raise ConfigError(f"weigher {self.name!r}: a = {self.a} and b = {self.b} must be finite and not negative")
        check_target(f"weigher {self.name!r}", self.target)

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Counts, or the distance from the target."""
        if self.told == "counts":
            return (LabelCounts(),)
        return (LabelDistance(() if isinstance(self.target, str) else self.target, self.metric),)

    @property
    def pools(self) -> bool:
        """If the target is everybody's labels, and nobody's are told."""
        return self.told == "distance" and self.target == "pooled"

    @property
    def needs(self) -> frozenset[str]:
        """Somebody who makes the sum."""
        return frozenset({ALL_CLIENTS}) if self.pools else frozenset()

    def pooled(self, counts: NDArray[np.float64]) -> "Discrepancy":
        """With the target in numbers; a class that nobody holds has next to nothing."""
        return replace(self, target=present_shares(counts)) if self.pools else self

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the sizes, less the distances."""
        sizes = np.array([update.num_examples for update in updates], np.float64)
        shares = sizes / sizes.sum()
        far = self._far([update.client for update in updates], shares, context)
        raw = np.maximum(shares - self.a * far + self.b, 0.0)
        weights = raw / raw.sum() if raw.any() else shares
        return Weighing(weights, [{"discrepancy": float(distance)} for distance in far])

    def _far(self, clients: list[int], shares: np.ndarray, context: Context) -> np.ndarray:
        where = f"weigher {self.name!r}"
        if self.told == "distance":
            told = context.clients.told(LabelDistance.name, where)
            return self._scaled(np.array([0.0 if told[k] is None else float(told[k]) for k in clients]))
        counts = context.clients.told(LabelCounts.name, where)
        target = target_distribution(self.target, counts, where)
        rows = label_rows(counts[clients], shares)
        return self._distances(np.where(rows.any(axis=1, keepdims=True), rows, target), target)

    def _distances(self, rows: np.ndarray, target: np.ndarray) -> np.ndarray:
        if self.metric == "l2":
            return np.asarray(np.linalg.norm(rows - target, axis=1))
        return self._scaled(kl(rows, target))

    def _scaled(self, far: np.ndarray) -> np.ndarray:
        """Divergences as shares of their sum; other distances as they are."""
        return far if self.metric == "l2" else far / (far.sum() or 1.0)
