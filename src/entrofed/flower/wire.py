"""What travels between server and clients in Flower's messages; plain numbers and text, never a pickle.

A training message holds what any Flower app expects, ``arrays`` (the model) and ``config``, and for clients built with
:func:`entrofed.flower.client_app` the whole order, in ``config`` as ``entrofed.order``, and as arrays what the server
rule sends (``entrofed.broadcast``) and what the client remembers (``entrofed.memory``). A reply holds
``arrays`` and ``metrics`` with ``num-examples``, as any Flower client sends them, and from our clients the rest of the
update.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, MetricRecord, RecordDict

from entrofed.client.train import WorkOrder
from entrofed.core.types import MEAN_PREDICTION, Failure, Training, Update
from entrofed.core.validation import MOST_EXAMPLES
from entrofed.errors import DataError
from entrofed.flower.arrays import Format, read_state, write_state
from entrofed.registry import build, describe

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
BROADCAST, MEMORY, FACTS = "entrofed.broadcast", "entrofed.memory", "entrofed.facts"
ORDER, UPDATE = "entrofed.order", "entrofed.update"


def write_order(order: WorkOrder, form: Format, config: ConfigRecord) -> RecordDict:
    """A message that trains: for any client the model and the configuration, for ours the whole order."""
    words = {
        "client": order.client,
        "round": order.round,
        "seed": order.seed,
        "purpose": order.purpose,
        "needs": sorted(order.needs),
        "limits": None if order.limits is None else order.limits.tolist(),
        "objective": describe(order.objective),
        "rule": describe(order.rule),
        "training": asdict(order.training),
    }
    content = RecordDict({ARRAYS: form.write(order.params)})
    content[CONFIG] = ConfigRecord({**config, "server-round": order.round + 1, ORDER: json.dumps(words)})
    content[BROADCAST] = write_state(order.broadcast)
    content[MEMORY] = write_state(order.memory)
    return content


def read_order(content: RecordDict, form: Format) -> WorkOrder:
    """The order of a message, at a client."""
    words = json.loads(str(content.config_records[CONFIG][ORDER]))
    limits = words["limits"]
    training = words["training"]
    return WorkOrder(
        client=words["client"],
        round=words["round"],
        seed=words["seed"],
        params=form.read(content.array_records[ARRAYS]),
        objective=build("objective", words["objective"]),
        training=Training(**{**training, "augment": tuple(training["augment"])}),
        cost=0,
        memory=read_state(content, MEMORY),
        purpose=words["purpose"],
        needs=frozenset(words["needs"]),
        limits=None if limits is None else np.array(limits, np.int64),
        rule=build("server", words["rule"]),
        broadcast=read_state(content, BROADCAST),
    )


def write_update(update: Update, form: Format) -> RecordDict:
    """The reply to an order."""
    numbers: dict[str, Any] = {
        "num-examples": update.num_examples,
        "num-steps": update.num_steps,
        "train-loss": update.train_loss,
        "train-loss-last-epoch": update.train_loss_last_epoch,
        "seconds": update.seconds,
    }
    content = RecordDict({ARRAYS: form.write(update.params), METRICS: MetricRecord(numbers)})
    content[UPDATE] = ConfigRecord({"client": update.client, "terms": json.dumps(dict(update.terms))})
    content[MEMORY] = write_state(update.memory)
    content[FACTS] = write_state(dict(update.facts))
    return content


def read_update(
    content: RecordDict, order: WorkOrder, form: Format, *, ours: bool, classes: int | None = None
) -> Update | Failure:
    """The update in a reply to an order; whatever is wrong with it becomes a failure with a reason.

    ``ours``: the method needs what only clients built with :func:`entrofed.flower.client_app` do.
    """
    try:
        words = content.config_records.get(UPDATE)
        if words is None and (ours or order.limits is not None):
            return Failure("this method needs clients that are built with entrofed.flower.client_app")
        arrays, metrics = _only(content.array_records, ARRAYS), _only(content.metric_records, METRICS)
        loss = metrics.get("train-loss", metrics.get("train_loss", float("nan")))
        update = Update(
            client=order.client if words is None else _whole(words["client"]),
            params=form.read(arrays),
            num_examples=_whole(metrics["num-examples"]),
            num_steps=_whole(metrics.get("num-steps", 1) if words is None else metrics["num-steps"]),
            train_loss=_real(loss),
            train_loss_last_epoch=_real(metrics.get("train-loss-last-epoch", loss)),
            seconds=_real(metrics.get("seconds", 0.0)),
            terms={} if words is None else _terms(str(words["terms"]), order),
            memory={} if words is None else read_state(content, MEMORY),
            facts={} if words is None else read_state(content, FACTS),
        )
        return update if words is None else _consistent(update, order, classes)
    except KeyError as error:
        return Failure(f"the reply lacks {error}")
    except Exception as error:  # a client that sends nonsense has itself failed, and nobody else
        return Failure(f"{error}" or type(error).__name__)


def _terms(text: str, order: WorkOrder) -> dict[str, float]:
    terms = {key: _real(value) for key, value in dict(json.loads(text)).items()}
    if terms and set(terms) != set(order.objective.terms):
        raise DataError(f"terms of the loss are {sorted(order.objective.terms)}, found {sorted(terms)[:5]}")
    return terms


def _consistent(update: Update, order: WorkOrder, classes: int | None) -> Update | Failure:
    """The update if what it says besides the model follows from the model, as the server rule says it here."""
    if not 0 < update.num_examples <= MOST_EXAMPLES:
        return update  # admission has a word for it
    most = order.training.epochs * -(-update.num_examples // order.training.batch_size)
    if update.num_steps > most:
        return Failure(f"{update.num_steps} steps on {update.num_examples} examples; at most {most} were ordered")
    with np.errstate(all="ignore"):
        expected = dict(order.rule.report(order, replace(update, facts={})).facts)
    soft = update.facts.get(MEAN_PREDICTION)
    if MEAN_PREDICTION in order.needs and soft is not None:
        if soft.shape != (classes,) or not (soft >= 0).all() or not abs(float(soft.sum()) - 1) < 1e-3:
            return Failure(f"{MEAN_PREDICTION} is not a distribution over {classes} classes")
        expected[MEAN_PREDICTION] = soft
    elif MEAN_PREDICTION in order.needs:
        return Failure(f"the reply lacks {MEAN_PREDICTION}")
    if set(update.facts) != set(expected):
        return Failure(f"it says {sorted(update.facts)[:5]} besides the model, expected {sorted(expected)}")
    for name, fact in expected.items():
        given = update.facts[name]
        same = given.dtype == fact.dtype and given.shape == fact.shape
        if not same or not np.allclose(given, fact, rtol=1e-3, atol=1e-5, equal_nan=True):
            return Failure(f"{name} does not follow from the model that came with it")
    return update


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
