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

from entrofed.client.evaluate import EvaluateOrder, LossOrder, figures
from entrofed.client.runtime import Site, one_thread
from entrofed.core.params import Params
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, DataError
from entrofed.flower.answers import answered, answering, answers_about_labels, released_counts
from entrofed.flower.arrays import Format
from entrofed.flower.wire import ARRAYS, CONFIG, METRICS, ORDER, read_order, write_update

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


def client_app(task: Task, *, epsilon: float | None = None, store: Path | None = None) -> ClientApp:
    """A ClientApp that trains as the server's method asks: every objective, optimizer and server rule of ours."""

    def site_of(context: Context, client: int) -> Site:
        return Site(_alone(task.load(context), client), task.build, compiled=False)

    def labels(context: Context) -> NDArray[np.int64]:
        return task.load(context).train_y

    def classes(context: Context) -> int:
        return task.load(context).classes

    return trained_app(site_of, labels, classes, epsilon, store)


def trained_app(
    site_of: Callable[[Context, int], Site],
    labels: Callable[[Context], NDArray[np.int64]],
    classes: Callable[[Context], int],
    epsilon: float | None = None,
    store: Path | None = None,
) -> ClientApp:
    """A ClientApp around a site, which it gets from the context and the client's number."""
    app = ClientApp()
    about_labels = answers_about_labels(labels, classes, epsilon, store)

    @app.train()
    def train(message: Message, context: Context) -> Message:
        words = message.content.config_records[CONFIG].get(ORDER)
        if words is None:
            raise ConfigError("this ClientApp trains by orders: the server's strategy must be an EntroStrategy")
        with one_thread():
            site = site_of(context, json.loads(str(words))["client"])
            form = Format.by_layout(site.bench.layout)
            order = read_order(message.content, form)
            order.objective.check(site.bench.model)
            update = order.carry_out(site)
        return Message(write_update(update, form), reply_to=message)

    @app.evaluate()
    def evaluate(message: Message, context: Context) -> Message:
        with one_thread():
            site = site_of(context, 0)
            params = _model(site, message)
            rows = np.arange(len(site.federation.data.test_y))
            if not len(rows):
                raise DataError("there is nothing to evaluate on: the client has no test data")
            found = figures(EvaluateOrder(params, "test", rows).carry_out(site))
        numbers = {key: found[key] for key in ("loss", "accuracy", "macro_f1")}
        return Message(RecordDict({METRICS: MetricRecord({"num-examples": len(rows), **numbers})}), reply_to=message)

    def answer(question: dict[str, Any], message: Message, context: Context) -> dict[str, Any]:
        if question["what"] == "loss":
            with one_thread():
                site = site_of(context, question["client"])
                return {"loss": LossOrder(_model(site, message), question["client"], 0).carry_out(site)}
        return about_labels(question, message, context)

    return answered(app, answer)


def _model(site: Site, message: Message) -> Params:
    return Format.by_layout(site.bench.layout).read(message.content.array_records[ARRAYS])


def _alone(data: LocalData, client: int) -> Federation:
    """A federation of which one client is here: its number is the server's, so that it draws its own streams."""
    nobody = np.zeros(0, np.int64)
    rows = np.arange(len(data.train_y))
    dataset = Dataset(
        name="own",
        kind="table",
        train_x=np.ascontiguousarray(data.train_x, np.float32),
        train_y=np.asarray(data.train_y, np.int64),
        test_x=np.ascontiguousarray(data.test_x, np.float32),
        test_y=np.asarray(data.test_y, np.int64),
        classes=tuple(str(label) for label in range(data.classes)),
    )
    shards = (*[nobody] * client, rows)
    counts = np.stack([np.bincount(dataset.train_y[shard], minlength=data.classes) for shard in shards])
    zero, one = np.zeros(1, np.float32), np.ones(1, np.float32)
    return Federation(dataset, zero, one, shards, (nobody,) * len(shards), np.array([client]), counts)
