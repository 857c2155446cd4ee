"""What is the same in every round of a run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.clock import Clock, Devices
from entrofed.core.faults import Faults
from entrofed.core.graphs import closed_neighbourhoods, live_edges
from entrofed.core.params import Layout, Params
from entrofed.core.parts import Method
from entrofed.core.schedule import Schedule
from entrofed.core.seeds import stream
from entrofed.core.types import ClientTable, Predict, State, Training
from entrofed.errors import EntrofedError
from entrofed.info.prediction import Predictions

if TYPE_CHECKING:
    import networkx as nx

NonFinite = Literal["drop", "raise", "propagate"]

Admission = Literal["refuse", "clip", "off"]
"""What is done about an update far larger than any that was seen; see :mod:`entrofed.core.admission`."""


@dataclass(frozen=True)
class Rules:
    """How rounds are played, whatever the method."""

    rounds: int
    cohort: int
    training: Training
    lr_decay: float = 1.0
    """The rate of round t is ``lr * lr_decay^t``, where there is no schedule."""
    schedule: Schedule | None = None
    quorum: int = 1
    nonfinite: NonFinite = "drop"
    admission: Admission = "refuse"
    evaluate_every: int = 1
    evaluate_last: int = 0
    """Rounds at the end that are all evaluated, whatever ``evaluate_every`` says."""
    alignment_every: int = 0
    faults: Faults = field(default_factory=Faults)
    released_sizes: bool = False
    """Take a client's number of examples from what it released (the client table), not from its update."""
    clock: Clock | None = None

    @property
    def chosen(self) -> int:
        """How many clients are chosen in a round; more than the cohort where a clock says so."""
        return self.cohort if self.clock is None else self.clock.chosen(self.cohort)

    def evaluated(self, played: int) -> bool:
        """Whether the model is evaluated once so many rounds are played."""
        return played % self.evaluate_every == 0 or played > self.rounds - self.evaluate_last

    def training_in(self, number: int, rounds: int | None = None) -> Training:
        """How clients train in a round: the ``number``-th, from 0 on, of so many (of all, unless told)."""
        rounds = self.rounds if rounds is None else rounds
        factor = self.lr_decay**number if self.schedule is None else self.schedule.share(number, rounds)
        return replace(self.training, lr=self.training.lr * factor)


@dataclass(frozen=True)
class Network:
    """The peers and their edges. ``up``: the probability that an edge works in a round; ``loss``: that a message is
    lost on the way; ``split``: rounds (first, first after) in which the lower and the upper half of the nodes cannot
    reach each other.
    """

    graph: "nx.Graph"
    up: float = 1.0
    loss: float = 0.0
    split: tuple[int, int] | None = None
    labels: tuple[NDArray[np.int64], ...] = ()
    """The labels that each node has; a node knows its own."""
    training: float = 1.0
    """The share of the nodes that train in a round, and send; all others pool what reaches them."""

    def trained(self, seed: int, number: int, nodes: Sequence[int]) -> list[int]:
        """Who of these trains in this round: max(C K, 1) of them, drawn anew each round (FedEP, algorithm 1)."""
        if self.training == 1:
            return list(nodes)
        many = max(int(Fraction(str(self.training)) * len(nodes)), 1) if nodes else 0
        return sorted(stream(seed, "training nodes", number).choice(nodes, many, replace=False).tolist())

    def senders(self, seed: int, number: int) -> list[NDArray[np.int64]]:
        """Whose model reaches each node in this round; its own always does."""
        graph, nodes = self.graph, len(self.graph)
        if self.up < 1:
            graph = live_edges(graph, self.up, stream(seed, "edges", number))
        if self.split is not None and self.split[0] <= number < self.split[1]:
            half = nodes // 2
            graph = graph.copy()
            graph.remove_edges_from([(a, b) for a, b in self.graph.edges if (a < half) != (b < half)])
        hoods = closed_neighbourhoods(graph)
        if not self.loss:
            return hoods
        rng = stream(seed, "messages", number)
        return [hood[(rng.random(len(hood)) >= self.loss) | (hood == node)] for node, hood in enumerate(hoods)]


def no_validation_set(models: Sequence[Params]) -> Predictions:
    """What stands for :data:`Predict` where there is no server, or no validation set."""
    raise EntrofedError("there is no server with a validation set")


@dataclass(frozen=True, eq=False)
class Job:
    """What is the same in every round of a run; of a run without a server, also what one peer knows of it."""

    method: Method
    rules: Rules
    clients: ClientTable
    participants: NDArray[np.int64]
    layout: Layout
    seed: int
    predict: Predict = no_validation_set
    network: Network | None = None
    """The peers' connections, where there is no server."""
    node: int | None = None
    """The peer whose view this is."""
    own_labels: NDArray[np.int64] | None = None
    """The labels that this peer has."""
    devices: Devices | None = None
    """What clients compute with, where there is a clock."""

    def training_in(self, state: State) -> Training:
        """How clients train in the round after ``state``; peers, each in a state of its own, know no phases."""
        number, rounds = state.round, self.rules.rounds
        if self.network is None:
            number, rounds = self.method.server.phase_round(number, rounds, state.server)
        return self.rules.training_in(number, rounds)

    def at(self, node: int, hood: NDArray[np.int64]) -> "Job":
        """What one peer knows: its closed neighbourhood, numbered from 0."""
        return replace(
            self,
            clients=self.clients.of(hood),
            participants=np.arange(len(hood)),
            network=None,
            node=node,
            own_labels=self.network.labels[node] if self.network is not None and self.network.labels else None,
        )
