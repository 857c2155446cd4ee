"""Another selector with label counts that are estimated from updates, so that clients need not release any."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from entrofed.core.params import Params
from entrofed.core.parts import Fact, LabelFact, Sees, Selector, Wrapper
from entrofed.core.types import LABEL_COUNTS, ClientTable, PartState, Selection, Update
from entrofed.errors import ConfigError
from entrofed.info.label_estimates import estimated_counts
from entrofed.selectors.bias_table import NOT_ASKED, BiasTable, row_key
from entrofed.selectors.fedentopt import LabelEntropyGreedy

INNER = "selector/"


@dataclass(frozen=True)
class EstimatedCounts(Wrapper, BiasTable):
    """A selector by label counts that gets estimates instead; only its update leaves a client.

    Each update adds the positive part of its move of the output layer's bias to what is known of its client
    (:mod:`entrofed.info.label_estimates`); shares of the sum, times the number of examples, are its counts. Moves of
    early rounds are larger and count more: later, the model knows what to expect.

    Whoever was never asked to train is chosen first, in random order; the other selector fills what is left of the
    cohort. With K clients it begins to choose alone after ``K / cohort`` rounds. Who was asked and did not answer is
    taken for the mean of the others. The estimates are no secret of the clients: the server makes them of what it gets
    anyway, and who wants to hide labels needs secure aggregation or noise on updates.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    name: ClassVar[str] = "estimated_counts"
    reference: ClassVar[str] = "our own, on Chen and Vikalo, HiCS-FL, NeurIPS 2024, equation 6"
    sees: ClassVar[Sees] = "models"

    selector: Selector = LabelEntropyGreedy()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if not any(fact.name == LABEL_COUNTS for fact in self.selector.facts):
            raise ConfigError(
                f"selector {self.name!r}: {self.selector.name!r} works with no label counts that could be estimated; "
                "give one that does, such as 'fedentopt'"
            )

    @property
    def wrapped(self) -> Selector:
        """The other selector."""
        return self.selector

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The other selector's, without those about labels."""
        return tuple(fact for fact in self.selector.facts if not isinstance(fact, LabelFact))

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nothing is known of anybody."""
        return {**super().init(clients, participants), **_inner(self.selector.init(clients, participants))}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """Those never asked, then whom the other selector chooses by the estimates."""
        new = self.new(state, among, size, rng)
        chosen = Selection([], _outer(state))
        if len(new) < min(size, len(among)):
            table = replace(clients, facts={**clients.facts, LABEL_COUNTS: self.counts(state, clients)})
            left = np.setdiff1d(among, new)
            chosen = self.selector.select(chosen.state, table, left, size - len(new), rng)
        reasons: list[dict[str, Any]] = [{"client": client, "how": NOT_ASKED} for client in new]
        reasons += chosen.reasons or [{"client": client} for client in chosen.clients]
        asked = np.union1d(state["asked"], np.array(new, np.int64))
        after = {**state, **_inner(chosen.state), "asked": asked}
        return replace(chosen, clients=[*new, *chosen.clients], state=after, reasons=reasons)

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """Add what the biases of those who answered rose by; the last entry of a row is the number of examples."""
        moves, rows = self.moves(state, params, updates), {}
        for update in updates:
            if update.client in moves:
                before = state.get(row_key(update.client), np.zeros(len(moves[update.client]) + 1))
                rises = before[:-1] + np.maximum(moves[update.client], 0)
                rows[row_key(update.client)] = np.append(rises, update.num_examples)
        return {**state, **_inner(self.selector.observe(_outer(state), params, updates)), **rows}

    def counts(self, state: PartState, clients: ClientTable) -> NDArray[np.float64]:
        """The estimates ``[client, class]``."""
        unknown = [np.append(np.zeros(clients.classes), size) for size in clients.sizes]
        rows = np.array([state.get(row_key(client), row) for client, row in enumerate(unknown)], np.float64)
        return estimated_counts(rows[:, :-1], rows[:, -1])


def _inner(state: PartState) -> dict[str, Any]:
    return {INNER + name: array for name, array in state.items()}


def _outer(state: PartState) -> PartState:
    return {name.removeprefix(INNER): array for name, array in state.items() if name.startswith(INNER)}
