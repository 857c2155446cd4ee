"""What server rules that wrap another one have in common."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from entrofed.core.params import Params
from entrofed.core.parts import Build, ClientRule, Method, ServerRule, Wrapper
from entrofed.core.types import ClientTable, Context, PartState, Training, Update, Weights


class WrappedServer(Wrapper, ServerRule):
    """Another server rule, and whatever it needs; a subclass has it as the field ``server``."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    server: ServerRule

    @property
    def wrapped(self) -> ServerRule:
        """The other rule."""
        return self.server

    @property
    def replaces_network(self) -> bool:  # type: ignore[override]
        """As the other rule."""
        return self.server.replaces_network

    @property
    def client(self) -> ClientRule | None:
        """The other rule's."""
        return self.server.client

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """What the other rule remembers."""
        return self.server.init(params, clients, participants)

    def broadcast(self, state: PartState) -> PartState:
        """What the other rule sends."""
        return self.server.broadcast(state)

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The other rule's."""
        return self.server.apply(updates, weights, context, state)

    def seen(self, updates: Sequence[Update]) -> Sequence[Update]:
        """As the other rule."""
        return self.server.seen(updates)

    def beside(self, state: PartState) -> Params | None:
        """The other rule's."""
        return self.server.beside(state)

    def finish(self, params: Params, context: Context) -> Params | None:
        """The other rule's."""
        return self.server.finish(params, context)

    def network(self, build: Build) -> Build:
        """The other rule's."""
        return self.server.network(build)

    def phase_round(self, number: int, rounds: int, state: PartState) -> tuple[int, int]:
        """The other rule's."""
        return self.server.phase_round(number, rounds, state)

    def check(self, method: Method, training: Training) -> None:
        """The other rule decides."""
        self.server.check(method, training)
