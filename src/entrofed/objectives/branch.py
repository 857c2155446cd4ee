"""Train one branch of a concatenated network, or the layer that joins them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch.nn.functional import cross_entropy

from entrofed.core.parts import Given, ModelRuntime, Objective
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData
from entrofed.errors import ConfigError
from entrofed.models.concatenated import Concatenated

HEAD = "head"


@dataclass(frozen=True)
class Branch(Objective):
    """Cross entropy of the branch of the client's cluster; in the second phase, of the joined network."""

    name: ClassVar[str] = "branch"
    reference: ClassVar[str] = "Diao, Li and He, FedConcat, AAAI 2024"

    def check(self, model: torch.nn.Module) -> None:
        """Only a concatenated network has branches."""
        if not isinstance(model, Concatenated):
            raise ConfigError(
                f"objective {self.name!r} trains the branches of server rule 'concat'; choose method 'fedconcat', or "
                "another objective"
            )

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """Which branch it is; the name says it, since every branch has gradients of its own."""
        second = int(task.broadcast["phase"])
        name = HEAD if second else str(int(task.broadcast["clusters"][task.client]))
        return lambda x: {name: x.new_zeros(())}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        (name,) = given
        logits = model.joined(x) if name == HEAD else model.branches[int(name)](x)  # type: ignore[operator, index]
        return cross_entropy(logits, y)
