"""What each kind of task does with the data and the model at hand."""

from dataclasses import replace
from functools import singledispatch
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.evaluate import ConfusionSums, confusion_sums
from entrofed.client.model import EVALUATION_BATCH
from entrofed.client.runtime import ClientRuntime
from entrofed.client.stacked.forms import UnstackableError
from entrofed.client.stacked.train import train_together
from entrofed.client.train import train
from entrofed.core.params import Params
from entrofed.core.round import Pooled, pool
from entrofed.core.sums import weighted_sum
from entrofed.core.tasks import (
    ConsensusTask,
    EvaluateTask,
    FactTask,
    GradientTask,
    PoolTask,
    PredictTask,
    Stacked,
    StackTask,
    Task,
    TrainTask,
)
from entrofed.core.types import Failure, Update
from entrofed.errors import EntrofedError, place
from entrofed.info.prediction import Predictions
from entrofed.objectives.cross_entropy import CrossEntropy


def attempt(task: Task, runtime: ClientRuntime | None) -> Any:
    """What comes of a task; an exception is a :class:`Failure`, so that one client never ends a run."""
    try:
        return work(task, runtime)
    except Exception as error:
        return failure_of(error)


def failure_of(error: Exception) -> Failure:
    """An exception as an outcome that can be sent."""
    ours = error if isinstance(error, EntrofedError) and type(error).__module__ == EntrofedError.__module__ else None
    return Failure(f"{type(error).__name__}: {error}", ours, place(error) or type(error).__name__)


@singledispatch
def work(task: Task, runtime: ClientRuntime | None) -> Any:
    """What comes of a task; each kind registers what it does."""
    raise EntrofedError(f"nobody knows how to do a {type(task).__name__}")


@work.register
def _train(task: TrainTask, runtime: ClientRuntime) -> Update:
    return train(task, runtime.client_data(task.client), runtime.model)


@work.register
def _train_together(task: StackTask, runtime: ClientRuntime) -> Stacked:
    """What cannot be stacked, for whatever reason, is trained one by one, so that no client fails for another."""
    try:
        data = runtime.clients_data([one.client for one in task.tasks])
        return Stacked(tuple(train_together(task.tasks, data, runtime.model)))
    except Exception as error:
        why = str(error) if isinstance(error, UnstackableError) else f"{type(error).__name__}: {error}"
        return Stacked(tuple([attempt(one, runtime) for one in task.tasks]), why)


@work.register
def _measure(task: FactTask, runtime: ClientRuntime) -> NDArray[Any]:
    runtime.model.load(task.params)
    return task.fact.measure(runtime.client_data(task.client), runtime.model)


@work.register
def _evaluate(task: EvaluateTask, runtime: ClientRuntime) -> ConfusionSums:
    runtime.model.load(task.params)
    return confusion_sums(runtime.samples(task.part, task.rows), runtime.model, logits=task.logits)


@work.register
def _predict(task: PredictTask, runtime: ClientRuntime) -> Predictions:
    model, data = runtime.model, runtime.samples("valid", task.rows)
    probabilities = np.empty((len(task.models), len(data), data.classes))
    for i, params in enumerate(task.models):
        model.load(params)
        logits = [found for found, _ in model.predictions(data)]
        probabilities[i] = torch.cat(logits).double().softmax(dim=1).numpy()
    return Predictions.of(probabilities)


@work.register
def _gradient(task: GradientTask, runtime: ClientRuntime) -> NDArray[np.float64]:
    model, inputs = runtime.model, runtime.model.inputs
    model.load(task.params)
    data = runtime.samples("train", task.rows)
    labels, total = data.y.to(model.device), np.zeros(model.layout.trainable)
    for x, y in zip(torch.split(data.x, EVALUATION_BATCH), torch.split(labels, EVALUATION_BATCH), strict=True):
        x = inputs.for_model(inputs.standardize(x))
        gradients = model.gradients(CrossEntropy(), x, y, {})
        model.module.eval()
        total += len(y) * gradients.flat(gradients(x, y, {}, whole=False)[1]).astype(np.float64)
    return total


@work.register
def _pool(task: PoolTask, runtime: ClientRuntime | None) -> Pooled:
    pooled = pool(task.job, task.state, task.updates)
    digest = blake2b(np.ascontiguousarray(pooled.params.values).data)
    digest.update(np.ascontiguousarray(pooled.params.counters).data)
    return replace(pooled, digest=digest.hexdigest())


@work.register
def _consensus(task: ConsensusTask, runtime: ClientRuntime | None) -> tuple[Params, NDArray[np.float64]]:
    models = task.models
    mean = weighted_sum([model.values for model in models], np.full(len(models), 1 / len(models)))
    distances = np.array([np.sqrt(((model.values - mean) ** 2).sum()) for model in models])
    return Params(mean.astype(np.float32), np.max([model.counters for model in models], axis=0)), distances
