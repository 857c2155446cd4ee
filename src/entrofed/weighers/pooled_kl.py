"""Weigh by how far a client's labels are from everybody's."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np

from entrofed.core.parts import Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_mixture import LabelMixture
from entrofed.info.mixture import Penalty
from entrofed.info.pooling import NONE, Direction, Mode, pooling_weights


@dataclass(frozen=True)
class PooledKL(Weigher):
    """In proportion to the divergence of the pooled label distribution from a client's: ``alpha_k ~ KL(P || P_k)``.

    Every client fits a Gaussian mixture to its labels, taken as numbers, and sends the parameters once; the server
    pools them by size, ``P = sum_k N_k P_k / sum_k N_k``. The more a client differs, the more it weighs (``divergent``;
    ``aligned`` turns this round). All clients are pooled; the weights of the responders are then scaled to sum to one.

    ``mode``: ``smoothed`` adds ``smoothing`` to each class; ``paper`` does not; ``printed`` takes the equations to the
    letter, without making distributions of the densities: where a divergence is negative, the weights are the data
    sizes (``fallback`` in the record); ``histogram`` pools the label frequencies themselves; ``authors``
    follows the authors' program, in which ``P_k`` is no distribution. The modes can reverse the order of clients. A
    mixture over class numbers means nothing if classes have no order, and its components are limited to ``ratio`` times
    the number of labels: ``histogram`` is the sound choice. ``penalty`` is that of the fit
    (:func:`entrofed.info.mixture.bic`); ``complete_data`` is the paper's. ``alpha_min`` is a least weight for all.

    ``authors`` sums over the labels of the peer that pools. A server has none: there it sums over all classes.
    """

    name: ClassVar[str] = "pooled_kl"
    reference: ClassVar[str] = "Feng et al., FedEP, Algorithms 1 and 2"
    sees: ClassVar[Sees] = "sum"

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

    @property
    def facts(self) -> tuple[Fact, ...]:
        """A mixture of the labels; the counts themselves, if they are pooled."""
        return (LabelCounts(),) if self.mode == "histogram" else (LabelMixture(self.ratio, self.penalty),)

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the divergences; the peer that pools knows the labels that it has itself."""
        fact = LabelCounts.name if self.mode == "histogram" else LabelMixture.name
        table = context.clients.told(fact, f"weigher {self.name!r}")
        present = np.array([update.client for update in updates])
        weights, divergences = pooling_weights(
            [np.zeros(1) if told is None else told for told in table],
            context.clients.classes,
            mode=self.mode,
            smoothing=self.smoothing,
            labels=context.own_labels,
            direction=self.direction,
            present=present,
            alpha_min=self.alpha_min,
        )
        unit = "kl_bits" if self.mode == "authors" else "kl_nats"
        origins: list[dict[str, Any]] = [{unit: float(divergences[client])} for client in present]
        if self.mode == "printed":
            origins = [{**origin, "fallback": bool(divergences.min() < -NONE)} for origin in origins]
        return Weighing(weights[present], origins)
