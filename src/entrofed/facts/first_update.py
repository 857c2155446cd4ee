"""An update of everybody before the first round."""

from dataclasses import dataclass
from typing import Any, ClassVar

from numpy.typing import NDArray

from entrofed.core.parts import Fact, ModelRuntime, When
from entrofed.core.types import ClientData
from entrofed.errors import EntrofedError


@dataclass(frozen=True)
class FirstUpdate(Fact):
    """Every client trains once, as in a round, and sends its model; nothing of it is aggregated.

    The round itself asks for it, by a training task, and admits what comes as any update.
    """

    name: ClassVar[str] = "first_update"
    when: ClassVar[When] = "once"
    reveals: ClassVar[str] = "an update of every client before the first round"

    def measure(self, data: ClientData, model: ModelRuntime) -> NDArray[Any]:
        """It takes a training task."""
        raise EntrofedError("a first update is trained, not measured")

    def problem(self, value: Any, classes: int) -> str | None:
        """Admission looks at updates."""
        return None
