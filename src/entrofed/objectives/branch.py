"""Train one branch of a concatenated network, or the layer that joins them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch.nn.functional import cross_entropy

from entrofed.core.types import Given, Objective
from entrofed.errors import ConfigError
from entrofed.models.concatenated import Concatenated

if TYPE_CHECKING:
    from entrofed.client.runtime import Site
    from entrofed.client.train import WorkOrder

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

    def begin(self, site: "Site", order: "WorkOrder") -> Callable[[torch.Tensor], Given]:
        """Which branch it is; the name says it, since every branch has gradients of its own."""
        second = int(order.broadcast["phase"])
        name = HEAD if second else str(int(order.broadcast["clusters"][order.client]))
        return lambda x: {name: x.new_zeros(())}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        (name,) = given
        logits = model.joined(x) if name == HEAD else model.branches[int(name)](x)  # type: ignore[operator, index]
        return cross_entropy(logits, y)
