"""Look for flat minima."""

from dataclasses import dataclass
from typing import ClassVar

from entrofed.core.parts import Objective
from entrofed.errors import ConfigError
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.wrapped import WrappedObjective


@dataclass(frozen=True)
class Sharpness(WrappedObjective):
    """Another objective L, of which each step descends the gradient at ``w + rho g / ||g||``, ``g = grad L(w)``.

    The norm is over all parameters. A step takes two passes; BatchNorm's statistics are those of the first, dropout
    leaves out other units in the second. A proximal term or a server rule's correction is added afterwards. The
    reported loss is L at w. With ``rho = 0`` nothing changes, to the last bit.
    """

    name: ClassVar[str] = "sharpness"
    reference: ClassVar[str] = (
        "Qu et al., FedSAM, ICML 2022, after Foret et al., Sharpness-Aware Minimization, ICLR 2021, equation 2"
    )

    rho: float = 0.05
    objective: Objective = CrossEntropy()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if not 0 <= self.rho < float("inf"):
            raise ConfigError(f"objective {self.name!r}: rho = {self.rho} must be finite and not negative")

    @property
    def sharpness(self) -> float:
        """``rho``."""
        return self.rho
