"""The nouns of a round: what clients hold and send, what the server knows, what a run remembers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.core.seeds import stream
from entrofed.errors import DataError, EntrofedError
from entrofed.info.prediction import Predictions

PartState = Mapping[str, NDArray[Any]]
"""What a part remembers from round to round: named arrays, so that any state can be checkpointed."""

Weights = NDArray[np.float64]

FactTable = NDArray[Any] | Sequence[NDArray[Any] | None]
"""What clients told, by client number; None, or NaN, where a client was not asked or did not tell."""

Predict = Callable[[Sequence[Params]], Predictions]
"""What models say about the server's validation set."""

MAX_COUNT = 2**53
"""A count above this is not exact as a float, and not believed."""

LABEL_COUNTS = "label_counts"


@dataclass(frozen=True)
class ClientData:
    """All that a client sees: its own samples, before they are standardized, and its labels ``0..classes-1``.

    Images are ``float [n, height, width, channels]`` in 0..1, tables ``float [n, features]``, text is tokens, ``long
    [n, length]``. Samples lie on the device that the model computes on, labels on the CPU.
    """

    x: torch.Tensor
    y: torch.Tensor
    classes: int
    released: NDArray[np.float64] | None = None
    """The label counts that the client lets out, where they are not the true ones: noised, or made up."""

    def __len__(self) -> int:
        return self.y.shape[0]

    @property
    def label_counts(self) -> NDArray[np.int64]:
        """How many samples of each class the client has."""
        return np.bincount(self.y.numpy(), minlength=self.classes)

    def at_most(self, limits: NDArray[np.int64], rng: np.random.Generator) -> "ClientData":
        """At most so many samples of each class, the first of each in an order drawn by ``rng``."""
        order, labels = rng.permutation(len(self.y)), self.y.numpy()
        labels = labels[order]
        kept = np.sort(np.concatenate([order[labels == label][:limit] for label, limit in enumerate(limits)]))
        rows = torch.from_numpy(kept)
        return ClientData(self.x.index_select(0, rows.to(self.x.device)), self.y.index_select(0, rows), self.classes)


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
    client_state: PartState = field(default_factory=dict)
    """Stays with the client until it takes part again."""
    facts: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """What else the method asked for, or its client rule sends."""


@dataclass(frozen=True)
class Failure:
    """A task that came to nothing, and why."""

    reason: str
    error: EntrofedError | None = None
    """The exception, if it was one of ours."""
    where: str = field(default="", compare=False)
    """The line that raised, if it was any exception."""


@dataclass(frozen=True)
class State:
    """Everything a run needs to go on from the end of a round; what a checkpoint holds."""

    round: int
    params: Params
    selector: PartState
    server: PartState
    client_states: Any = field(default_factory=dict)
    """What each client keeps, by client number: a mapping that ``|`` extends."""
    skipped: int = 0
    """Rounds in a row that came to nothing."""
    admission: PartState = field(default_factory=dict)
    """How large the updates of recent rounds were; see :mod:`entrofed.core.admission`."""


@dataclass(frozen=True)
class ClientTable:
    """What the server (or a peer, about its neighbourhood) knows about the clients, by client number."""

    sizes: NDArray[np.int64]
    """Numbers of examples; those that were released, where exact sizes do not leave the clients."""
    classes: int = 0
    partition: str = ""
    """How the data was dealt out; a paper's defaults may depend on it."""
    trainable: int = 0
    """How many values at the front of a model are trained; the rest are buffers."""
    facts: Mapping[str, FactTable] = field(default_factory=dict)
    """What clients told, by the name of the fact."""
    output_bias: int | None = None
    """Where the output layer's bias begins in a model's values, if it has one."""
    rounds: int = 0
    """How many rounds are planned; 0 where nobody knows."""
    seconds: NDArray[np.float64] | None = None
    """How long a round takes each of them, where there is a clock; a server sees it from when answers come."""
    sized: bool = False
    """Whether ``sizes`` is what clients have, and no claim may be above it."""

    def __post_init__(self) -> None:
        counts = self.facts.get(LABEL_COUNTS)
        if counts is None:
            return
        if not isinstance(counts, np.ndarray) or counts.ndim != 2 or len(counts) != len(self.sizes):
            raise DataError(
                f"label counts have shape {np.asarray(counts).shape}; "
                f"they need one row for each of {len(self.sizes)} clients"
            )
        if not ((counts >= 0) & (counts <= MAX_COUNT)).all():
            client, label = np.argwhere(~((counts >= 0) & (counts <= MAX_COUNT)))[0]
            raise DataError(
                f"label counts: client {client} has {counts[client, label]} of class {label}; "
                f"a count is a number between 0 and {MAX_COUNT}"
            )

    def told(self, fact: str, part: str) -> Any:
        """The values of a fact that clients sent; a DataError if nobody was asked. ``part``: the part that asks."""
        if fact not in self.facts:
            raise DataError(f"{part} needs the clients' {fact.replace('_', ' ')}, and none were released")
        return self.facts[fact]

    def of(self, clients: NDArray[np.int64]) -> "ClientTable":
        """The same for some clients, numbered anew from 0."""
        facts: dict[str, FactTable] = {
            name: table[clients] if isinstance(table, np.ndarray) else [table[k] for k in clients]
            for name, table in self.facts.items()
        }
        seconds = None if self.seconds is None else self.seconds[clients]
        return replace(self, sizes=self.sizes[clients], facts=facts, seconds=seconds)


@dataclass(frozen=True)
class Selection:
    """The cohort of a round, in the order it was picked, and why each client was."""

    clients: list[int]
    state: PartState
    reasons: list[dict[str, Any]] = field(default_factory=list)
    """What each pick rested on; one entry per pick, or none at all."""
    limits: Mapping[int, NDArray[np.int64]] = field(default_factory=dict)
    """Examples of each class that a client is to train on, where it is not to use all."""
    draws: Mapping[int, int] = field(default_factory=dict)
    """How often a client was drawn, where a selector can draw one more than once."""


@dataclass(frozen=True)
class Weighing:
    """How much each update of a cohort counts, and what each weight came from."""

    weights: Weights
    """One per update, none negative, summing to one."""
    origins: list[dict[str, Any]] = field(default_factory=list)
    """The divergence, entropy or loss behind each weight; one entry per update, or none at all."""


@dataclass(frozen=True)
class Context:
    """What the server, or the peer that pools, knows when it weighs a cohort."""

    params: Params
    """The model that the cohort started from."""
    round: int
    clients: ClientTable
    layout: Layout
    seed: int
    predict: Predict
    node: int | None = None
    """The peer that pools; None for a server."""
    own_labels: NDArray[np.int64] | None = None
    """The labels that the peer itself has; None for a server, which has none."""
    draws: Mapping[int, int] = field(default_factory=dict)
    """How often the selector drew each client, where it can draw one more than once."""

    def stream(self, purpose: str) -> np.random.Generator:
        """The named stream of this round, for a peer of this peer."""
        return stream(self.seed, purpose, self.round, *([] if self.node is None else [self.node]))


@dataclass(frozen=True)
class Training:
    """How a client trains in one round; ``lr`` is the rate of this round."""

    epochs: int
    batch_size: int
    optimizer: str
    lr: float
    momentum: float
    weight_decay: float
    persist_optimizer: bool
    augment: tuple[str, ...]
    nesterov: bool = False
    clip_gradients: float | None = None
    """The largest norm of a step's gradient, over all parameters together."""
