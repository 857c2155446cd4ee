"""Local training: the one loop that every method, backend and objective runs through.

``train_loss`` is the mean over all local epochs, ``sum(batch loss * batch size) / (n * epochs)``. An epoch is a
shuffled pass with the partial last batch kept; a model with BatchNorm skips a batch of one sample.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from entrofed.augment import AUGMENTS
from entrofed.params import Floats, Params
from entrofed.seeds import stream, torch_stream
from entrofed.site import EVALUATION_BATCH, Site
from entrofed.types import MEAN_PREDICTION, Objective, PartState, Training, Update
from entrofed.workbench import Tensors


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
    purpose: str = "train"
    """Names the stream of the client's draws."""
    needs: frozenset[str] = frozenset()
    limits: NDArray[np.int64] | None = None
    """Examples of each class to train on, if not all; which ones is drawn once a run."""

    def carry_out(self, site: Site) -> Update:
        """What a backend calls, wherever the work is done."""
        return train(site, self)


class SGD:
    """``g += decay * w;  m = momentum * m + g;  w -= lr * m``, one fused pass a parameter."""

    def __init__(self, parameters: Tensors, training: Training, memory: PartState) -> None:
        self.parameters, self.training = parameters, training
        self.velocity = _restore(memory, "velocity", parameters)

    def step(self, gradients: Tensors) -> None:
        """Change the parameters by their gradients."""
        sgd(
            self.parameters,
            gradients,
            cast("list[torch.Tensor | None]", self.velocity),
            fused=True,
            weight_decay=self.training.weight_decay,
            momentum=self.training.momentum,
            lr=self.training.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
        )

    def memory(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        return {"velocity": _flat(self.velocity)}


class Adam:
    """Adam with torch's defaults (betas 0.9 and 0.999, epsilon 1e-8, bias-corrected, L2 weight decay)."""

    def __init__(self, parameters: Tensors, training: Training, memory: PartState) -> None:
        self.parameters, self.training = parameters, training
        self.mean = _restore(memory, "mean", parameters)
        self.square = _restore(memory, "square", parameters)
        taken = float(memory.get("steps", np.zeros(())))
        self.steps = [torch.tensor(taken) for _ in parameters]

    def step(self, gradients: Tensors) -> None:
        """Change the parameters by their gradients."""
        adam(
            self.parameters,
            gradients,
            self.mean,
            self.square,
            [],
            self.steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.training.lr,
            weight_decay=self.training.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def memory(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        return {"mean": _flat(self.mean), "square": _flat(self.square), "steps": self.steps[0].numpy()}


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}


def _restore(memory: PartState, name: str, parameters: Tensors) -> Tensors:
    tensors = [torch.zeros_like(parameter) for parameter in parameters]
    if name in memory:
        pieces = torch.split(torch.from_numpy(memory[name]), [tensor.numel() for tensor in tensors])
        for tensor, piece in zip(tensors, pieces, strict=True):
            tensor.copy_(piece.view(tensor.shape))
    return tensors


def _flat(tensors: Tensors) -> Floats:
    flat: Floats = torch.cat([tensor.reshape(-1) for tensor in tensors]).numpy()
    return flat


def samples_of(site: Site, order: WorkOrder) -> NDArray[np.int64]:
    """The rows that a client trains on: all it has, or the first few of each class in an order drawn once a run."""
    rows = site.federation.shards[order.client]
    if order.limits is None:
        return rows
    rows = stream(order.seed, "limit", order.client).permutation(rows)
    labels = site.federation.data.train_y[rows]
    kept = [rows[labels == label][:limit] for label, limit in enumerate(order.limits)]
    return np.sort(np.concatenate(kept))


def batches(
    site: Site, rows: NDArray[np.int64], training: Training, rng: np.random.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
    """The batches of all epochs, ready for the model, with the number of their epoch."""
    unit, y = site.samples("train", rows)
    changes = [AUGMENTS[name] for name in training.augment]
    x = unit if changes else site.standardize(unit)
    for epoch in range(training.epochs):
        order = torch.from_numpy(rng.permutation(len(y)))
        for start in range(0, len(y), training.batch_size):
            chosen = order[start : start + training.batch_size]
            batch = x.index_select(0, chosen)
            if changes:
                for change in changes:
                    batch = change(batch, rng)
                batch = site.standardize(batch)
            yield site.for_model(batch), y.index_select(0, chosen), epoch


def train(site: Site, order: WorkOrder) -> Update:
    """Train as ordered and say what came of it."""
    began = time.perf_counter()
    bench, training = site.bench, order.training
    bench.load(order.params)
    bench.model.train()
    losses: list[torch.Tensor] = []
    sizes: list[int] = []
    epochs: list[int] = []
    rng = stream(order.seed, order.purpose, order.round, order.client)
    rows = samples_of(site, order)
    optimizer: SGD | Adam | None = None
    with torch_stream(order.seed, "layers", order.round, order.client):
        for x, y, epoch in batches(site, rows, training, rng):
            if len(y) == 1 and bench.has_batch_norm:
                continue
            gradients = bench.gradients(order.objective, x, y)
            if optimizer is None:
                optimizer = OPTIMIZERS[training.optimizer](gradients.parameters, training, order.memory)
            loss, slopes = gradients(x, y, whole=len(y) == training.batch_size)
            with torch.no_grad():
                optimizer.step(slopes)
            losses.append(loss)
            sizes.append(len(y))
            epochs.append(epoch)
    total = torch.stack(losses).double().numpy() * sizes if losses else np.zeros(0)
    last = np.array(epochs) == training.epochs - 1
    n = len(rows)
    return Update(
        client=order.client,
        params=bench.dump(),
        num_examples=n,
        num_steps=len(losses),
        train_loss=float(total.sum() / (n * training.epochs)) if n else 0.0,
        train_loss_last_epoch=float(total[last].sum() / n) if n else 0.0,
        seconds=time.perf_counter() - began,
        memory=optimizer.memory() if optimizer and training.persist_optimizer else order.memory,
        facts={MEAN_PREDICTION: mean_prediction(site, rows)} if MEAN_PREDICTION in order.needs and n else {},
    )


def mean_prediction(site: Site, rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """The mean softmax output of the model on the bench over some training samples."""
    site.bench.model.eval()
    total = np.zeros(len(site.federation.data.classes))
    with torch.inference_mode():
        for start in range(0, len(rows), EVALUATION_BATCH):
            x, _ = site.samples("train", rows[start : start + EVALUATION_BATCH])
            outputs = site.bench.model(site.for_model(site.standardize(x)))
            total += outputs.double().softmax(dim=1).sum(dim=0).numpy()
    return total / len(rows)
