"""The batches of several clients, step by step: the same samples in the same order as :func:`~.train.batches` has."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.model import LocalModel
from entrofed.client.train import batches
from entrofed.core.seeds import stream, streams
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData

NO_LABEL = -100
"""Stands where a batch is shorter than the others; torch's cross entropy leaves it out."""


@dataclass(frozen=True)
class Plan:
    """The batches that one client trains on: the size of each, and the number of its epoch."""

    sizes: list[int]
    epochs: list[int]

    @classmethod
    def of(cls, samples: int, task: TrainTask, fewest: int, most: int | None) -> "Plan":
        """Of so many samples; batches below ``fewest`` are left out, and there are at most ``most``."""
        return _plan(samples, task.training.batch_size, task.training.epochs, fewest, most)

    @cached_property
    def counted(self) -> NDArray[np.float64]:
        """The sizes, and below them 1 for each batch of the last epoch and 0 for all before."""
        return np.array([self.sizes, [epoch == self.epochs[-1] for epoch in self.epochs]], np.float64)


@lru_cache(maxsize=1024)
def _plan(samples: int, size: int, epochs: int, fewest: int, most: int | None) -> Plan:
    """The same for clients of one size, in every round."""
    last = samples % size
    epoch = [size] * (samples // size) + ([last] if last >= fewest and last else [])
    epoch = epoch if size >= fewest else []
    number = len(epoch) * epochs
    number = number if most is None else min(most, number)
    sizes = (epoch * epochs)[:number]
    return Plan(sizes, [i // len(epoch) for i in range(number)])


class Batches(Protocol):
    """Where a stack takes its batches from."""

    def take(self, step: int, members: Sequence[int], size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The ``step``-th batches of these clients ``[members, size, ...]``, and labels, NO_LABEL where there is none.

        Every client's steps are asked for in their order, each once.
        """
        ...


def rng_of(task: TrainTask) -> np.random.Generator:
    """The stream of a client's draws."""
    return stream(task.seed, task.purpose, task.round, task.client)


class Indexed(Batches):
    """All samples of all clients in one tensor, of which batches are picked by their rows."""

    def __init__(
        self, tasks: Sequence[TrainTask], data: Sequence[ClientData], plans: Sequence[Plan], x: torch.Tensor
    ) -> None:
        """``x``: the samples of all of ``data``, one below the other, ready for the model."""
        width = max(max(plan.sizes) for plan in plans)
        rows = np.full((len(plans[0].sizes), len(tasks), width), -1)
        start, one = 0, tasks[0]
        draws = streams(one.seed, one.purpose, one.round, last=[task.client for task in tasks])
        for k, (rng, own, plan) in enumerate(zip(draws, data, plans, strict=True)):
            self._lay(rows[:, k], start, len(own), plan, rng, one.training.batch_size)
            start += len(own)
        labels = torch.cat([own.y for own in data]).numpy()
        self._y = torch.from_numpy(np.where(rows < 0, NO_LABEL, labels[rows]))
        self._rows, self._x = torch.from_numpy(np.maximum(rows, 0)), x

    @staticmethod
    def _lay(
        rows: NDArray[np.int64], start: int, samples: int, plan: Plan, rng: np.random.Generator, size: int
    ) -> None:
        """Write down the rows of one client's batches."""
        epoch, order, at = -1, np.empty(0, np.int64), 0
        for step, (many, number) in enumerate(zip(plan.sizes, plan.epochs, strict=True)):
            while epoch < number:
                epoch, order, at = epoch + 1, start + rng.permutation(samples), 0
            rows[step, :many] = order[at : at + many]
            at += size

    def take(self, step: int, members: Sequence[int], size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """By rows; as a rule ``members`` are the first clients."""
        if isinstance(members, range):
            rows, y = self._rows[step, : len(members), :size], self._y[step, : len(members), :size]
        else:
            chosen = torch.tensor(members)
            rows, y = self._rows[step, chosen, :size], self._y[step, chosen, :size]
        return self._x.index_select(0, rows.reshape(-1)).view(*rows.shape, *self._x.shape[1:]), y


class Drawn(Batches):
    """Batches that each client draws and changes by itself, as it does alone."""

    def __init__(self, tasks: Sequence[TrainTask], data: Sequence[ClientData], model: LocalModel, fewest: int) -> None:
        self._left = [drawn(task, own, model, fewest) for task, own in zip(tasks, data, strict=True)]

    def take(self, step: int, members: Sequence[int], size: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The next of each."""
        found = [next(self._left[k]) for k in members]
        first = found[0][0]
        x, y = first.new_zeros(len(found), size, *first.shape[1:]), torch.full((len(found), size), NO_LABEL)
        for k, (samples, labels) in enumerate(found):
            x[k, : len(labels)], y[k, : len(labels)] = samples, labels
        return x, y


def drawn(
    task: TrainTask, data: ClientData, model: LocalModel, fewest: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """The batches of one client, without those that are too small."""
    for x, y, _ in batches(data, model, task.training, rng_of(task)):
        if len(y) >= fewest:
            yield x, y
