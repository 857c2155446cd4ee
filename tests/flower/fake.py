"""A grid in this process: messages go straight to ClientApps, and things go wrong as a test asks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import count

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import numpy as np
import torch
from flwr.app import ArrayRecord, Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid
from numpy.typing import NDArray

from entrofed.client.runtime import ClientRuntime
from entrofed.core.types import ClientData
from entrofed.experiment.build import Setup, prepare
from entrofed.experiment.config import Experiment, parse
from entrofed.flower import EntroStrategy, LocalData, Task, client_app
from entrofed.flower.arrays import Format

Tamper = Callable[[Message, Message], list[Message]]
"""What comes back in place of a reply, from the request and the reply."""
_keys = count(1)


@dataclass
class Node:
    """A client at the grid."""

    app: ClientApp
    context: Context
    tamper: dict[str, Tamper] = field(default_factory=dict)
    """By the category of the message: train, evaluate, query."""


class FakeGrid(Grid):
    """Does the work when a message is pushed; replies are pulled by the ids of their messages, as in Flower."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.waiting: dict[str, list[Message]] = {}
        self.strays: list[Message] = []
        """Replies that come whoever is asked for."""
        self.log: list[tuple[str, int, Message]] = []
        """What was sent: the type of the message, the node, the message."""
        self.before_train: Callable[[FakeGrid], None] = lambda grid: None

    def join(self, app: ClientApp, node: int, **config: object) -> Node:
        context = Context(run_id=1, node_id=node, node_config=config, state=RecordDict(), run_config={})
        self.nodes[node] = Node(app, context)
        return self.nodes[node]

    def named(self, name: object) -> Node:
        """The node of the client with that partition id."""
        return next(n for n in self.nodes.values() if n.context.node_config.get("partition-id") == name)

    def sent(self, category: str) -> list[tuple[int, Message]]:
        return [(node, message) for kind, node, message in self.log if kind.split(".")[0] == category]

    # ----- Flower's Grid; the first three belong to it and must not be needed

    def set_run(self, run: object) -> None:
        raise NotImplementedError

    @property
    def run(self) -> object:
        raise NotImplementedError

    def create_message(self, *args: object, **kwargs: object) -> Message:
        raise NotImplementedError

    def get_node_ids(self) -> Iterable[int]:
        return list(self.nodes)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        messages = list(messages)
        if any(message.metadata.message_type == "train" for message in messages):
            self.before_train(self)
        return [self._deliver(message) for message in messages]

    def _deliver(self, message: Message) -> str:
        key = f"message-{next(_keys)}"
        message.metadata.__dict__["_message_id"] = key
        kind, number = message.metadata.message_type, message.metadata.dst_node_id
        self.log.append((kind, number, message))
        node = self.nodes.get(number)
        if node is None:
            self.waiting[key] = [Message(Error(3, "Unknown node"), reply_to=message)]
            return key
        try:
            reply = node.app(message, node.context)
        except Exception as error:
            reply = Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)
        tamper = node.tamper.get(kind.split(".")[0])
        self.waiting[key] = [reply] if tamper is None else tamper(message, reply)
        return key

    def pull_messages(self, message_ids: Iterable[str]) -> Iterable[Message]:
        found = [reply for key in message_ids for reply in self.waiting.pop(key, [])]
        strays, self.strays = self.strays, []
        return strays + found

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> Iterable[Message]:
        return self.pull_messages(self.push_messages(messages))


def mute(request: Message, reply: Message) -> list[Message]:
    """Nothing comes back."""
    return []


def shards_task(setup: Setup) -> Task:
    """Each node holds the shard of its ``partition-id``, as the simulator has it."""
    runtime, rows = setup.workload.runtime(), np.arange(len(setup.federation.data.test_y))

    def load(context: Context) -> LocalData:
        train = runtime.client_data(int(context.node_config["partition-id"]))
        test = runtime.samples("test", rows)
        return LocalData(ready(train, runtime), train.y.numpy(), ready(test, runtime), test.y.numpy(), train.classes)

    return Task(setup.build, load)


def ready(data: ClientData, runtime: ClientRuntime) -> NDArray[np.float32]:
    """Samples as the model takes them."""
    inputs = runtime.model.inputs
    return inputs.for_model(inputs.standardize(data.x)).contiguous().numpy()


@dataclass
class Federation:
    """An experiment's clients on a grid, and its first model."""

    setup: Setup
    grid: FakeGrid
    arrays: ArrayRecord
    classes: int

    @classmethod
    def of(cls, experiment: Experiment, shift: int = 0, **options: object) -> "Federation":
        setup = prepare(experiment)
        grid, app = FakeGrid(), client_app(shards_task(setup), **options)
        for client in range(len(setup.federation.shards)):
            grid.join(app, 1000 + shift - 7 * client, **{"partition-id": client})  # ids in another order than names
        arrays = Format.by_layout(setup.layout).write(setup.params)
        return cls(setup, grid, arrays, len(setup.federation.data.classes))

    def predict(self, models: list[ArrayRecord]) -> object:
        """What models say about the validation set."""
        runtime = self.setup.workload.runtime()
        data = runtime.samples("valid", np.arange(self.setup.federation.data.validation_size))
        outputs = []
        for model in models:
            runtime.model.module.load_state_dict(model.to_torch_state_dict())
            logits = torch.cat([found for found, _ in runtime.model.predictions(data)])
            outputs.append(logits.double().softmax(dim=1).numpy())
        return outputs


TRAINING = {"lr": 0.1, "momentum": 0.5, "batch_size": 16}


def digits(method, **options):
    data = {"name": "digits", "partition": "dirichlet_balanced", "clients": 6, "alpha": 0.5, "validation": 0.05}
    table = {"name": method, "cohort": 3, **TRAINING, **options}
    return parse({"rounds": 3, "seed": 5, "data": data, "model": "digits_mlp", "method": table})


def iris(clients=5):
    return parse({"data": {"name": "iris", "clients": clients}, "model": "iris_mlp"})


def start(federation, method="fedavg", *, rounds=2, timeout=0.05, train_config=None, evaluate_fn=None, **options):
    """Play a strategy on a grid; returns it and the result."""
    options = {
        "cohort": 1.0,
        "wait": 0.02,
        "classes": federation.classes,
        "fraction_evaluate": 0.0,
        **TRAINING,
        **options,
    }
    strategy = EntroStrategy(method, **options)
    result = strategy.start(
        federation.grid,
        federation.arrays,
        num_rounds=rounds,
        timeout=timeout,
        train_config=train_config,
        evaluate_fn=evaluate_fn,
    )
    return strategy, result


def bits(arrays):
    return {key: array.numpy().tobytes() for key, array in arrays.items()}
