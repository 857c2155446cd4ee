"""Calibrate logits by how often a client sees each class."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from entrofed.core.parts import Given, ModelRuntime, Objective
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData
from entrofed.errors import ConfigError
from entrofed.objectives.cross_entropy import stacked_cross_entropy

ABSENT = 1e-8
"""Stands for the count of a class that a client lacks: a margin of 100 tau masks it."""


@dataclass(frozen=True)
class Calibrated(Objective):
    """Cross entropy of logits that are lowered by ``tau n_c^(-1/4)``, with the client's label counts n.

    A rare class needs a larger margin. Only in training. With ``tau = 0`` this is plain cross entropy.
    """

    name: ClassVar[str] = "calibrated"
    reference: ClassVar[str] = "Zhang et al., FedLC, ICML 2022"

    tau: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.tau < float("inf"):
            raise ConfigError(f"objective {self.name!r}: tau = {self.tau} must be finite and not negative")

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """The margins, from the labels of the client."""
        counts = np.maximum(data.label_counts, ABSENT)
        margin = torch.from_numpy((self.tau * counts**-0.25).astype(np.float32)).to(model.device)
        return lambda x: {"margin": margin}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        return torch.nn.functional.cross_entropy(model(x) - given["margin"], y)

    def stacked_loss(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over each client's batch."""
        return stacked_cross_entropy(logits - given["margin"], y)
