"""Weigh by how certain a client's model is on the server's validation set."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from entrofed.core.parts import VALIDATION, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.info.prediction import Aggregate, inverse_entropy_weights
from entrofed.info.simplex import water_fill

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class PredictionEntropy(Weigher):
    """In inverse proportion to the mean entropy of a model's predictions: ``alpha_k = H_k^-1 / sum_j H_j^-1``.

    ``H_k`` is the mean over the validation set of the entropy (bits) of the softmax output of client k's model, at
    least ``floor``. Labels are not used. Differs from the paper, whose formula is for one sample: the mean, because the
    sum over samples and any log base give the same weights. ``entropy_of_mean`` takes the entropy of the mean
    prediction instead. A model that always says the same with full certainty gets all weight: ``max_weight`` caps it.
    A model with predictions that are not finite gets nothing.
    """

    name: ClassVar[str] = "prediction_entropy"
    reference: ClassVar[str] = "Sterniczuk, An entropy-based framework for model aggregation, Algorithm 1"
    needs: ClassVar[frozenset[str]] = frozenset({VALIDATION})
    sees: ClassVar[Sees] = "models"

    aggregate: Aggregate = "mean_of_entropies"
    floor: float = 1e-12
    max_weight: float | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.floor) and self.floor > 0):
            raise ConfigError(f"weigher {self.name!r}: floor = {self.floor} must be a finite number above 0")
        if self.max_weight is not None and not 0 < self.max_weight <= 1:
            raise ConfigError(f"weigher {self.name!r}: max_weight = {self.max_weight} must be above 0 and at most 1")

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Shares of the inverse entropies."""
        entropies = context.predict([update.params for update in updates]).entropy(self.aggregate)
        for update, bits in zip(updates, entropies, strict=True):
            if not bits > self.floor:
                what = "no finite predictions" if np.isnan(bits) else f"a prediction entropy of {bits:g} bits"
                log.warning("round %d: the model of client %d has %s", context.round, update.client, what)
        weights = inverse_entropy_weights(entropies, floor=self.floor)
        if self.max_weight is not None:
            weights = water_fill(weights, self.max_weight)
        origins = [{"prediction_entropy_bits": float(bits) if isfinite(bits) else None} for bits in entropies]
        return Weighing(weights, origins)
