"""What a client's model says about its own data, on average."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, ModelRuntime, When
from entrofed.core.types import ClientData, Update
from entrofed.core.validation import as_numbers

TOLERANCE, ROUNDING = 1e-3, 1e-9
"""How far from 1 the sum of a distribution may be, and up to where that is only how numbers are rounded."""


@dataclass(frozen=True)
class MeanPrediction(Fact):
    """The mean softmax output ``[class]`` of the trained model over the data it was trained on."""

    name: ClassVar[str] = "mean_prediction"
    when: ClassVar[When] = "with_update"
    reveals: ClassVar[str] = "the mean softmax output over its data"

    def measure(self, data: ClientData, model: ModelRuntime) -> NDArray[np.float64]:
        """A distribution over the classes."""
        total = np.zeros(data.classes)
        for logits, _ in model.predictions(data):
            total += logits.double().softmax(dim=1).sum(dim=0).numpy()
        return total / len(data)

    def problem(self, value: Any, classes: int) -> str | None:
        """It must be a distribution."""
        soft = as_numbers(value)
        if soft.shape != (classes,) or not (soft >= 0).all() or not abs(float(soft.sum()) - 1) < TOLERANCE:
            return f"it is not a distribution over {classes} classes"
        return None


def distributions(updates: Sequence[Update]) -> NDArray[np.float64]:
    """What clients told ``[client, class]``; each row sums to 1."""
    soft = np.stack([np.asarray(update.facts[MeanPrediction.name], np.float64) for update in updates])
    total = soft.sum(axis=1, keepdims=True)
    return np.where(np.abs(total - 1) > ROUNDING, soft / total, soft)
