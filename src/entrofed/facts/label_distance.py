"""How far a client's labels are from a distribution that everybody knows: one number, in place of the label counts."""

from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import LabelFact
from entrofed.core.validation import as_numbers
from entrofed.errors import ConfigError
from entrofed.info.divergence import kl
from entrofed.info.pooling import pool

Measure = Literal["kl", "l2", "pooled_kl"]


@dataclass(frozen=True)
class LabelDistance(LabelFact):
    """``kl``: ``KL(p_k || target)`` nats; ``l2``: ``|p_k - target|``; ``pooled_kl``: ``KL(target || p_k)``, smoothed.

    ``target``: one number per class, such as the label counts of all clients together; none: uniform. A client without
    labels is at 0. ``smoothing`` as in :func:`entrofed.info.pooling.pool`.
    """

    name: ClassVar[str] = "label_distance"
    reveals: ClassVar[str] = "how far its labels are from the target, one number"

    target: tuple[float, ...] = ()
    measure_by: Measure = "kl"
    smoothing: float = 1e-2

    def __post_init__(self) -> None:
        if not all(0 <= share < float("inf") for share in self.target) or (self.target and not any(self.target)):
            raise ConfigError(f"fact {self.name!r}: target = {list(self.target)}: numbers from 0 on, not all 0")
        if not (isfinite(self.smoothing) and self.smoothing >= 0):
            raise ConfigError(f"fact {self.name!r}: smoothing = {self.smoothing} must be a number from 0 on")

    def of_counts(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The distance."""
        counts = np.maximum(np.asarray(counts, np.float64), 0.0)
        target = np.array(self.target or np.ones(len(counts)), np.float64)
        if len(target) != len(counts):
            raise ConfigError(f"fact {self.name!r}: target has {len(target)} numbers for {len(counts)} classes")
        if not counts.any():
            return np.array(0.0)
        row, target = counts / counts.sum(), target / target.sum()
        if self.measure_by == "l2":
            return np.array(np.linalg.norm(row - target))
        if self.measure_by == "kl":
            return np.array(kl(row, target))
        _, (everybody, own) = pool(np.array([target, row]), np.ones(2), self.smoothing)
        return np.array(kl(everybody, own))

    def problem(self, value: Any, classes: int) -> str | None:
        """One number from 0 on."""
        found = as_numbers(value)
        if found.shape != () or not -1e-9 <= found < float("inf"):
            return f"no distance: {str(value)[:50]}"
        return None
