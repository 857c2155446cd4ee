"""Weigh by how alike the values of a client's weights are spread to those of the global model."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

from entrofed.core.params import Layout
from entrofed.core.parts import Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.info.histogram import divergence_weights, weight_divergences


@dataclass(frozen=True)
class WeightHistogramKL(Weigher):
    """In inverse proportion to one plus the divergence of weight histograms: ``alpha_k ~ (1 + D_k)^-gamma``.

    ``D_k = KL(p_k || p_g)`` in nats, where p are histograms over ``bins`` common bins of the trainable parameters of
    client k's model and of the model it started from; empty bins count as 1e-12. Choices:

    - ``binning``: equal bins over the range of all models (``minmax``); the global model's quantiles; or equal bins of
      Freedman and Diaconis' width (``fd``). BatchNorm's scales near 1 stretch the range, so that with ``minmax`` most
      weights share a handful of bins.
    - ``scope``: one histogram of everything, or one a layer, weighted by its size.
    - ``exclude``: a regular expression; parameters whose name it finds are left out. A projection head that is not
      trained dilutes the divergence.
    - ``weighting``: ``one_minus_share`` is ``(1 - D_k / sum D) / (|R| - 1)``, an earlier form by the same authors.
    """

    name: ClassVar[str] = "weight_kl"
    reference: ClassVar[str] = "Le et al., FedKLEntropy, equations 2 and 3"
    sees: ClassVar[Sees] = "models"

    bins: int = 100
    binning: Literal["minmax", "quantile", "fd"] = "minmax"
    divergence: Literal["kl", "js"] = "kl"
    weighting: Literal["inverse", "one_minus_share"] = "inverse"
    gamma: float = 1.0
    scope: Literal["all", "per_layer"] = "all"
    exclude: str = ""

    def __post_init__(self) -> None:
        if self.bins < 1:
            raise ConfigError(f"weigher {self.name!r}: bins = {self.bins} must be at least 1")
        if not (isfinite(self.gamma) and self.gamma >= 0):
            raise ConfigError(f"weigher {self.name!r}: gamma = {self.gamma} must be finite and not negative")
        try:
            re.compile(self.exclude)
        except re.error as error:
            raise ConfigError(
                f"weigher {self.name!r}: exclude = {self.exclude!r} is no regular expression: {error}"
            ) from None

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the inverse divergences."""
        divergences = weight_divergences(
            context.params.values,
            [update.params.values for update in updates],
            segments=self._segments(context.layout),
            bins=self.bins,
            binning=self.binning,
            divergence=self.divergence,
        )
        weights = divergence_weights(divergences, weighting=self.weighting, gamma=self.gamma)
        return Weighing(weights, [{f"{self.divergence}_nats": float(d) if isfinite(d) else None} for d in divergences])

    def _segments(self, layout: Layout) -> list[list[slice]]:
        """The stretches of a model that go into each histogram; a layer is a module with its weight and bias."""
        layers: dict[str, list[slice]] = {}
        for entry in layout.entries:
            if entry.kind == "trainable" and not (self.exclude and re.search(self.exclude, entry.name)):
                layer = entry.name.rpartition(".")[0] if self.scope == "per_layer" else ""
                layers.setdefault(layer, []).append(slice(entry.start, entry.start + entry.size))
        if not layers:
            raise ConfigError(f"weigher {self.name!r}: exclude = {self.exclude!r} leaves no parameter to compare")
        return list(layers.values())
