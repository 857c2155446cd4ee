"""How hard a client's samples still are for the model that it has just trained."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from entrofed.core.parts import Fact, ModelRuntime, When
from entrofed.core.types import ClientData
from entrofed.core.validation import as_numbers


@dataclass(frozen=True)
class SquaredLoss(Fact):
    """The root of the mean squared cross entropy of its samples, ``sqrt(sum_i l_i^2 / n)`` nats, after training."""

    name: ClassVar[str] = "squared_loss"
    when: ClassVar[When] = "with_update"
    reveals: ClassVar[str] = "the root mean square of its trained model's losses on its samples"

    def measure(self, data: ClientData, model: ModelRuntime) -> NDArray[np.float64]:
        """One number."""
        losses = [cross_entropy(logits, y, reduction="none") for logits, y in model.predictions(data)]
        return np.array(float(torch.cat(losses).double().square().mean().sqrt()))

    def problem(self, value: Any, classes: int) -> str | None:
        """One number that is not negative."""
        found = as_numbers(value)
        if found.shape != () or not found >= 0:
            return f"no root mean square of losses: {str(value)[:50]}"
        return None
