"""Learn less about classes that a client does not have."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch

from entrofed.core.parts import Given, ModelRuntime, Objective
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData
from entrofed.errors import ConfigError
from entrofed.objectives.cross_entropy import stacked_cross_entropy


@dataclass(frozen=True)
class RestrictedSoftmax(Objective):
    """Cross entropy of logits that are multiplied by ``s_c``: 1 for a class the client holds, ``alpha`` if not.

    ``proportional``: ``s_c = alpha + (1 - alpha) f_c / max f`` with the client's label frequencies f, as in the
    authors' program. Only in training; the whole logit is scaled, bias included. Beware: scaling a negative logit of a
    missing class raises it. With ``alpha = 1`` this is plain cross entropy.
    """

    name: ClassVar[str] = "restricted_softmax"
    reference: ClassVar[str] = "Li and Zhan, FedRS, KDD 2021"

    alpha: float = 0.5
    mode: Literal["plain", "proportional"] = "plain"

    def __post_init__(self) -> None:
        if not 0 <= self.alpha <= 1:
            raise ConfigError(f"objective {self.name!r}: alpha = {self.alpha} must be between 0 and 1")

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """The scales, from the labels of the client."""
        counts = data.label_counts
        held = counts / counts.max() if self.mode == "proportional" else counts > 0
        scale = torch.from_numpy((self.alpha + (1 - self.alpha) * held).astype(np.float32)).to(model.device)
        return lambda x: {"scale": scale}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        return torch.nn.functional.cross_entropy(model(x) * given["scale"], y)

    def stacked_loss(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over each client's batch."""
        return stacked_cross_entropy(logits * given["scale"], y)
