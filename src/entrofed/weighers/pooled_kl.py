"""Weigh by how far a client's labels are from everybody's."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.types import LABEL_SUMMARY, Context, Update, Weigher, Weighing
from entrofed.errors import ConfigError, DataError
from entrofed.info.mixture import Penalty, fit
from entrofed.info.pooling import Direction, Mode, pooled_divergences, pooled_weights


@dataclass(frozen=True)
class PooledKL(Weigher):
    """In proportion to the divergence of the pooled label distribution from a client's: ``alpha_k ~ KL(P || P_k)``.

    Every client fits a Gaussian mixture to its labels, taken as numbers, and sends the parameters once; the server
    pools them by size, ``P = sum_k N_k P_k / sum_k N_k``. The more a client differs, the more it weighs (``divergent``;
    ``aligned`` turns this round). All clients are pooled; the weights of the responders are then scaled to sum to one.

    ``mode``: ``smoothed`` adds ``smoothing`` to each class; ``paper`` does not; ``histogram`` pools the label
    frequencies themselves; ``authors`` follows the authors' program, in which ``P_k`` is no distribution. The modes can
    reverse the order of clients. A mixture over class numbers means nothing if classes have no order, and its
    components are limited to ``ratio`` times the number of labels: ``histogram`` is the sound choice.
    ``alpha_min`` is a least weight for everybody.
    """

    name: ClassVar[str] = "pooled_kl"
    reference: ClassVar[str] = "Feng et al., FedEP, Algorithms 1 and 2"
    needs: ClassVar[frozenset[str]] = frozenset({LABEL_SUMMARY})

    mode: Mode = "smoothed"
    smoothing: float = 1e-2
    direction: Direction = "divergent"
    ratio: float = 0.5
    penalty: Penalty = "components"
    alpha_min: float = 0.0

    def __post_init__(self) -> None:
        for what, value, most in (("smoothing", self.smoothing, 1e6), ("alpha_min", self.alpha_min, 1.0)):
            if not 0 <= value <= most:
                raise ConfigError(f"weigher {self.name!r}: {what} = {value} must be between 0 and {most:g}")
        if not (isfinite(self.ratio) and 0 < self.ratio <= 1):
            raise ConfigError(f"weigher {self.name!r}: ratio = {self.ratio} must be above 0 and at most 1")

    def summary(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The client's number of samples and its mixture, three numbers a component; its counts if they are pooled."""
        if self.mode == "histogram":
            return counts
        if not counts.any():
            return np.zeros(1)
        return fit(counts, ratio=self.ratio, penalty=self.penalty).to_vector()

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the divergences."""
        ledger = context.ledger
        if ledger.summaries is None:
            raise DataError(f"weigher {self.name!r} needs the clients' label summaries, and the ledger has none")
        divergences, sizes = pooled_divergences(
            ledger.summaries, ledger.classes, mode=self.mode, smoothing=self.smoothing
        )
        present = np.array([update.client for update in updates])
        weights = pooled_weights(
            divergences, sizes, direction=self.direction, present=present, alpha_min=self.alpha_min
        )
        return Weighing(weights[present], [{"kl_nats": float(divergences[client])} for client in present])
