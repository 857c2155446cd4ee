"""How well the current model does on a client's data."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from entrofed.core.parts import Fact, ModelRuntime, When
from entrofed.core.types import ClientData
from entrofed.core.validation import as_numbers


@dataclass(frozen=True)
class Loss(Fact):
    """The mean cross entropy (nats) of the model that the round starts from, over the client's training data."""

    name: ClassVar[str] = "loss"
    when: ClassVar[When] = "before_round"
    reveals: ClassVar[str] = "the loss of the current model on its data, if it is a candidate"

    def measure(self, data: ClientData, model: ModelRuntime) -> NDArray[np.float64]:
        """One number."""
        total = sum(float(cross_entropy(logits, y, reduction="sum")) for logits, y in model.predictions(data))
        return np.array(total / len(data))

    def problem(self, value: Any, classes: int) -> str | None:
        """One number; one that is not finite is a model that diverged, and the selector's business."""
        return None if as_numbers(value).shape == () else f"a loss that is no number: {str(value)[:50]}"
