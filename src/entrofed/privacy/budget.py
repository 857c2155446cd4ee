"""A budget of privacy: what a run plans to spend, and where it must end.

The number of rounds that each client took part in lies in the selector's state, and so in every checkpoint: a resumed
run goes on counting. Where noise is real, every round is checkpointed before its model goes anywhere, and a round that
is played again was never seen.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import Method, Selector, Wrapper
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import EntrofedError
from entrofed.privacy.accountant import Accounting
from entrofed.privacy.updates import UNIFORM

TAKEN = "private_rounds"


class BudgetError(EntrofedError):
    """The next round would cost more than there is."""


def sampling_of(method: Method, where: str) -> Any:
    """The sampling that amplification may be claimed for, or None.

    At the server, with weights that do not depend on who else was drawn.
    """
    return method.selector.sampling if where == "server" and method.weigher.name == UNIFORM else None


def planned_steps(method: Method, accounting: Accounting, clients: ClientTable, rounds: int) -> int:
    """The most steps that so many rounds can cost a client: all rounds, or what the selector's rest leaves of them."""
    if accounting.sampling is not None:
        return rounds
    return -(-rounds // method.selector.gap(clients, accounting.clients, accounting.cohort))


@dataclass(frozen=True)
class Metered(Wrapper, Selector):
    """Another selector; counts who takes part, and stops before anybody does so more than ``most`` times."""

    selector: Selector
    most: int | None = None
    """None: counts only."""
    epsilon: float = 0.0
    """The budget, for the message."""

    @property
    def name(self) -> str:  # type: ignore[override]
        """The other selector's."""
        return self.selector.name

    @property
    def wrapped(self) -> Selector:
        """The other selector."""
        return self.selector

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nobody took part."""
        return {**self.selector.init(clients, participants), TAKEN: np.zeros(len(clients.sizes), np.int64)}

    def candidates(
        self, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """The other selector's."""
        return self.selector.candidates(clients, among, size, rng)

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The other selector's cohort, if all of it can pay; who is chosen pays, whether it answers or not."""
        taken = np.zeros(len(clients.sizes), np.int64)
        taken[: len(state[TAKEN])] = state[TAKEN]  # on Flower, clients may join
        selection = self.selector.select(_inner(state), clients, among, size, rng)
        taken[selection.clients] += 1
        if self.most is not None and taken.max(initial=0) > self.most:
            raise BudgetError(
                f"client {int(taken.argmax())} would take part in {self.most + 1} rounds, and epsilon {self.epsilon:g} "
                f"is enough for {self.most}"
            )
        return Selection(selection.clients, {**selection.state, TAKEN: taken}, selection.reasons, selection.limits)

    def observe(self, state: PartState, params: Params, updates: Any) -> PartState:
        """The other selector's; the count stays."""
        return {**self.selector.observe(_inner(state), params, updates), TAKEN: state[TAKEN]}


def _inner(state: PartState) -> PartState:
    return {key: value for key, value in state.items() if key != TAKEN}


def participations(state: PartState, rounds: int, clients: int) -> NDArray[np.int64]:
    """How many rounds each client took part in; among peers, all of them in every round."""
    return state.get(TAKEN, np.full(clients, rounds, np.int64))


def spent_on_updates(
    accounting: Accounting, taken: NDArray[np.int64], rounds: int, settings: Mapping[str, Any]
) -> dict[str, Any]:
    """What a run has cost, in plain numbers; ``settings``: how updates were protected."""
    steps = rounds if accounting.sampling is not None else int(taken.max(initial=0))
    by = {
        "poisson": f"Poisson sampling, rate {accounting.rate:.3g}",
        "fixed": f"sampling of {accounting.cohort} of {accounting.clients} without replacement",
        None: "participation",
    }
    by_client = replace(accounting, sampling=None)
    return {
        "epsilon": accounting.epsilon(steps),
        "delta": accounting.delta,
        "unit": accounting.unit,
        "noise": accounting.noise,
        "steps": steps,
        "by": by[accounting.sampling],
        "library": accounting.library,
        "participations": {
            "most": int(taken.max(initial=0)),
            "mean": float(taken.mean()) if len(taken) else 0.0,
            "by_client": taken.tolist(),
            "epsilon": by_client.epsilon(int(taken.max(initial=0))),
        },
        **settings,
    }
