"""The kinds of parts that a method is made of: selector, weigher, objective, server rule; and facts that clients tell.

A part is a frozen dataclass of hyperparameters with a ``name``; state passes in and out. The task of training stands
here, too, because parts look at it; all other tasks are in :mod:`entrofed.core.tasks`.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar, get_args, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Floats, Layout, Params
from entrofed.core.types import (
    ClientData,
    ClientTable,
    Context,
    PartState,
    Selection,
    Training,
    Update,
    Weighing,
    Weights,
)
from entrofed.errors import ConfigError, EntrofedError

VALIDATION, ALL_CLIENTS = "validation", "all_clients"
"""What a part may need of the server: a validation set; to see all clients, as no peer does."""

Sees = Literal["sum", "scalars", "models"]
"""What a part must see of what clients send in a round: sums over the cohort, weighted by what is known before; also
some numbers of each client; each client's model. Under secure aggregation a server sees sums and nothing else."""

When = Literal["once", "before_round", "with_update", "at_end"]
"""When a fact leaves a client; see :class:`Fact`."""

Given = Mapping[str, torch.Tensor]
"""What a loss depends on besides the model and the batch."""

Build = Callable[[], torch.nn.Module]


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

    def measure(self, data: ClientData, model: ModelRuntime | None) -> NDArray[np.float64]:
        """From the counts that were released, noised as they may be."""
        counts = data.label_counts.astype(np.float64) if data.released is None else data.released
        return self.of_counts(counts)


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


@runtime_checkable
class Selector(Part, Protocol):
    """Chooses the cohort of a round."""

    sampling: ClassVar[Literal["poisson", "fixed"] | None] = None
    """How a cohort is drawn, if chance alone decides: everybody by a coin of its own, or so many without replacement.
    Only then does sampling make noise go further; whoever chooses by data, or by what clients did, says None."""

    def gap(self, clients: ClientTable, participants: int, size: int) -> int:
        """The fewest rounds from one participation of a client to its next."""
        return 1

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """What is remembered before the first round."""
        return {}

    def candidates(
        self, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Whom to ask for facts before the round; everybody who is there, unless the part says otherwise."""
        return among

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """Different clients out of ``among``; as a rule ``size`` of them."""
        ...

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """What is remembered once the cohort has answered; ``params`` is the model it started from."""
        return state


@runtime_checkable
class Weigher(Part, Protocol):
    """Says how much each update counts. Sees the whole cohort at once."""

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """A weight for each update."""
        ...


@dataclass(frozen=True)
class Correction:
    """A vector, for all trainable parameters in a row, that is added to every gradient of a client.

    ``outside``: not to the gradient, but, times the learning rate, to what is subtracted from the parameters; so
    neither momentum nor weight decay see it.
    """

    values: Floats
    outside: bool = False


class ClientRule(Part, Protocol):
    """What a server rule asks of clients while they train."""

    sends: ClassVar[str] = ""
    """What clients send for it along with the model, in words."""

    @property
    def sees(self) -> Sees:
        """Nothing, at the client; how much the server must see of what is sent is the server rule's to say."""
        return "sum"

    @property
    def pull(self) -> float:
        """How strongly parameters are drawn to where they started, besides the objective's pull."""
        return 0.0

    def correction(self, task: "TrainTask") -> Correction | None:
        """A vector that steers every step."""
        return None

    def max_steps(self, task: "TrainTask") -> int | None:
        """The most steps it makes, if not all of its epochs."""
        return None

    def report(self, task: "TrainTask", update: Update) -> Update:
        """The update with what else the server must know of it, and what the client keeps."""
        return update

    def divisor(self, update: Update) -> float:
        """Under secure aggregation: what the client divides the step of its parameters by."""
        return 1.0

    def sums(self, layout: Layout) -> Mapping[str, int]:
        """Under secure aggregation: what clients add up besides their weighted steps, and how many numbers it has."""
        return {}

    def addend(self, update: Update, start: Params, weight: float, layout: Layout) -> PartState:
        """What one client adds to each of these sums; ``start``: the model that it trained from."""
        return {}

    def summed(self, sums: PartState) -> PartState:
        """The sums as facts of the one update that the server rule gets in place of all."""
        return sums


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


@runtime_checkable
class Objective(Part, Protocol):
    """What a client minimizes on a batch."""

    @property
    def sees(self) -> Sees:
        """Nothing: it works at the client."""
        return "sum"

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms of the loss, if it returns several to be reported apart."""
        return ()

    @property
    def pull(self) -> float:
        """How strongly parameters are drawn to where they started: this times the distance is added to gradients."""
        return 0.0

    @property
    def sharpness(self) -> float:
        """How far uphill the gradient of each step is taken; 0: where the parameters are."""
        return 0.0

    @property
    def plain(self) -> bool:
        """Whether any client that trains a classifier minimizes just this."""
        return False

    def check(self, model: torch.nn.Module) -> None:
        """Raise a ConfigError if the objective cannot train such a model."""
        return

    def check_classes(self, classes: int) -> None:
        """Raise a ConfigError if the objective cannot tell so many classes apart."""
        return

    def broadcast(self, clients: ClientTable, cohort: Sequence[int]) -> PartState:
        """What goes to the clients of a round's cohort besides the model."""
        return {}

    def begin(self, task: "TrainTask", data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """Called once for each client and round; what it returns is called with the inputs of each batch."""
        return lambda x: {}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean loss of the batch, a scalar to differentiate; or its ``terms``, whose sum is differentiated."""
        ...

    def stacked_loss(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean losses ``[clients]`` of the batches of several clients, for an objective of logits alone.

        ``logits [clients, classes, batch]``, labels ``y [clients, batch]``, -100 where a batch is shorter; what is
        ``given``, the same for every batch, is ``[clients, ..., 1]``. An objective without it is stacked by vmap.
        """
        raise EntrofedError(f"objective {self.name!r} is no function of logits alone")

    def remember(self, task: "TrainTask", update: Update) -> PartState:
        """What the client keeps for its next participation."""
        return {}


class Task(Protocol):
    """A pure function of its fields and of the data and model at hand where it is done."""

    arrays: ClassVar[tuple[str, ...]]
    """The fields that hold arrays or models, alone, in mappings or in tuples."""
    near: ClassVar[bool] = False
    """It moves more than it computes: it is done where its arrays are."""

    @property
    def cost(self) -> int:
        """Samples to pass over: a backend starts with the longest."""
        ...


@dataclass(frozen=True)
class TrainTask(Task):
    """Train on one client's data, starting from ``params``."""

    arrays: ClassVar[tuple[str, ...]] = ("params", "broadcast", "client_state", "limits")

    client: int
    round: int
    seed: int
    params: Params
    objective: Objective
    training: Training
    cost: int = 0
    client_state: PartState = field(default_factory=dict)
    purpose: str = "train"
    """Names the stream of the client's draws."""
    facts: tuple[Fact, ...] = ()
    """What to tell along with the model."""
    limits: NDArray[np.int64] | None = None
    """Examples of each class to train on, if not all; which ones is drawn once per run."""
    rule: ClientRule | None = None
    broadcast: PartState = field(default_factory=dict)
    """What the server rule sends along with the model."""
    size: int | None = None
    """The number of examples that the client has released, where the exact one must not leave it: it says no other, and
    of its steps how many so many examples would take."""


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


class Named(Protocol):
    """Whatever is registered under a name: parts, facts."""

    name: ClassVar[str]


N = TypeVar("N", bound=Named)


def by_name(*parts: type[N]) -> dict[str, type[N]]:
    """The classes by their names, in this order."""
    return {part.name: part for part in parts}
