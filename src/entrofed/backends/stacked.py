"""Training tasks put together, so that another backend trains several clients as one computation."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from entrofed.backends.base import Backend, Workload
from entrofed.core.tasks import Stacked, StackTask, Task, TrainTask
from entrofed.core.types import Failure, Training

log = logging.getLogger("entrofed")

MOST, FEWEST, VALUES = 32, 4, 200_000
"""Clients that train together: at most, and in any case; in between, so many that they have this many values."""


def together(values: int) -> int:
    """How many clients of a model with so many values train together at most.

    It depends on nothing else, least of all on the number of workers: results must not.

    >>> [together(values) for values in (739, 12_500, 60_000)]
    [32, 16, 4]
    """
    return max(FEWEST, min(MOST, VALUES // max(values, 1)))


def chunks(tasks: Sequence[Task], most: int) -> list[list[int]]:
    """The training tasks that go together, by their places: alike, of similar cost, in parts of about one length."""
    alike: dict[Any, list[int]] = {}
    once: dict[int, Training] = {}  # most tasks share one
    for i, task in enumerate(tasks):
        if isinstance(task, TrainTask):
            if id(task.training) not in once:
                once[id(task.training)] = replace(task.training, epochs=1)
            alike.setdefault(_kind(task, once[id(task.training)]), []).append(i)
    found: list[list[int]] = []
    for places in alike.values():
        places.sort(key=lambda i: -tasks[i].cost)
        parts = -(-len(places) // most)
        found += [part.tolist() for part in np.array_split(np.array(places), parts)]
    return found


def _kind(task: TrainTask, training: Training) -> tuple[Any, ...]:
    """What tasks must share: ``training`` whatever its epochs, and the steps that a persistent optimizer has made."""
    steps = float(task.client_state.get("steps", 0.0))
    return id(task.objective), id(task.rule), task.purpose, task.round, task.seed, training, steps


class StackedBackend(Backend):
    """Another backend, which gets training tasks in stacks."""

    def __init__(self, backend: Backend) -> None:
        self._backend, self._most = backend, FEWEST
        self.apart: Counter[str] = Counter()
        """Clients that were trained one by one after all, by the reason."""

    def open(self, workload: Workload) -> None:
        """Set up the data and the model of an experiment."""
        self._most = together(workload.layout.floats)
        self._backend.open(workload)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Do the tasks; what comes of a stack is what comes of each of its tasks."""
        groups = chunks(tasks, self._most)
        stacked = {i for group in groups for i in group}
        single = [i for i in range(len(tasks)) if i not in stacked]
        stacks = [StackTask(tuple([tasks[i] for i in group])) for group in groups]  # type: ignore[misc]
        answers = self._backend.run([*stacks, *(tasks[i] for i in single)])
        outcomes: list[Any] = [None] * len(tasks)
        for i, answer in zip(single, answers[len(stacks) :], strict=True):
            outcomes[i] = answer
        for group, answer in zip(groups, answers, strict=False):
            found = self._taken_apart(answer, len(group))
            for i, outcome in zip(group, found, strict=True):
                outcomes[i] = outcome
        return outcomes

    def _taken_apart(self, answer: Stacked | Failure, size: int) -> Sequence[Any]:
        if isinstance(answer, Failure):
            return [answer] * size
        if answer.apart:
            if answer.apart not in self.apart:
                log.warning("engine.stack: clients are trained one by one: %s", answer.apart)
            self.apart[answer.apart] += size
        return answer.outcomes

    def close(self) -> None:
        """Let go of workers and memory."""
        self._backend.close()
