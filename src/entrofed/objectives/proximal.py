"""Stay near the model that training started from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import ConfigDict

from entrofed.core.parts import Given, ModelRuntime, Objective, Wrapper
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, PartState, Update
from entrofed.errors import ConfigError
from entrofed.objectives.cross_entropy import CrossEntropy


@dataclass(frozen=True)
class Proximal(Wrapper, Objective):
    """Another objective plus ``mu / 2 * ||w - w_t||^2`` over the parameters.

    It is the squared norm: its gradient ``mu (w - w_t)``, which is added to the other's, vanishes at the start. The
    reported loss is the other objective's. With ``mu = 0`` nothing changes, to the last bit.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)
    name: ClassVar[str] = "proximal"
    reference: ClassVar[str] = "Li et al., FedProx, MLSys 2020"

    mu: float = 0.01
    objective: Objective = CrossEntropy()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if not 0 <= self.mu < float("inf"):
            raise ConfigError(f"objective {self.name!r}: mu = {self.mu} must be finite and not negative")

    @property
    def wrapped(self) -> Objective:
        """The other objective."""
        return self.objective

    @property
    def terms(self) -> tuple[str, ...]:
        """Those of the other objective."""
        return self.objective.terms

    @property
    def pull(self) -> float:
        """``mu``, and the other objective's if it has one."""
        return self.mu + self.objective.pull

    def check(self, model: torch.nn.Module) -> None:
        """The other objective decides."""
        self.objective.check(model)

    def check_classes(self, classes: int) -> None:
        """The other objective decides."""
        self.objective.check_classes(classes)

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """The other objective's."""
        return self.objective.begin(task, data, model)

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The other objective's."""
        return self.objective.loss(model, x, y, given)

    def remember(self, task: TrainTask, update: Update) -> PartState:
        """The other objective's."""
        return self.objective.remember(task, update)
