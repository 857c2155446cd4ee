"""Pieces of work that a backend gets done somewhere. A task is data: what it does is in :mod:`entrofed.client.work`.

Each names the fields that hold arrays, so that a backend can move these through shared memory or an object store.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.parts import Fact, Task, TrainTask
from entrofed.core.types import PartState, State, Update

__all__ = [
    "Backend",
    "ConsensusTask",
    "EvaluateTask",
    "FactTask",
    "GradientTask",
    "PoolTask",
    "PredictTask",
    "StackTask",
    "Stacked",
    "Task",
    "TrainTask",
    "TrainTasks",
]


@dataclass(frozen=True)
class StackTask(Task):
    """Train several clients together: tasks that differ in client, model, what it keeps, limits and epochs."""

    arrays: ClassVar[tuple[str, ...]] = ("tasks",)

    tasks: tuple[TrainTask, ...]

    @property
    def cost(self) -> int:
        """Samples to pass over."""
        return sum(task.cost for task in self.tasks)


@dataclass(frozen=True)
class Stacked:
    """What came of a stack: of each task an update or a failure, in the order given."""

    outcomes: tuple[Any, ...]
    apart: str = ""
    """Why the clients were trained one by one after all."""


@dataclass(frozen=True)
class FactTask(Task):
    """Measure a fact on one client's data; the model has the state ``params``."""

    arrays: ClassVar[tuple[str, ...]] = ("params",)

    fact: Fact
    client: int
    params: Params
    cost: int = 0


@dataclass(frozen=True)
class EvaluateTask(Task):
    """Evaluate a model on some rows of the ``train``, ``test`` or ``valid`` part of the data."""

    arrays: ClassVar[tuple[str, ...]] = ("params", "rows")

    params: Params
    part: str
    rows: NDArray[np.int64]
    logits: bool = False
    """Whether to bring along what the model says of each sample, for metrics that counts are not enough for."""

    @property
    def cost(self) -> int:
        """Samples to pass over."""
        return len(self.rows)


@dataclass(frozen=True)
class PredictTask(Task):
    """What several models say about some rows of the validation set, in one pass over its batches."""

    arrays: ClassVar[tuple[str, ...]] = ("models", "rows")

    models: tuple[Params, ...]
    rows: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """Samples to pass over."""
        return len(self.rows) * len(self.models)


@dataclass(frozen=True)
class GradientTask(Task):
    """The gradient of the summed cross entropy of some training rows, with BatchNorm and dropout as in evaluation."""

    arrays: ClassVar[tuple[str, ...]] = ("params", "rows")

    params: Params
    rows: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """Samples to pass over, there and back."""
        return 3 * len(self.rows)


@dataclass(frozen=True)
class PoolTask(Task):
    """One peer weighs what it has got and applies the server rule by itself."""

    arrays: ClassVar[tuple[str, ...]] = ("params", "server", "updates")
    near: ClassVar[bool] = True

    job: Job
    """As the peer knows it."""
    round: int
    params: Params
    server: PartState
    updates: tuple[Update, ...]

    @property
    def cost(self) -> int:
        """Models to pass over."""
        return len(self.updates)

    @property
    def state(self) -> State:
        """Where the peer stands."""
        return State(self.round, self.params, {}, self.server)


@dataclass(frozen=True)
class ConsensusTask(Task):
    """The mean of models, and the Euclidean distance of each from it."""

    arrays: ClassVar[tuple[str, ...]] = ("models",)
    near: ClassVar[bool] = True

    models: tuple[Params, ...]

    @property
    def cost(self) -> int:
        """Models to pass over."""
        return len(self.models)


class TrainTasks:
    """Makes the training tasks of one round."""

    def __init__(self, job: Job, state: State) -> None:
        self._job, self._state, self._clients = job, state, len(job.clients.sizes)
        self.training = job.training_in(state)
        self._facts, self._rule = job.method.facts_told("with_update"), job.method.server.client

    def task(
        self,
        client: int,
        broadcast: PartState,
        *,
        params: Params | None = None,
        purpose: str = "train",
        limits: NDArray[np.int64] | None = None,
    ) -> TrainTask:
        """To train from ``params`` (the state's); faults and the clock decide how many epochs the client manages."""
        job, state, training = self._job, self._state, self.training
        epochs = job.rules.faults.epochs(job.seed, state.round, client, self._clients, training.epochs)
        if job.rules.clock is not None and job.devices is not None:
            links = 1 if job.network is None else job.network.graph.degree[client]
            size, model = int(job.clients.sizes[client]), links * job.layout.nbytes
            fixed, each = job.devices.seconds(client, down=model, up=model), job.devices.seconds(client, samples=size)
            epochs = job.rules.clock.epochs(epochs, fixed, each)
        return TrainTask(
            client=client,
            round=state.round,
            seed=job.seed,
            params=state.params if params is None else params,
            objective=job.method.objective,
            training=training if epochs == training.epochs else replace(training, epochs=epochs),
            cost=int(job.clients.sizes[client]),
            client_state=state.client_states.get(client, {}),
            purpose=purpose,
            facts=self._facts,
            limits=limits,
            rule=self._rule,
            broadcast=broadcast,
            size=int(job.clients.sizes[client]) if job.rules.released_sizes else None,
        )


class Backend(Protocol):
    """Gets tasks done somewhere: here, in other processes, on other machines. Knows no algorithm."""

    def open(self, workload: Any) -> None:
        """Set up the data and the model of an experiment (a :class:`~entrofed.backends.base.Workload`)."""
        ...

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """What came of each task, in the order given; a :class:`~entrofed.core.types.Failure` where nothing did."""
        ...

    def close(self) -> None:
        """Let go of workers and memory."""
        ...
