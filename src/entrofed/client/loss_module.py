"""A loss whose model can be handed over as tensors, for torch's transformations of functions."""

import torch

from entrofed.core.parts import Given, Objective


class LossModule(torch.nn.Module):
    """An objective's loss as a module, so that its model's parameters can be replaced by arguments."""

    def __init__(self, model: torch.nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The loss of a batch."""
        return self.objective.loss(self.model, x, y, given)
