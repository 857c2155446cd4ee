"""Weigh by size, less how far a client's labels are from a target."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from entrofed.core.parts import Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.divergence import kl
from entrofed.info.maxent import Target, check_target, label_rows, target_distribution


@dataclass(frozen=True)
class Discrepancy(Weigher):
    """``alpha_k ~ max(n_k / n - a d_k + b, 0)``, with the distance ``d_k`` of the client's labels from the target.

    ``n`` is the cohort's number of examples. ``metric``: ``kl`` is ``KL(p_k || target)`` as a share of the cohort's
    sum, as in the authors' program; ``l2`` the Euclidean distance. ``target``: ``uniform`` as in the paper;
    ``pooled``, or a number per class. If nothing is above 0, weights are by size. ``a = b = 0`` is data-size weighing.
    """

    name: ClassVar[str] = "discrepancy"
    reference: ClassVar[str] = "Ye et al., FedDisco, ICML 2023, and the authors' program (a = 0.5, b = 0.1, kl)"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    a: float = 0.5
    b: float = 0.1
    metric: Literal["kl", "l2"] = "kl"
    target: Target = "uniform"

    def __post_init__(self) -> None:
        if not 0 <= self.a < float("inf") or not 0 <= self.b < float("inf"):
            raise ConfigError(f"weigher {self.name!r}: a = {self.a} and b = {self.b} must be finite and not negative")
        check_target(f"weigher {self.name!r}", self.target)

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the sizes, less the distances."""
        where = f"weigher {self.name!r}"
        counts = context.clients.told(LabelCounts.name, where)
        target = target_distribution(self.target, counts, where)
        sizes = np.array([update.num_examples for update in updates], np.float64)
        shares = sizes / sizes.sum()
        rows = label_rows(counts[[update.client for update in updates]], shares)
        far = self._distances(np.where(rows.any(axis=1, keepdims=True), rows, target), target)
        raw = np.maximum(shares - self.a * far + self.b, 0.0)
        weights = raw / raw.sum() if raw.any() else shares
        return Weighing(weights, [{"discrepancy": float(distance)} for distance in far])

    def _distances(self, rows: np.ndarray, target: np.ndarray) -> np.ndarray:
        if self.metric == "l2":
            return np.asarray(np.linalg.norm(rows - target, axis=1))
        far = kl(rows, target)
        return far / (far.sum() or 1.0)
