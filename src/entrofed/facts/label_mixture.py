"""A Gaussian mixture over the class numbers, in place of the label counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import LabelFact
from entrofed.core.validation import MAX_EXAMPLES, as_numbers
from entrofed.errors import ConfigError, DataError
from entrofed.info.mixture import Penalty, fit_all
from entrofed.info.pooling import pooled_divergences


@dataclass(frozen=True)
class LabelMixture(LabelFact):
    """The number of samples, and three numbers per component: weight, mean, variance; ``[0]`` of an empty client.

    ``ratio`` limits the components to that share of the labels, ``penalty`` says what the information criterion counts.
    """

    name: ClassVar[str] = "label_mixture"
    reveals: ClassVar[str] = "a summary of its label counts"
    reference: ClassVar[str] = "Feng et al., FedEP, Algorithm 1"

    ratio: float = 0.5
    penalty: Penalty = "components"

    def __post_init__(self) -> None:
        if not (isfinite(self.ratio) and 0 < self.ratio <= 1):
            raise ConfigError(f"fact {self.name!r}: ratio = {self.ratio} must be above 0 and at most 1")

    def of_counts(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The mixture that fits the labels, taken as numbers."""
        return self.of_all([counts])[0]

    def of_all(self, rows: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """Fitted together."""
        mixtures = iter(fit_all([row for row in rows if row.any()], ratio=self.ratio, penalty=self.penalty))
        return [next(mixtures).to_vector() if row.any() else np.zeros(1) for row in rows]

    def problem(self, value: Any, classes: int) -> str | None:
        """It must be a mixture over the classes that can be pooled."""
        row = as_numbers(value)
        if row.ndim != 1 or not (np.abs(row) <= MAX_EXAMPLES).all():
            return f"numbers up to {MAX_EXAMPLES} in a row are expected"
        try:
            with np.errstate(all="ignore"):
                found, sizes = pooled_divergences([row], classes)
        except DataError as error:
            return str(error)
        return None if np.isfinite(found).all() and np.isfinite(sizes).all() else "it cannot be pooled"
