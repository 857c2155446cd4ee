"""Local training: the one loop that every method, backend and objective runs through.

``train_loss`` is the mean over all local epochs, ``sum(batch loss * batch size) / (n * epochs)``. An epoch is a
shuffled pass with the partial last batch kept; a model with BatchNorm skips a batch of one sample.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from entrofed.client.model import LocalModel
from entrofed.client.optimizers import OPTIMIZERS, SGD, Adam, Steering, uphill
from entrofed.core.admission import ordered_steps
from entrofed.core.params import Params
from entrofed.core.parts import ModelRuntime
from entrofed.core.seeds import stream, torch_stream
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, PartState, Training, Update


def batches(
    data: ClientData, model: LocalModel, training: Training, rng: np.random.Generator
) -> Iterator[tuple[torch.Tensor, torch.Tensor, int]]:
    """The batches of all epochs, ready for the model, with the number of their epoch."""
    inputs, augmented = model.inputs, model.augmented(training.augment)
    x, y = data.x if augmented else inputs.standardize(data.x), data.y.to(data.x.device)
    for epoch in range(training.epochs):
        order = torch.from_numpy(rng.permutation(len(y))).to(x.device)
        for start in range(0, len(y), training.batch_size):
            chosen = order[start : start + training.batch_size]
            batch = augmented(x, chosen, rng) if augmented else x.index_select(0, chosen)
            yield inputs.for_model(batch), y.index_select(0, chosen), epoch


def train(task: TrainTask, data: ClientData, model: LocalModel) -> Update:
    """Train on a client's data, and say what came of it."""
    began = time.perf_counter()
    if task.limits is not None:
        data = data.at_most(task.limits, stream(task.seed, "limit", task.client))
    if data.x.device != model.device:
        data = replace(data, x=data.x.to(model.device))
    model.load(task.params)
    model.module.train()
    most = None if task.rule is None else task.rule.max_steps(task)
    losses, steps, persisted = _descend(task, data, model, most)
    seconds = time.perf_counter() - began
    return update_of(task, data, model, model.dump(), steps, losses, most, seconds, persisted)


def _descend(task: TrainTask, data: ClientData, model: LocalModel, most: int | None) -> tuple["Losses", int, PartState]:
    """All steps, ``most`` at most: the losses, how many steps, and what the optimizer keeps if it persists.

    Gradients and momentum are gone when it returns: each is as large as the model.
    """
    training, objective, rule = task.training, task.objective, task.rule
    losses: list[torch.Tensor] = []
    sizes: list[int] = []
    epochs: list[int] = []
    rng = stream(task.seed, task.purpose, task.round, task.client)
    given_for = objective.begin(task, data, model)
    correction = None if rule is None else rule.correction(task)
    optimizer: SGD | Adam | None = None
    with torch_stream(task.seed, "layers", task.round, task.client, device=model.device):
        for x, y, epoch in batches(data, model, training, rng):
            size = y.shape[0]
            if size == 1 and model.has_batch_norm:
                continue
            given = given_for(x)
            gradients = model.gradients(objective, x, y, given)
            if optimizer is None:
                optimizer = OPTIMIZERS[training.optimizer](gradients, training, task.client_state)
                pull = objective.pull + (0.0 if rule is None else rule.pull)
                steering = Steering(gradients, pull, correction, training)
            whole = size == training.batch_size
            loss, slopes = gradients(x, y, given, whole=whole)
            if objective.sharpness:
                with uphill(model.module, gradients, slopes, objective.sharpness):
                    _, slopes = gradients(x, y, given, whole=whole)
            steering.before_step(slopes)
            optimizer.step(slopes)
            steering.after_step()
            del slopes  # as large as the model: they go before the next ones come
            losses.append(loss)
            sizes.append(size)
            epochs.append(epoch)
            if len(losses) == most:
                break
    passes = training.epochs if most is None else sum(sizes) / max(len(data), 1)
    found = _mean_losses(losses, sizes, epochs, len(data), passes)
    persisted = optimizer.client_state() if optimizer and training.persist_optimizer else {}
    return found, len(losses), persisted


@dataclass(frozen=True)
class Losses:
    """The terms of the loss over all passes, their sum, and the sum over the last epoch; zeros without any batch."""

    terms: list[float] = field(default_factory=list)
    total: float = 0.0
    last_epoch: float = 0.0


def update_of(
    task: TrainTask,
    data: ClientData,
    model: ModelRuntime,
    params: Params,
    steps: int,
    losses: Losses,
    most: int | None,
    seconds: float,
    optimizer: PartState,
) -> Update:
    """What a client says of its training; ``model`` is the trained one, if the task asks for facts.

    ``most``: the client rule's limit of steps; ``optimizer``: what its next participation starts from, if it persists.
    """
    objective, rule = task.objective, task.rule
    ordered = steps if task.size is None or not steps else ordered_steps(task.training, task.size, most)[1]
    update = Update(
        client=task.client,
        params=params,
        num_examples=len(data) if task.size is None else task.size,
        num_steps=ordered,
        train_loss=losses.total,
        train_loss_last_epoch=losses.last_epoch,
        terms=dict(zip(objective.terms, losses.terms, strict=True)) if objective.terms and steps else {},
        seconds=seconds,
        facts={fact.name: fact.measure(data, model) for fact in task.facts} if len(data) else {},
    )
    kept = {**task.client_state, **optimizer, **objective.remember(task, update)}
    update = replace(update, client_state=kept) if kept else update
    return update if rule is None else rule.report(task, update)


def _mean_losses(losses: list[torch.Tensor], sizes: list[int], epochs: list[int], n: int, passes: float) -> Losses:
    if not losses:
        return Losses()
    batches = torch.stack(losses).cpu().double().numpy().reshape(len(losses), -1) * np.array(sizes)[:, None]
    total, last = batches.sum(axis=1), np.array(epochs) == epochs[-1]
    terms = batches.sum(axis=0) / (n * passes)
    return Losses(terms.tolist(), float(total.sum() / (n * passes)), float(total[last].sum() / min(n, n * passes)))
