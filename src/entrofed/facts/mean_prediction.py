"""What a client's model says about its own data, on average."""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, ModelRuntime
from entrofed.core.types import ClientData
from entrofed.core.validation import as_numbers


@dataclass(frozen=True)
class MeanPrediction(Fact):
    """The mean softmax output ``[class]`` of the trained model over the data it was trained on."""

    name: ClassVar[str] = "mean_prediction"
    when: ClassVar[Literal["once", "before_round", "with_update"]] = "with_update"
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
        if soft.shape != (classes,) or not (soft >= 0).all() or not abs(float(soft.sum()) - 1) < 1e-3:
            return f"it is not a distribution over {classes} classes"
        return None
