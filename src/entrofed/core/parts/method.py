"""The server rule, and the four parts that make a method."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, Protocol, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts.fact import Fact
from entrofed.core.parts.part import Part, Sees
from entrofed.core.parts.selector import Selector
from entrofed.core.parts.training import ClientRule, Objective
from entrofed.core.parts.weigher import Weigher
from entrofed.core.types import ClientTable, Context, PartState, Training, Update, Weights
from entrofed.errors import ConfigError

Build = Callable[[], torch.nn.Module]


@runtime_checkable
class ServerRule(Part, Protocol):
    """Makes the next model from the weighted updates."""

    replaces_network: ClassVar[bool] = False
    """Whether :meth:`network` is another than the experiment's."""

    @property
    def client(self) -> ClientRule | None:
        """What clients do for it; None if they train as for any other."""
        return None

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """What is remembered before the first round."""
        return {}

    def broadcast(self, state: PartState) -> PartState:
        """What goes to the clients besides the model."""
        return {}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The next model and what to remember."""
        ...

    def seen(self, updates: Sequence[Update]) -> Sequence[Update]:
        """What the parts of the server get to see of a round's updates; under secure aggregation, not their models."""
        return updates

    def beside(self, state: PartState) -> Params | None:
        """A model to evaluate beside the global one, if the rule keeps any."""
        return None

    def finish(self, params: Params, context: Context) -> Params | None:
        """A model to evaluate beside the last one, ``params``, of what clients told ``at_end``."""
        return None

    def network(self, build: Build) -> Build:
        """The network that is trained, from how the experiment's is built."""
        return build

    def phase_round(self, number: int, rounds: int, state: PartState) -> tuple[int, int]:
        """Which round, of how many, the ``number``-th of ``rounds`` is for the schedule of the learning rate.

        A rule that trains in phases says so here: the schedule starts anew in each.
        """
        return number, rounds

    def check(self, method: "Method", training: Training) -> None:
        """Raise a ConfigError if the rule cannot go with the other parts, or with how clients train."""
        return


@dataclass(frozen=True)
class Method:
    """A recipe: which parts together make an algorithm."""

    selector: Selector
    weigher: Weigher
    objective: Objective
    server: ServerRule
    name: str = field(default="", compare=False)
    """Of the recipe it comes from."""

    @property
    def parts(self) -> tuple[Part, ...]:
        """All four."""
        return self.selector, self.weigher, self.objective, self.server

    @property
    def needs(self) -> frozenset[str]:
        """What the parts need of the server."""
        return frozenset().union(*(part.needs for part in self.parts))

    @property
    def sees(self) -> Sees:
        """The most that any part must see of a round's updates; with ``sum``, it runs under secure aggregation."""
        return max((part.sees for part in self.parts), key=get_args(Sees).index)

    @property
    def by_rounds(self) -> bool:
        """Whether what any part does depends on how many rounds are planned."""
        return any(part.by_rounds for part in self.parts)

    @cached_property
    def facts(self) -> tuple[Fact, ...]:
        """What clients must tell, each fact once."""
        found: dict[str, Fact] = {}
        for part in self.parts:
            for fact in part.facts:
                if found.setdefault(fact.name, fact) != fact:
                    ways = f"{found[fact.name]} and {fact}"
                    raise ConfigError(f"two parts of the method ask for {fact.name!r} in different ways: {ways}")
        return tuple(found.values())

    @property
    def pools(self) -> bool:
        """Whether a part needs the label counts of all clients together."""
        return any(part.pools for part in self.parts)

    def pooled(self, counts: NDArray[np.float64]) -> "Method":
        """The method, once its parts know them."""
        selector, weigher = self.selector.pooled(counts), self.weigher.pooled(counts)
        return Method(selector, weigher, self.objective.pooled(counts), self.server.pooled(counts), self.name)

    def facts_told(self, when: str) -> tuple[Fact, ...]:
        """The facts that leave at that time."""
        return tuple(fact for fact in self.facts if fact.when == when)

    def has_fact(self, name: str) -> bool:
        """Whether clients must tell it."""
        return any(fact.name == name for fact in self.facts)
