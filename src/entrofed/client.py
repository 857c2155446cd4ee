"""Local training: the one loop that every method, backend and objective runs through.

``train_loss`` is the mean over all local epochs, ``sum(batch loss * batch size) / (n * epochs)``. An epoch is a
shuffled pass with the partial last batch kept; a model with BatchNorm skips a batch of one sample.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import torch

from entrofed.augment import AUGMENTS
from entrofed.params import Params
from entrofed.seeds import stream, torch_stream
from entrofed.site import Site
from entrofed.types import Objective, PartState, Training, Update
from entrofed.workbench import Workbench


class SGD:
    """``g += decay * w;  m = momentum * m + g;  w -= lr * m``, on whole vectors."""

    def __init__(self, bench: Workbench, training: Training, memory: PartState) -> None:
        self.weights, self.gradients, self.training = bench.weights, bench.gradients, training
        self.velocity = _restore(memory, "velocity", bench.weights)

    def step(self) -> None:
        """Change the weights by the gradients that lie on the bench."""
        if self.training.weight_decay:
            self.gradients.add_(self.weights, alpha=self.training.weight_decay)
        if self.training.momentum:
            self.velocity.mul_(self.training.momentum).add_(self.gradients)
            self.weights.add_(self.velocity, alpha=-self.training.lr)
        else:
            self.weights.add_(self.gradients, alpha=-self.training.lr)

    def memory(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        return {"velocity": self.velocity.numpy()}


class Adam:
    """Adam with torch's defaults (betas 0.9 and 0.999, epsilon 1e-8, bias-corrected, L2 weight decay)."""

    betas = (0.9, 0.999)
    epsilon = 1e-8

    def __init__(self, bench: Workbench, training: Training, memory: PartState) -> None:
        self.weights, self.gradients, self.training = bench.weights, bench.gradients, training
        self.mean = _restore(memory, "mean", bench.weights)
        self.square = _restore(memory, "square", bench.weights)
        self.steps = int(memory["steps"]) if "steps" in memory else 0

    def step(self) -> None:
        """Change the weights by the gradients that lie on the bench."""
        self.steps += 1
        if self.training.weight_decay:
            self.gradients.add_(self.weights, alpha=self.training.weight_decay)
        first, second = self.betas
        self.mean.lerp_(self.gradients, 1 - first)
        self.square.mul_(second).addcmul_(self.gradients, self.gradients, value=1 - second)
        scale = math.sqrt(1 - second**self.steps)
        divisor = self.square.sqrt().div_(scale).add_(self.epsilon)
        self.weights.addcdiv_(self.mean, divisor, value=-self.training.lr / (1 - first**self.steps))

    def memory(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        return {"mean": self.mean.numpy(), "square": self.square.numpy(), "steps": np.array(self.steps)}


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}


def _restore(memory: PartState, name: str, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(memory[name].copy()) if name in memory else torch.zeros_like(like)


def batches(
    site: Site, client: int, training: Training, rng: np.random.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
    """The batches of all epochs, ready for the model, with the number of their epoch."""
    unit, y = site.client_samples(client)
    changes = [AUGMENTS[name] for name in training.augment]
    x = unit if changes else site.standardize(unit)
    for epoch in range(training.epochs):
        order = torch.from_numpy(rng.permutation(len(y)))
        shuffled_x, shuffled_y = x[order], y[order]
        for start in range(0, len(y), training.batch_size):
            batch = shuffled_x[start : start + training.batch_size]
            if changes:
                for change in changes:
                    batch = change(batch, rng)
                batch = site.standardize(batch)
            yield site.for_model(batch), shuffled_y[start : start + training.batch_size], epoch


@dataclass(frozen=True)
class WorkOrder:
    """Train on one client's data, starting from ``params``."""

    client: int
    round: int
    seed: int
    params: Params
    objective: Objective
    training: Training
    cost: int
    memory: PartState = field(default_factory=dict)

    def carry_out(self, site: Site) -> Update:
        """What a backend calls, wherever the work is done."""
        return train(site, self)


def train(site: Site, order: WorkOrder) -> Update:
    """Train as ordered and say what came of it."""
    began = time.perf_counter()
    bench, training = site.bench, order.training
    bench.load(order.params)
    bench.model.train()
    optimizer = OPTIMIZERS[training.optimizer](bench, training, order.memory)
    losses: list[torch.Tensor] = []
    sizes: list[int] = []
    epochs: list[int] = []
    rng = stream(order.seed, "train", order.round, order.client)
    with torch_stream(order.seed, "layers", order.round, order.client):
        for x, y, epoch in batches(site, order.client, training, rng):
            if len(y) == 1 and bench.has_batch_norm:
                continue
            bench.gradients.zero_()
            loss = site.loss_function(order.objective, len(y) == training.batch_size)(bench.model, x, y)
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.detach())
            sizes.append(len(y))
            epochs.append(epoch)
    total = torch.stack(losses).double().numpy() * sizes if losses else np.zeros(0)
    last = np.array(epochs) == training.epochs - 1
    n = len(site.federation.shards[order.client])
    return Update(
        client=order.client,
        params=bench.dump(),
        num_examples=n,
        num_steps=len(losses),
        train_loss=float(total.sum() / (n * training.epochs)) if n else 0.0,
        train_loss_last_epoch=float(total[last].sum() / n) if n else 0.0,
        seconds=time.perf_counter() - began,
        memory=optimizer.memory() if training.persist_optimizer else {},
    )
