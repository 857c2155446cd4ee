"""Stay near the model that training started from."""

from dataclasses import dataclass
from typing import ClassVar

from entrofed.core.parts import Objective
from entrofed.errors import ConfigError
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.wrapped import WrappedObjective


@dataclass(frozen=True)
class Proximal(WrappedObjective):
    """Another objective plus ``mu / 2 * ||w - w_t||^2`` over the parameters.

    It is the squared norm: its gradient ``mu (w - w_t)``, which is added to the other's, vanishes at the start. The
    reported loss is the other objective's. With ``mu = 0`` nothing changes, to the last bit.
    """

    name: ClassVar[str] = "proximal"
    reference: ClassVar[str] = "Li et al., FedProx, MLSys 2020"

    mu: float = 0.01
    objective: Objective = CrossEntropy()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if not 0 <= self.mu < float("inf"):
            raise ConfigError(f"objective {self.name!r}: mu = {self.mu} must be finite and not negative")

    @property
    def pull(self) -> float:
        """``mu``, and the other objective's if it has one."""
        return self.mu + self.objective.pull
