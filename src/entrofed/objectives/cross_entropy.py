"""The ordinary classification loss."""

from dataclasses import dataclass
from typing import ClassVar

import torch

from entrofed.core.parts import Given, Objective


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Mean cross entropy of the softmax of the logits, in nats."""

    name: ClassVar[str] = "cross_entropy"
    plain: ClassVar[bool] = True

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        return torch.nn.functional.cross_entropy(model(x), y)
