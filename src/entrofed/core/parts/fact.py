"""What a client tells besides its trained model."""

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.core.types import ClientData

When = Literal["once", "before_round", "with_update", "at_end"]
"""When a fact leaves a client; see :class:`Fact`."""


class ModelRuntime(Protocol):
    """The model that a client works with, for facts and objectives."""

    layout: Layout
    module: torch.nn.Module
    device: torch.device
    """Where it computes; what an objective makes for its loss must lie there."""

    def load(self, params: Params) -> None:
        """Fill the model with a state."""
        ...

    def frozen(self, role: str, params: Params) -> torch.nn.Module:
        """Another model with this state, in evaluation mode, to compare with; one per role, reused."""
        ...

    def predictions(self, data: ClientData) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Logits and labels, batch by batch and on the CPU, in evaluation mode and without gradients."""
        ...


class Fact(Protocol):
    """One thing that a client tells besides its trained model: what it is, when it leaves, what it reveals.

    ``when``: ``once``, before the first round; ``before_round``, of the candidates of a round, measured on the model
    that the round starts from; ``with_update``, along with the trained model, and measured on it; ``at_end``, of
    everybody, after the last round, measured on the last model.
    """

    name: ClassVar[str]
    when: ClassVar[When]
    reveals: ClassVar[str]
    """In words, as a report says it."""

    def measure(self, data: ClientData, model: ModelRuntime) -> NDArray[Any]:
        """What the client tells."""
        ...

    def problem(self, value: Any, classes: int) -> str | None:
        """What is wrong with what a client told, or None."""
        ...


class LabelFact(Fact):
    """A fact about labels alone: it leaves once, and is made of the label counts that the client lets out."""

    when: ClassVar[When] = "once"

    @abstractmethod
    def of_counts(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """What is made of the label counts."""

    def of_all(self, rows: Sequence[NDArray[np.float64]]) -> list[NDArray[np.float64]]:
        """The same of each row; a part may be quicker together."""
        return [self.of_counts(row) for row in rows]

    def measure(self, data: ClientData, model: ModelRuntime | None) -> NDArray[np.float64]:
        """From the counts that were released, noised as they may be."""
        counts = data.label_counts.astype(np.float64) if data.released is None else data.released
        return self.of_counts(counts)
