"""What travels between server and clients in Flower's messages; plain numbers and text, never a pickle.

A training message holds what any Flower app expects, ``arrays`` (the model) and ``config``, and for clients built with
:func:`entrofed.flower.client_app` the whole task, in ``config`` as ``entrofed.order``, and as arrays what the server
rule sends (``entrofed.broadcast``) and what the client keeps (``entrofed.memory``). A reply holds
``arrays`` and ``metrics`` with ``num-examples``, as any Flower client sends them, and from our clients the rest of the
update.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from entrofed.core.tasks import TrainTask
from entrofed.core.types import Failure, Training, Update
from entrofed.errors import DataError
from entrofed.flower.arrays import Format, read_state, write_state
from entrofed.registry import build, describe

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
BROADCAST, MEMORY, FACTS = "entrofed.broadcast", "entrofed.memory", "entrofed.facts"
NOT_OURS = "this method needs clients that are built with entrofed.flower.client_app"
ORDER, UPDATE = "entrofed.order", "entrofed.update"


def write_task(task: TrainTask, form: Format, config: ConfigRecord) -> RecordDict:
    """A message that trains: for any client the model and the configuration, for ours the whole task."""
    words = {
        "client": task.client,
        "round": task.round,
        "seed": task.seed,
        "purpose": task.purpose,
        "facts": [describe(fact) for fact in task.facts],
        "limits": None if task.limits is None else task.limits.tolist(),
        "size": task.size,
        "objective": describe(task.objective),
        "rule": None if task.rule is None else describe(task.rule),
        "training": asdict(task.training),
    }
    content = RecordDict({ARRAYS: form.write(task.params)})
    content[CONFIG] = ConfigRecord({**config, "server-round": task.round + 1, ORDER: json.dumps(words)})
    content[BROADCAST] = write_state(task.broadcast)
    content[MEMORY] = write_state(task.client_state)
    return content


def read_task(content: RecordDict, form: Format) -> TrainTask:
    """The task of a message, at a client."""
    words = json.loads(str(content.config_records[CONFIG][ORDER]))
    limits = words["limits"]
    training = words["training"]
    return TrainTask(
        client=words["client"],
        round=words["round"],
        seed=words["seed"],
        params=form.read(content.array_records[ARRAYS]),
        objective=build("objective", words["objective"]),
        training=Training(**{**training, "augment": tuple(training["augment"])}),
        client_state=read_state(content, MEMORY),
        purpose=words["purpose"],
        facts=tuple(build("fact", fact) for fact in words["facts"]),
        limits=None if limits is None else np.array(limits, np.int64),
        rule=None if words["rule"] is None else build("client_rule", words["rule"]),
        broadcast=read_state(content, BROADCAST),
        size=words.get("size"),
    )


def write_update(update: Update, form: Format) -> RecordDict:
    """The reply to a task."""
    numbers: dict[str, Any] = {
        "num-examples": update.num_examples,
        "num-steps": update.num_steps,
        "train-loss": update.train_loss,
        "train-loss-last-epoch": update.train_loss_last_epoch,
        "seconds": update.seconds,
    }
    content = RecordDict({ARRAYS: form.write(update.params), METRICS: MetricRecord(numbers)})
    content[UPDATE] = ConfigRecord({"client": update.client, "terms": json.dumps(dict(update.terms))})
    content[MEMORY] = write_state(update.client_state)
    content[FACTS] = write_state(dict(update.facts))
    return content


def read_update(content: RecordDict, task: TrainTask, form: Format, *, ours: bool) -> Update | Failure:
    """The update in a reply to a task; whatever is wrong with it becomes a failure with a reason.

    ``ours``: the method needs what only clients built with :func:`entrofed.flower.client_app` do.
    """
    try:
        words = content.config_records.get(UPDATE)
        if words is None and (ours or task.limits is not None):
            return Failure(NOT_OURS)
        arrays, metrics = _only(content.array_records, ARRAYS), _only(content.metric_records, METRICS)
        loss = metrics.get("train-loss", metrics.get("train_loss", float("nan")))
        return Update(
            client=task.client if words is None else _whole(words["client"]),
            params=form.read(arrays),
            num_examples=_whole(metrics["num-examples"]),
            num_steps=_whole(metrics.get("num-steps", 1) if words is None else metrics["num-steps"]),
            train_loss=_real(loss),
            train_loss_last_epoch=_real(metrics.get("train-loss-last-epoch", loss)),
            seconds=_real(metrics.get("seconds", 0.0)),
            terms={} if words is None else _terms(str(words["terms"]), task),
            client_state={} if words is None else read_state(content, MEMORY),
            facts={} if words is None else read_state(content, FACTS),
        )
    except KeyError as error:
        return Failure(f"the reply lacks {error}")
    except Exception as error:  # a client that sends nonsense has itself failed, and nobody else
        return Failure(f"{error}" or type(error).__name__)


def _terms(text: str, task: TrainTask) -> dict[str, float]:
    terms = {key: _real(value) for key, value in dict(json.loads(text)).items()}
    if terms and set(terms) != set(task.objective.terms):
        raise DataError(f"terms of the loss are {sorted(task.objective.terms)}, found {sorted(terms)[:5]}")
    return terms


def _only(records: Mapping[str, Any], name: str) -> Any:
    """The record of that name, or the only one that is not ours, as Flower's strategies take it."""
    if name in records:
        return records[name]
    others = [record for key, record in records.items() if not key.startswith("entrofed.")]
    if len(others) != 1:
        raise DataError(f"there is no record {name!r} in the reply, but {sorted(records)}")
    return others[0]


def _whole(value: Any) -> int:
    """The number as it is if whole; all else is refused later, by :mod:`entrofed.core.validation`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise DataError(f"{value!r} is not a whole number")
    return value


def _real(value: Any) -> float:
    if not isinstance(value, int | float):
        raise DataError(f"{value!r} is not a number")
    return float(value)
