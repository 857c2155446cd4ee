"""What objectives that wrap another one have in common."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict

from entrofed.core.parts import Given, ModelRuntime, Objective, Wrapper
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, ClientTable, PartState, Update


class WrappedObjective(Wrapper, Objective):
    """Another objective, and whatever it needs; a subclass has it as the field ``objective``."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    objective: Objective

    @property
    def wrapped(self) -> Objective:
        """The other objective."""
        return self.objective

    @property
    def pools(self) -> bool:
        """As the other objective."""
        return self.objective.pools

    def pooled(self, counts: NDArray[np.float64]) -> Self:
        """With the other objective, once it knows."""
        return replace(self, objective=self.objective.pooled(counts)) if self.pools else self  # type: ignore[type-var]

    @property
    def terms(self) -> tuple[str, ...]:
        """Those of the other objective."""
        return self.objective.terms

    @property
    def pull(self) -> float:
        """The other objective's."""
        return self.objective.pull

    @property
    def sharpness(self) -> float:
        """The other objective's."""
        return self.objective.sharpness

    def check(self, model: torch.nn.Module) -> None:
        """The other objective decides."""
        self.objective.check(model)

    def check_classes(self, classes: int) -> None:
        """The other objective decides."""
        self.objective.check_classes(classes)

    def broadcast(self, clients: ClientTable, cohort: Sequence[int]) -> PartState:
        """The other objective's."""
        return self.objective.broadcast(clients, cohort)

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """The other objective's."""
        return self.objective.begin(task, data, model)

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The other objective's."""
        return self.objective.loss(model, x, y, given)

    def stacked_loss(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The other objective's."""
        return self.objective.stacked_loss(logits, y, given)

    def stacked_slopes(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> tuple[torch.Tensor, torch.Tensor]:
        """The other objective's; a subclass with another loss is not meant by it."""
        if type(self).stacked_loss is not WrappedObjective.stacked_loss:
            return super().stacked_slopes(logits, y, given)
        return self.objective.stacked_slopes(logits, y, given)

    def remember(self, task: TrainTask, update: Update) -> PartState:
        """The other objective's."""
        return self.objective.remember(task, update)
