"""The nouns of a round, and the four kinds of parts that a method is made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.errors import DataError
from entrofed.info.prediction import Predictions

if TYPE_CHECKING:
    from entrofed.client.runtime import Site
    from entrofed.client.train import WorkOrder
    from entrofed.experiment.client_state import Memories

PartState = Mapping[str, NDArray[Any]]
"""What a part remembers from round to round: named arrays, so that any state can be checkpointed."""

Weights = NDArray[np.float64]

MOST = 2**53
"""A count above this is not exact as a float, and not believed."""


@dataclass(frozen=True)
class Update:
    """What a client sends back after local training."""

    client: int
    params: Params
    num_examples: int
    num_steps: int
    train_loss: float
    train_loss_last_epoch: float
    seconds: float = 0.0
    terms: Mapping[str, float] = field(default_factory=dict)
    """The training loss by its terms, where the objective has several."""
    memory: PartState = field(default_factory=dict)
    """Stays with the client until it takes part again."""
    facts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What else the method asked for (``needs``), or its server rule sends."""


@dataclass(frozen=True)
class Failure:
    """An order that came to nothing, and why."""

    reason: str


@dataclass(frozen=True)
class State:
    """Everything a run needs to go on from the end of a round; what a checkpoint holds."""

    round: int
    params: Params
    selector: PartState
    server: PartState
    memory: "dict[int, PartState] | Memories"
    """What each client remembers, by client number."""
    skipped: int = 0
    """Rounds in a row that ended below the quorum."""


@dataclass(frozen=True)
class Ledger:
    """What the server knows of every client, by client number."""

    sizes: NDArray[np.int64]
    classes: int = 0
    partition: str = ""
    """How the data was dealt out; a paper's defaults may depend on it."""
    trainable: int = 0
    """How many values at the front of a model are trained; the rest are buffers."""
    label_counts: NDArray[np.float64] | None = None
    """``[client, class]``, as the clients released them once: true, or noised and clipped at zero."""
    summaries: tuple[NDArray[np.float64], ...] | None = None
    """What each client made of its label counts and released once (:meth:`Weigher.summary`)."""
    losses: NDArray[np.float64] | None = None
    """Mean loss of the current model on the client's data; NaN for clients that were not asked."""

    def __post_init__(self) -> None:
        counts = self.label_counts
        if counts is None:
            return
        if counts.ndim != 2 or len(counts) != len(self.sizes):
            raise DataError(
                f"label counts have shape {counts.shape}; they need one row for each of {len(self.sizes)} clients"
            )
        if not ((counts >= 0) & (counts <= MOST)).all():
            client, label = np.argwhere(~((counts >= 0) & (counts <= MOST)))[0]
            raise DataError(
                f"label counts: client {client} has {counts[client, label]} of class {label}; "
                f"a count is a number between 0 and {MOST}"
            )


@dataclass(frozen=True)
class Selection:
    """The cohort of a round, in the order it was picked, and why each client was."""

    clients: list[int]
    state: PartState
    reasons: list[dict[str, Any]] = field(default_factory=list)
    """What each pick rested on; one entry a pick, or none at all."""
    limits: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    """Examples of each class that a client is to train on, where it is not to use all."""


@dataclass(frozen=True)
class Weighing:
    """How much each update of a cohort counts, and what each weight came from."""

    weights: Weights
    """One an update, none negative, summing to one."""
    origins: list[dict[str, Any]] = field(default_factory=list)
    """The divergence, entropy or loss behind each weight; one entry an update, or none at all."""


@dataclass(frozen=True)
class Context:
    """What the server knows when it weighs a cohort."""

    params: Params
    """The model that the cohort started from."""
    round: int
    ledger: Ledger
    layout: Layout
    seed: int
    predict: Callable[[Sequence[Params]], Predictions]
    """What models say about the server's validation set."""


LABEL_COUNTS, LABEL_SUMMARY, LOSS = "label_counts", "label_summary", "loss"
FIRST_UPDATE, MEAN_PREDICTION = "first_update", "mean_prediction"
VALIDATION, ALL_CLIENTS = "validation", "all_clients"
"""What a method may ask for besides trained models and their numbers of examples (``needs``).

Of the clients: their label counts, once; a summary of the label counts, once; the mean loss of the current model, each
round, of the candidates; an update of everybody before the first round; the mean softmax output over the own data
after training. Of the server: a validation set; to see all clients, as no peer does."""


