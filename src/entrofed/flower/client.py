"""The client side: apps that train as our methods ask, and answers to the server's questions for any app."""

import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import ConfigRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from entrofed.data.dataset import Dataset
from entrofed.errors import ConfigError, DataError
from entrofed.evaluate import EvaluateOrder, LossOrder, figures
from entrofed.federation import Federation
from entrofed.files import write_whole
from entrofed.flower.arrays import Format
from entrofed.flower.wire import ARRAYS, CONFIG, METRICS, ORDER, read_order, write_update
from entrofed.papers import file_name
from entrofed.params import Params
from entrofed.privacy import release
from entrofed.registry import build as build_part
from entrofed.site import Site, one_thread

log = logging.getLogger("entrofed")

Answer = Callable[[dict[str, Any], Message, Context], dict[str, Any]]
"""Answers a question: a plain table for a plain table."""


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


def client_name(context: Context) -> str:
    """How a client is called, whatever node it is: ``name``, else ``partition-id`` of its node configuration."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", f"node-{context.node_id}")))


def default_store() -> Path:
    """Where a client remembers what it has released: $ENTROFED_CLIENT_STORE, else in the user's data folder."""
    home = Path(os.environ.get("XDG_DATA_HOME", Path.home() / ".local" / "share"))
    return Path(os.environ.get("ENTROFED_CLIENT_STORE", home / "entrofed" / "clients"))


def released_counts(
    labels: ArrayLike, classes: int, name: str, epsilon: float | None, store: Path | None
) -> dict[str, Any]:
    """A client's label counts as they leave it; noise is drawn once, kept on disk, and never drawn again.

    To noise the same counts twice would spend the budget twice: whoever averages the two sees more.
    """
    counts = counted(labels, classes)
    if epsilon is None:
        return {"counts": counts.tolist(), "spent": None}
    digest = sha256(f"{name} {counts.tolist()} {epsilon}".encode()).hexdigest()
    path = (store or default_store()) / f"{file_name(name)}-{sha256(name.encode()).hexdigest()[:8]}.json"
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        before, known, spent = kept["counts"], kept["digest"], kept["spent"]
        if len(before) != classes:
            raise DataError(f"{path}: {len(before)} classes were released, now there are {classes}; take another store")
        if known != digest:
            log.warning("%s: data or epsilon have changed since the counts were released; what was released stays", path)
        return {"counts": before, "spent": spent}
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: not readable, so it is not known what was released; delete it to draw anew, which spends again"
        ) from None
    fresh = release(counts[None], epsilon, "add_remove")
    answer = {"counts": fresh.counts[0].tolist(), "spent": fresh.spent}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps({"digest": digest, **answer}) + "\n")  # before it leaves
    return answer


def counted(labels: ArrayLike, classes: int) -> NDArray[np.int64]:
    """How many of each label there are.

    >>> counted([0, 2, 2], 3).tolist()
    [1, 0, 2]
    """
    found = np.asarray(labels)
    if found.ndim != 1 or (len(found) and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= classes)):
        raise DataError(f"labels are whole numbers from 0 to {classes - 1} in a row, found {str(found)[:100]}")
    return np.bincount(found.astype(np.int64), minlength=classes)


def answers_about_labels(
    labels: Callable[[Context], ArrayLike],
    classes: Callable[[Context], int],
    epsilon: float | None,
    store: Path | None,
) -> Answer:
    """Who a client is, and what its labels are: what can be answered without a model."""
    if epsilon is not None and not 0 < epsilon < float("inf"):
        raise ConfigError(f"epsilon = {epsilon} must be finite and above 0, or None for counts without noise")

    def answer(question: dict[str, Any], message: Message, context: Context) -> dict[str, Any]:
        name = client_name(context)
        if question["what"] == "hello":
            return {"name": name}
        if question["what"] not in ("counts", "summary"):
            raise ConfigError(f"this client does not answer {question['what']!r}")
        found = released_counts(labels(context), classes(context), name, epsilon, store)
        if question["what"] == "summary":  # what the server gets is made of what was released
            weigher = build_part("weigher", question["weigher"])
            return {"summary": weigher.summary(np.array(found["counts"], np.float64)).tolist(), "spent": found["spent"]}
        return found

    return answer


def answering(
    app: ClientApp,
    *,
    labels: Callable[[Context], ArrayLike],
    classes: int,
    epsilon: float | None = None,
    store: Path | None = None,
) -> ClientApp:
    """An existing ClientApp that also answers what our methods ask about its labels.

    ``labels(context)`` gives a client's training labels. With ``epsilon`` their counts are noised at the client, once:
    the noised counts are kept in ``store`` and given again after a restart. Use one store for each set of data.
    """
    return Answering(app, answers_about_labels(labels, lambda context: classes, epsilon, store))


class Answering(ClientApp):
    """A ClientApp with an answer to our questions; all other messages go to the app inside."""

    def __init__(self, app: ClientApp, answer: Answer) -> None:
        super().__init__()
        self._app, self._answer = app, answer

    def __call__(self, message: Message, context: Context) -> Message:
        """Answer, or pass on."""
        if message.metadata.message_type != "query.entrofed":
            return self._app(message, context)
        question = json.loads(str(message.content.config_records[CONFIG]["ask"]))
        answer = json.dumps(self._answer(question, message, context))
        return Message(RecordDict({CONFIG: ConfigRecord({"answer": answer})}), reply_to=message)


def client_app(task: Task, *, epsilon: float | None = None, store: Path | None = None) -> ClientApp:
    """A ClientApp that trains as the server's method asks: every objective, optimizer and server rule of ours."""

    def site_of(context: Context, client: int) -> Site:
        return Site(_alone(task.load(context), client), task.build, compiled=False)

    def test_rows(site: Site, client: int) -> tuple[str, NDArray[np.int64]]:
        return "test", np.arange(len(site.federation.data.test_y))

    def labels(context: Context) -> NDArray[np.int64]:
        return task.load(context).train_y

    def classes(context: Context) -> int:
        return task.load(context).classes

    return trained_app(site_of, test_rows, labels, classes, epsilon, store)


def trained_app(
    site_of: Callable[[Context, int], Site],
    test_rows: Callable[[Site, int], tuple[str, NDArray[np.int64]]],
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
            part, rows = test_rows(site, 0)
            if not len(rows):
                raise DataError("there is nothing to evaluate on: the client has no test data")
            found = figures(EvaluateOrder(params, part, rows).carry_out(site))
        numbers = {key: found[key] for key in ("loss", "accuracy", "macro_f1")}
        return Message(RecordDict({METRICS: MetricRecord({"num-examples": len(rows), **numbers})}), reply_to=message)

    def answer(question: dict[str, Any], message: Message, context: Context) -> dict[str, Any]:
        if question["what"] == "loss":
            with one_thread():
                site = site_of(context, question["client"])
                return {"loss": LossOrder(_model(site, message), question["client"], 0).carry_out(site)}
        return about_labels(question, message, context)

    return Answering(app, answer)


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
