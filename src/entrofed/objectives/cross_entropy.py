"""The ordinary classification loss."""

from dataclasses import dataclass
from typing import ClassVar

import torch


@dataclass(frozen=True)
class CrossEntropy:
    """Mean cross entropy of the softmax of the logits, in nats."""

    name: ClassVar[str] = "cross_entropy"
    reference: ClassVar[str] = ""

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The mean over the batch."""
        return torch.nn.functional.cross_entropy(model(x), y)
