"""How a client trains: what it minimizes, what the server rule asks of it, and the task that says so.

The task stands here because the two look at it; all other tasks are in :mod:`entrofed.core.tasks`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Floats, Layout, Params
from entrofed.core.parts.fact import Fact, ModelRuntime
from entrofed.core.parts.part import Part, Sees
from entrofed.core.types import ClientData, ClientTable, PartState, Training, Update
from entrofed.errors import EntrofedError

Given = Mapping[str, torch.Tensor]
"""What a loss depends on besides the model and the batch."""


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

    def stacked_slopes(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> tuple[torch.Tensor, torch.Tensor]:
        """The same losses, and the gradient of their sum by the logits; by autograd, unless there is a formula."""
        leaf = logits.detach().requires_grad_()
        losses = self.stacked_loss(leaf, y, given)
        (slopes,) = torch.autograd.grad(losses.sum(), leaf)
        return losses.detach(), slopes

    def remember(self, task: "TrainTask", update: Update) -> PartState:
        """What the client keeps for its next participation."""
        return {}


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
