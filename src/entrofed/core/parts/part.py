"""What all parts have in common."""

from abc import abstractmethod
from typing import ClassVar, Literal, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts.fact import Fact

VALIDATION, ALL_CLIENTS = "validation", "all_clients"
"""What a part may need of the server: a validation set; to see all clients, as no peer does."""

Sees = Literal["sum", "scalars", "models"]
"""What a part must see of what clients send in a round: sums over the cohort, weighted by what is known before; also
some numbers of each client; each client's model. Under secure aggregation a server sees sums and nothing else."""


class Part(Protocol):
    """A frozen dataclass of hyperparameters with a name and, where one exists, a reference."""

    name: ClassVar[str]
    reference: ClassVar[str] = ""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What clients must tell for it, besides trained models and their numbers of examples."""
        return ()

    @property
    def needs(self) -> frozenset[str]:
        """What it needs of the server: :data:`VALIDATION`, :data:`ALL_CLIENTS`."""
        return frozenset()

    @property
    def sees(self) -> Sees:
        """What it must see of a round's updates; everything, unless the part says that less is enough."""
        return "models"

    @property
    def by_rounds(self) -> bool:
        """Whether what it does depends on how many rounds are planned; such a run cannot be resumed with more."""
        return False

    @property
    def pools(self) -> bool:
        """Whether it needs the label counts of all clients together, and nobody's alone: they come as a secure sum."""
        return False

    def pooled(self, counts: NDArray[np.float64]) -> Self:
        """The part, once it knows them."""
        return self


class Wrapper(Part, Protocol):
    """A part around another one of its kind: it asks for whatever that asks for."""

    @property
    @abstractmethod
    def wrapped(self) -> Part:
        """The other part."""

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The other part's."""
        return self.wrapped.facts

    @property
    def needs(self) -> frozenset[str]:
        """The other part's."""
        return self.wrapped.needs

    @property
    def sees(self) -> Sees:
        """The other part's."""
        return self.wrapped.sees

    @property
    def by_rounds(self) -> bool:
        """The other part's."""
        return self.wrapped.by_rounds


class Named(Protocol):
    """Whatever is registered under a name: parts, facts."""

    name: ClassVar[str]


N = TypeVar("N", bound=Named)


def by_name(*parts: type[N]) -> dict[str, type[N]]:
    """The classes by their names, in this order."""
    return {part.name: part for part in parts}
