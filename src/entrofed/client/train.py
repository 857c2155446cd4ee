"""Local training: the one loop that every method, backend and objective runs through.

``train_loss`` is the mean over all local epochs, ``sum(batch loss * batch size) / (n * epochs)``. An epoch is a
shuffled pass with the partial last batch kept; a model with BatchNorm skips a batch of one sample.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch.optim.adam import adam

from entrofed.client.augment import AUGMENTS
from entrofed.client.model import Gradients, Tensors
from entrofed.client.runtime import EVALUATION_BATCH, Site
from entrofed.core.params import Params
from entrofed.core.seeds import stream, torch_stream
from entrofed.core.types import MEAN_PREDICTION, Objective, PartState, ServerRule, Shift, Training, Update
from entrofed.servers.average import Average


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
    rule: ServerRule = Average()  # noqa: RUF009 (frozen)
    broadcast: PartState = field(default_factory=dict)
    """What the server rule sends along with the model."""

    def carry_out(self, site: Site) -> Update:
        """What a backend calls, wherever the work is done."""
        return train(site, self)


class SGD:
    """``g += decay * w;  m = momentum * m + g;  w -= lr * m``, one fused pass a parameter."""

    def __init__(self, gradients: Gradients, training: Training, memory: PartState) -> None:
        self.gradients, self.velocity = gradients, _restore(memory, "velocity", gradients)
        self._kernel = partial(
            torch._fused_sgd_,
            weight_decay=training.weight_decay,
            momentum=training.momentum,
            lr=training.lr,
            dampening=0.0,
            nesterov=False,
            maximize=False,
            is_first_step=False,
        )
        self._moving = self.velocity if training.momentum else []

    def step(self, slopes: Tensors) -> None:
        """Change the parameters by their gradients.

        The kernel is called directly: what :func:`torch.optim.sgd.sgd` does around it takes 5 % of a small
        network's step.
        """
        self._kernel(self.gradients.parameters, slopes, self._moving)

    def memory(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        return {"velocity": self.gradients.flat(self.velocity)}


class Adam:
    """Adam with torch's defaults (betas 0.9 and 0.999, epsilon 1e-8, bias-corrected, L2 weight decay)."""

    def __init__(self, gradients: Gradients, training: Training, memory: PartState) -> None:
        self.gradients, self.training = gradients, training
        self.mean = _restore(memory, "mean", gradients)
        self.square = _restore(memory, "square", gradients)
        taken = float(memory.get("steps", np.zeros(())))
        self.steps = [torch.tensor(taken) for _ in gradients.parameters]

    def step(self, slopes: Tensors) -> None:
        """Change the parameters by their gradients."""
        adam(
            self.gradients.parameters,
            slopes,
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
        flat = self.gradients.flat
        return {"mean": flat(self.mean), "square": flat(self.square), "steps": self.steps[0].numpy()}


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}


def _restore(memory: PartState, name: str, gradients: Gradients) -> Tensors:
    if name in memory:
        return gradients.tensors(memory[name])
    return [torch.zeros_like(parameter) for parameter in gradients.parameters]


class Steering:
    """What moves parameters besides the gradient of the loss: ``pull * (w - w_start)``, and a server rule's shift."""

    def __init__(self, gradients: Gradients, pull: float, shift: Shift | None, lr: float) -> None:
        self._parameters, self._pull, self._lr = gradients.parameters, pull, lr
        self._start = [parameter.clone() for parameter in gradients.parameters] if pull else []
        self._shift = gradients.tensors(shift.values) if shift is not None else []
        self._outside = shift is not None and shift.outside

    def before_step(self, slopes: Tensors) -> None:
        """Change the gradients in place."""
        if self._start:
            torch._foreach_add_(slopes, torch._foreach_sub(self._parameters, self._start), alpha=self._pull)
        if self._shift and not self._outside:
            torch._foreach_add_(slopes, self._shift)

    def after_step(self) -> None:
        """Change the parameters, where the shift is outside of the optimizer."""
        if self._outside:
            torch._foreach_add_(self._parameters, self._shift, alpha=-self._lr)


def samples_of(site: Site, order: WorkOrder) -> NDArray[np.int64]:
    """The rows that a client trains on: all it has, or the first few of each class in an order drawn once a run."""
    rows = site.federation.shards[order.client]
    if order.limits is None:
        return rows
    rows = stream(order.seed, "limit", order.client).permutation(rows)
    labels = site.federation.data.train_y[rows]
    kept = [rows[labels == label][:limit] for label, limit in enumerate(order.limits)]
    return np.sort(np.concatenate(kept))


def local_counts(site: Site, order: WorkOrder) -> NDArray[np.int64]:
    """How many examples of each class the client trains on."""
    labels = site.federation.data.train_y[samples_of(site, order)]
    return np.bincount(labels, minlength=len(site.federation.data.classes))


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
    bench, training, objective = site.bench, order.training, order.objective
    bench.load(order.params)
    bench.model.train()
    losses: list[torch.Tensor] = []
    sizes: list[int] = []
    epochs: list[int] = []
    rng = stream(order.seed, order.purpose, order.round, order.client)
    rows = samples_of(site, order)
    given_for, shift, most = objective.begin(site, order), order.rule.shift(order), order.rule.steps(order)
    optimizer: SGD | Adam | None = None
    with torch_stream(order.seed, "layers", order.round, order.client):
        for x, y, epoch in batches(site, rows, training, rng):
            size = y.shape[0]
            if size == 1 and bench.has_batch_norm:
                continue
            given = given_for(x)
            gradients = bench.gradients(objective, x, y, given)
            if optimizer is None:
                optimizer = OPTIMIZERS[training.optimizer](gradients, training, order.memory)
                steering = Steering(gradients, objective.pull, shift, training.lr)
            loss, slopes = gradients(x, y, given, whole=size == training.batch_size)
            steering.before_step(slopes)
            optimizer.step(slopes)
            steering.after_step()
            losses.append(loss)
            sizes.append(size)
            epochs.append(epoch)
            if len(losses) == most:
                break
    passes = training.epochs if most is None else sum(sizes) / max(len(rows), 1)
    terms, total, last = _mean_losses(losses, sizes, epochs, len(rows), passes)
    update = Update(
        client=order.client,
        params=bench.dump(),
        num_examples=len(rows),
        num_steps=len(losses),
        train_loss=total,
        train_loss_last_epoch=last,
        terms=dict(zip(objective.terms, terms, strict=True)) if objective.terms and losses else {},
        seconds=time.perf_counter() - began,
        facts={MEAN_PREDICTION: mean_prediction(site, rows)} if MEAN_PREDICTION in order.needs and len(rows) else {},
    )
    persisted = optimizer.memory() if optimizer and training.persist_optimizer else {}
    update = replace(update, memory={**order.memory, **persisted, **objective.remember(order, update)})
    return order.rule.report(order, update)


def _mean_losses(
    losses: list[torch.Tensor], sizes: list[int], epochs: list[int], n: int, passes: float
) -> tuple[list[float], float, float]:
    """The terms of the loss over all passes, their sum, and the sum over the last epoch; zeros without any batch."""
    if not losses:
        return [], 0.0, 0.0
    batches = torch.stack(losses).double().numpy().reshape(len(losses), -1) * np.array(sizes)[:, None]
    total, last = batches.sum(axis=1), np.array(epochs) == epochs[-1]
    terms = batches.sum(axis=0) / (n * passes)
    return terms.tolist(), float(total.sum() / (n * passes)), float(total[last].sum() / min(n, n * passes))


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
