"""Weigh down the clients whose training loss is unusual."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from entrofed.core.parts import Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError


@dataclass(frozen=True)
class LossDeviation(Weigher):
    """In inverse proportion to the distance of the training loss from the cohort's median.

    With losses ``L_k`` and their standard deviation ``s``, ``d_k = beta s`` inside the band
    ``|L_k - median| <= alpha s`` and ``|L_k - median|`` outside of it; ``alpha_k = d_k^-1 / sum_j d_j^-1``. No spread:
    equal weights. A client whose loss is not finite gets nothing. ``ddof`` 1 is the sample standard deviation (the
    authors of FedAsl), 0 the population's (the authors of FedKLEntropy); ``epochs`` says whether the loss is the mean
    over all local epochs or over the last.
    """

    name: ClassVar[str] = "loss_deviation"
    reference: ClassVar[str] = "FedAsl (Talukder and Islam, 2022)"
    sees: ClassVar[Sees] = "scalars"
    """Training losses."""

    alpha: float = 0.5
    beta: float = 0.2
    ddof: Literal[0, 1] = 1
    epochs: Literal["all", "last"] = "all"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < float("inf") or not 0 < self.beta < float("inf"):
            raise ConfigError(
                f"weigher {self.name!r}: alpha = {self.alpha} must not be negative, beta = {self.beta} must be above 0"
            )

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the inverse distances."""
        losses = np.array(
            [update.train_loss if self.epochs == "all" else update.train_loss_last_epoch for update in updates]
        )
        usable = np.isfinite(losses)
        origins = [{"loss": float(loss) if use else None} for loss, use in zip(losses, usable, strict=True)]
        inverse = usable.astype(np.float64)
        if usable.sum() > 1 and (spread := losses[usable].std(ddof=self.ddof)) > 0:
            distance = np.abs(losses[usable] - np.median(losses[usable])) / spread
            inverse[usable] = 1 / np.where(distance <= self.alpha, self.beta, distance)
        return Weighing(inverse / inverse.sum() if usable.any() else np.full(len(updates), np.nan), origins)