class Part(Protocol):
    """A frozen dataclass of hyperparameters with a name and, where one exists, a reference."""

    name: ClassVar[str]
    reference: ClassVar[str] = ""

    @property
    def needs(self) -> frozenset[str]:
        """What this part works with, besides trained models and their numbers of examples."""
        return frozenset()


class Selector(Part, Protocol):
    """Chooses the cohort of a round."""

    def init(self, ledger: Ledger, participants: NDArray[np.int64]) -> PartState:
        """What is remembered before the first round."""
        return {}

    def candidates(
        self, ledger: Ledger, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Whom to ask for their loss; everybody who is there, unless the part says otherwise."""
        return among

    def select(
        self, state: PartState, ledger: Ledger, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """Different clients out of ``among``; as a rule ``size`` of them."""
        ...

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """What is remembered once the cohort has answered; ``params`` is the model it started from."""
        return state


@runtime_checkable
class Weigher(Part, Protocol):
    """Says how much each update counts. Sees the whole cohort at once."""

    def summary(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """What a client makes of its label counts, and sends in their place, if ``LABEL_SUMMARY`` is needed."""
        return counts

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """A weight for each update."""
        ...


@dataclass(frozen=True)
class Shift:
    """A vector, for all trainable parameters in a row, that is added to every gradient of a client.

    ``outside``: not to the gradient, but, times the learning rate, to what is subtracted from the parameters; so
    neither momentum nor weight decay see it.
    """

    values: NDArray[np.float32]
    outside: bool = False


class ServerRule(Part, Protocol):
    """Makes the next model from the weighted updates, and brings along what clients must do for it."""

    sends: ClassVar[str] = ""
    """What clients send for it along with the model, in words."""

    def init(self, params: Params, ledger: Ledger, participants: NDArray[np.int64]) -> PartState:
        """What is remembered before the first round."""
        return {}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The next model and what to remember."""
        ...

    def broadcast(self, state: PartState) -> PartState:
        """What goes to the clients besides the model."""
        return {}

    def wrap(self, build: Callable[[], torch.nn.Module]) -> Callable[[], torch.nn.Module]:
        """The network that is trained, from how the experiment's is built."""
        return build

    def check(self, method: "Method", training: "Training") -> None:
        """Raise a ConfigError if the rule cannot go with the other parts, or with how clients train."""
        return

    def shift(self, order: "WorkOrder") -> "Shift | None":
        """At a client: a vector that steers every step."""
        return None

    def steps(self, order: "WorkOrder") -> int | None:
        """At a client: the most steps it makes, if not all of its epochs."""
        return None

    def report(self, order: "WorkOrder", update: Update) -> Update:
        """At a client: the update with what else the server must know of it, and what the client remembers."""
        return update


Given = Mapping[str, torch.Tensor]
"""What a loss depends on besides the model and the batch."""


@runtime_checkable
class Objective(Part, Protocol):
    """What a client minimizes on a batch."""

    @property
    def terms(self) -> tuple[str, ...]:
        """Names of the terms of the loss, if it returns several to be reported apart."""
        return ()

    @property
    def pull(self) -> float:
        """How strongly parameters are drawn to where they started: this times the distance is added to gradients."""
        return 0.0

    def check(self, model: torch.nn.Module) -> None:
        """Raise a ConfigError if the objective cannot train such a model."""
        return

    def begin(self, site: "Site", order: "WorkOrder") -> Callable[[torch.Tensor], Given]:
        """Called once for each client and round; what it returns is called with the inputs of each batch."""
        return lambda x: {}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean loss of the batch, a scalar to differentiate; or its ``terms``, whose sum is differentiated."""
        ...

    def remember(self, order: "WorkOrder", update: Update) -> PartState:
        """What the client keeps for its next participation."""
        return {}


@dataclass(frozen=True)
class Method:
    """A recipe: which parts together make an algorithm."""

    selector: Selector
    weigher: Weigher
    objective: Objective
    server: ServerRule

    @property
    def needs(self) -> frozenset[str]:
        """What the parts work with, besides trained models and their numbers of examples."""
        return self.selector.needs | self.weigher.needs | self.objective.needs | self.server.needs


@dataclass(frozen=True)
class Training:
    """How a client trains in one round ; ``lr`` is the rate of this round."""

    epochs: int
    batch_size: int
    optimizer: str
    lr: float
    momentum: float
    weight_decay: float
    persist_optimizer: bool
    augment: tuple[str, ...]
