"""Weigh by how far a client's labels are from everybody's."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import ALL_CLIENTS, Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_distance import LabelDistance
from entrofed.facts.label_mixture import LabelMixture
from entrofed.info.maxent import present_shares
from entrofed.info.mixture import Penalty
from entrofed.info.pooling import NONE, Direction, Mode, pooled_weights, pooling_weights


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

    ``told = "distance"``, with ``histogram``: P comes as a secure sum of all clients' counts (``pool``, filled in by
    the run), and each client tells its divergence alone.

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
    told: Literal["summary", "distance"] = "summary"
    pool: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.told == "distance" and self.mode != "histogram":
            raise ConfigError(
                f"weigher {self.name!r}: told = 'distance' is for mode = 'histogram', whose pool is a sum of counts; "
                f"with {self.mode!r} clients tell a mixture"
            )
        for what, value, most in (("smoothing", self.smoothing, 1e6), ("alpha_min", self.alpha_min, 1.0)):
            if not 0 <= value <= most:
                raise ConfigError(f"weigher {self.name!r}: {what} = {value} must be between 0 and {most:g}")
        if not (isfinite(self.ratio) and 0 < self.ratio <= 1):
            raise ConfigError(f"weigher {self.name!r}: ratio = {self.ratio} must be above 0 and at most 1")

    @property
    def facts(self) -> tuple[Fact, ...]:
        """A mixture of the labels; the counts themselves, if they are pooled; or how far they are from the pool."""
        if self.told == "distance":
            return (LabelDistance(self.pool, "pooled_kl", self.smoothing),)
        return (LabelCounts(),) if self.mode == "histogram" else (LabelMixture(self.ratio, self.penalty),)

    @property
    def pools(self) -> bool:
        """If nobody's labels are told, and those of all are not known yet."""
        return self.told == "distance" and not self.pool

    @property
    def needs(self) -> frozenset[str]:
        """Somebody who makes the sum."""
        return frozenset({ALL_CLIENTS}) if self.pools else frozenset()

    def pooled(self, counts: NDArray[np.float64]) -> "PooledKL":
        """With the pool in numbers."""
        return replace(self, pool=present_shares(counts)) if self.pools else self

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the divergences; the peer that pools knows the labels that it has itself."""
        if self.told == "distance":
            return self._by_distance([update.client for update in updates], context)
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

    def _by_distance(self, present: list[int], context: Context) -> Weighing:
        told = context.clients.told(LabelDistance.name, f"weigher {self.name!r}")
        far = np.array([0.0 if value is None else float(value) for value in told])
        sizes = np.where([value is None for value in told], 0, context.clients.sizes)
        weights = pooled_weights(far, sizes, direction=self.direction, present=present, alpha_min=self.alpha_min)
        return Weighing(weights[present], [{"kl_nats": float(far[client])} for client in present])
