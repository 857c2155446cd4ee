"""What travels between server and clients in Flower's messages; plain numbers and text, never a pickle.

A training message holds what any Flower app expects, ``arrays`` (the model) and ``config``, and for clients built with
:func:`entrofed.flower.client_app` the whole order, in ``config`` as ``entrofed.order``, and as arrays what the server
rule sends (``entrofed.broadcast``) and what the client remembers (``entrofed.memory``). A reply holds
``arrays`` and ``metrics`` with ``num-examples``, as any Flower client sends them, and from our clients the rest of the
update.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from entrofed.client import WorkOrder
from entrofed.errors import ConfigError, DataError
from entrofed.params import Entry, Kind, Layout, Params
from entrofed.registry import build, describe
from entrofed.types import Failure, PartState, Training, Update

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
BROADCAST, MEMORY, FACTS = "entrofed.broadcast", "entrofed.memory", "entrofed.facts"
ORDER, UPDATE = "entrofed.order", "entrofed.update"
BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
"""How the buffers of BatchNorm end, in models that are known by their arrays only."""


@dataclass(frozen=True)
class Format:
    """How a model is written as an ArrayRecord: its layout, and its keys in their order."""

    layout: Layout
    keys: tuple[str, ...]

    @classmethod
    def of(cls, arrays: ArrayRecord) -> "Format":
        """The format of a model of which only the arrays are there; buffers are known by their names."""
        found: dict[str, tuple[Kind, tuple[int, ...]]] = {}
        for key, array in arrays.items():
            values = array.numpy()
            if values.dtype == np.int64:
                found[key] = "counter", values.shape
            elif values.dtype == np.float32:
                found[key] = "buffer" if key.rsplit(".", 1)[-1] in BUFFERS else "trainable", values.shape
            else:
                raise ConfigError(
                    f"initial_arrays[{key!r}] has type {values.dtype}; models are float32 with int64 counters. "
                    "Convert it before the strategy starts"
                )
        return cls(_layout(found), tuple(arrays))

    def write(self, params: Params) -> ArrayRecord:
        """The model as Flower sends it."""
        tensors = self.layout.split(params)
        return ArrayRecord({key: Array(np.ascontiguousarray(tensors[key])) for key in self.keys})

    def read(self, arrays: ArrayRecord) -> Params:
        """The model that was sent; a DataError says what is wrong with it."""
        if set(arrays) != set(self.keys):
            missing, extra = sorted(set(self.keys) - set(arrays)), sorted(set(arrays) - set(self.keys))
            raise DataError(f"other arrays than the model's: missing {missing[:3]}, not expected {extra[:3]}")
        tensors: dict[str, Any] = {}
        for entry in self.layout.entries:
            values, dtype = _numpy(arrays[entry.name]), np.int64 if entry.kind == "counter" else np.float32
            if values.dtype != dtype or values.shape != entry.shape:
                raise DataError(
                    f"array {entry.name!r} is {values.dtype} {values.shape}, expected {np.dtype(dtype)} {entry.shape}"
                )
            tensors[entry.name] = values
        return self.layout.join(tensors)


def _layout(found: Mapping[str, tuple[Kind, tuple[int, ...]]]) -> Layout:
    entries: list[Entry] = []
    ends: dict[Kind, int] = {"trainable": 0, "buffer": 0, "counter": 0}
    for kind in ends:
        ends[kind] = ends["trainable"] if kind == "buffer" else 0
        for key, (of_kind, shape) in found.items():
            if of_kind == kind:
                size = int(np.prod(shape, dtype=np.int64))
                entries.append(Entry(key, kind, shape, ends[kind], size))
                ends[kind] += size
    return Layout(tuple(entries), ends["trainable"], ends["buffer"], ends["counter"])


def _numpy(array: Array) -> NDArray[Any]:
    """Bytes that are no array become a DataError; they are read without pickle."""
    try:
        return array.numpy()
    except Exception as error:
        raise DataError(f"an array cannot be read: {type(error).__name__}: {error}") from None


def write_state(state: PartState) -> ArrayRecord:
    """Named arrays of a part."""
    return ArrayRecord({key: Array(np.asarray(value)) for key, value in state.items()})


def read_state(content: RecordDict, name: str) -> dict[str, NDArray[Any]]:
    """What :func:`write_state` wrote; empty if it is not there."""
    record = content.array_records.get(name)
    return {} if record is None else {key: _numpy(array) for key, array in record.items()}


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


def read_update(content: RecordDict, client: int, form: Format, *, ours: bool) -> Update | Failure:
    """The update in a reply; whatever is wrong with it becomes a failure with a reason.

    ``ours``: the method needs what only clients built with :func:`entrofed.flower.client_app` do.
    """
    try:
        arrays, metrics = _only(content.array_records, ARRAYS), _only(content.metric_records, METRICS)
        words = content.config_records.get(UPDATE)
        if ours and words is None:
            return Failure("this method needs clients that are built with entrofed.flower.client_app")
        steps = metrics.get("num-steps", 1 if words is None else 0)
        loss = metrics.get("train-loss", metrics.get("train_loss", 0.0))
        return Update(
            client=client if words is None else _whole(words["client"]),
            params=form.read(arrays),
            num_examples=_whole(metrics["num-examples"]),
            num_steps=_whole(steps),
            train_loss=_real(loss),
            train_loss_last_epoch=_real(metrics.get("train-loss-last-epoch", loss)),
            seconds=_real(metrics.get("seconds", 0.0)),
            terms={} if words is None else {key: _real(v) for key, v in json.loads(str(words["terms"])).items()},
            memory=read_state(content, MEMORY),
            facts=read_state(content, FACTS),
        )
    except KeyError as error:
        return Failure(f"the reply lacks {error}")
    except (DataError, ValueError, TypeError) as error:
        return Failure(str(error))


def _only(records: Mapping[str, Any], name: str) -> Any:
    """The record of that name, or the only one that is not ours, as Flower's strategies take it."""
    if name in records:
        return records[name]
    others = [record for key, record in records.items() if not key.startswith("entrofed.")]
    if len(others) != 1:
        raise DataError(f"there is no record {name!r} in the reply, but {sorted(records)}")
    return others[0]


def _whole(value: Any) -> int:
    """The number as it is if whole; all else is refused later, by :mod:`entrofed.admit`."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if not isinstance(value, int):
        raise DataError(f"{value!r} is not a whole number")
    return value


def _real(value: Any) -> float:
    if not isinstance(value, int | float):
        raise DataError(f"{value!r} is not a number")
    return float(value)
