"""The client side: apps that train as our methods ask."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from entrofed.client.device import place, resolved
from entrofed.client.evaluate import confusion_sums, metrics
from entrofed.client.model import LocalModel
from entrofed.client.runtime import one_thread
from entrofed.client.train import train as train_client
from entrofed.core.parts import LabelFact
from entrofed.core.types import ClientData
from entrofed.errors import ConfigError, DataError
from entrofed.flower.allowance import FREE, Allowance
from entrofed.flower.answers import answered, answering, answers_about_labels, asked_fact, released_counts
from entrofed.flower.arrays import Format
from entrofed.flower.secure_client import SECURE, kept_here, masked_update
from entrofed.flower.wire import ARRAYS, CONFIG, METRICS, ORDER, read_task, write_update

__all__ = ["LocalData", "Task", "answering", "client_app", "released_counts", "trained_app"]


@dataclass(frozen=True)
class LocalData:
    """What one client holds: inputs as the model takes them, ``float32 [n, ...]``, and labels ``0..classes-1``."""

    train_x: NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: int


@dataclass(frozen=True)
class Task:
    """What a federation learns: how the model is built, and what a client holds."""

    build: Callable[[], torch.nn.Module]
    load: Callable[[Context], LocalData]


@dataclass(frozen=True)
class Local:
    """What is here when a message comes: the client's data, its test data, and the model."""

    data: ClientData
    test: Callable[[], ClientData]
    model: LocalModel


def client_app(
    task: Task,
    *,
    epsilon: float | None = None,
    store: Path | None = None,
    device: str = "cpu",
    limit: tuple[float, float] | None = None,
    secure_only: bool = False,
) -> ClientApp:
    """A ClientApp that trains as the server's method requires, with every objective, optimizer and client rule.

    ``device``: where, as ``engine.device`` of an experiment file names it. ``limit``: the (epsilon, delta) that this
    client spends at most, label counts included, whatever the server asks; see
    :mod:`entrofed.flower.allowance`. ``secure_only``: updates leave it under masks or not at all.
    """
    where = place(resolved(device))

    def local_of(context: Context, client: int) -> Local:
        held = task.load(context)
        data = _data(held.train_x, held.train_y, held.classes)
        model = LocalModel(task.build, device=where)
        return Local(data, lambda: _data(held.test_x, held.test_y, held.classes), model)

    def labels(context: Context) -> NDArray[np.int64]:
        return task.load(context).train_y

    def classes(context: Context) -> int:
        return task.load(context).classes

    return trained_app(local_of, labels, classes, epsilon, store, Allowance(limit, epsilon, store, secure_only))


def _data(x: NDArray[np.float32], y: NDArray[np.int64], classes: int) -> ClientData:
    inputs = torch.from_numpy(np.ascontiguousarray(x, np.float32))
    return ClientData(inputs, torch.from_numpy(np.asarray(y, np.int64)), classes)


def trained_app(
    local_of: Callable[[Context, int], Local],
    labels: Callable[[Context], NDArray[np.int64]],
    classes: Callable[[Context], int],
    epsilon: float | None = None,
    store: Path | None = None,
    allowance: Allowance = FREE,
) -> ClientApp:
    """A ClientApp around what is local, which it gets from the context and the client's number."""
    app = ClientApp()
    about_labels = answers_about_labels(labels, classes, epsilon, store)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        words = message.content.config_records[CONFIG].get(ORDER)
        if words is None:
            raise ConfigError("this ClientApp trains by orders: the server's strategy must be an EntroStrategy")
        with one_thread():
            local = local_of(context, json.loads(str(words))["client"])
            form = Format.by_layout(local.model.layout)
            task = read_task(message.content, form)
            secure = SECURE in message.content.config_records
            task = kept_here(task, context) if secure else task
            task.objective.check(local.model.module)
            task.objective.check_classes(local.data.classes)
            allowance.pay(task, context)
            update = train_client(task, local.data, local.model)
            if secure:
                masked = masked_update(task, update, message.content, context, form.layout)
                return Message(masked, reply_to=message)
            allowance.check_open()
        return Message(write_update(update, form), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        with one_thread():
            local = local_of(context, 0)
            test = local.test()
            if not len(test):
                raise DataError("there is nothing to evaluate on: the client has no test data")
            _load(local.model, message)
            found = metrics(confusion_sums(test, local.model))
        numbers: dict[str, Any] = {"loss": found.loss, "accuracy": found.accuracy, "macro_f1": found.macro_f1}
        record = MetricRecord({"num-examples": len(test), **numbers})
        return Message(RecordDict({METRICS: record}), reply_to=message)

    def answer(question: dict[str, Any], message: Message, context: Context) -> dict[str, Any]:
        if question["what"] != "fact" or isinstance(fact := asked_fact(question), LabelFact):
            return about_labels(question, message, context)
        with one_thread():
            local = local_of(context, question.get("client", 0))
            _load(local.model, message)
            return {"value": fact.measure(local.data, local.model).tolist()}

    return answered(app, answer)


def _load(model: LocalModel, message: Message) -> None:
    model.load(Format.by_layout(model.layout).read(message.content.array_records[ARRAYS]))
