"""Train several clients together; :func:`entrofed.client.train.train` says what that has to come to."""

import time
from collections.abc import Sequence

import numpy as np

from entrofed.client.model import LocalModel
from entrofed.client.stacked.batches import Plan
from entrofed.client.stacked.forms import of_logits
from entrofed.client.stacked.run import Client, Run
from entrofed.client.train import Losses, update_of
from entrofed.core.seeds import stream
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, Update


def train_together(tasks: Sequence[TrainTask], data: Sequence[ClientData], model: LocalModel) -> list[Update]:
    """Train each client on its data; the tasks are alike in all but client, model, state, limits and epochs.

    An UnstackableError says that network or objective cannot be stacked.
    """
    fewest = 2 if model.has_batch_norm else 1
    clients = [_client(task, own, fewest) for task, own in zip(tasks, data, strict=True)]
    found: dict[int, Update] = {}
    alike: dict[frozenset[str], list[int]] = {}
    simple = of_logits(tasks[0].objective)
    for k in sorted(range(len(clients)), key=lambda k: -len(clients[k].plan.sizes)):  # whoever is done is behind others
        if clients[k].plan.sizes:
            depends = frozenset[str]() if simple else _depends_on(clients[k], model)
            alike.setdefault(depends, []).append(k)
        else:
            model.load(tasks[k].params)
            found[k] = update_of(tasks[k], clients[k].data, model, model.dump(), 0, Losses(), None, 0.0, {})
    for busy in alike.values():
        began = time.perf_counter()
        run = Run([clients[k] for k in busy], model, fewest)
        run.play()
        losses = _mean_losses(run, [clients[k] for k in busy])
        each = (time.perf_counter() - began) / sum(len(clients[k].plan.sizes) for k in busy)
        for k, params, persisted, loss in zip(busy, run.params(), run.persisted(), losses, strict=True):
            client, steps = clients[k], len(clients[k].plan.sizes)
            if client.task.facts:
                model.load(params)
            found[k] = update_of(
                client.task, client.data, model, params, steps, loss, client.most, steps * each, persisted
            )
    return [found[k] for k in range(len(tasks))]


def _client(task: TrainTask, data: ClientData, fewest: int) -> Client:
    if task.limits is not None:
        data = data.at_most(task.limits, stream(task.seed, "limit", task.client))
    most = None if task.rule is None else task.rule.max_steps(task)
    return Client(task, data, Plan.of(len(data), task, fewest, most), most)


def _depends_on(client: Client, model: LocalModel) -> frozenset[str]:
    """What a client's loss depends on besides model and batch: with other things, other parameters may matter."""
    x = model.inputs.for_model(model.inputs.standardize(client.data.x[:1]))
    return frozenset(client.task.objective.begin(client.task, client.data, model)(x))


def _mean_losses(run: Run, clients: Sequence[Client]) -> list[Losses]:
    """As the plain loop takes them, of all clients at once."""
    steps = len(clients[0].plan.sizes)
    counted = np.zeros((2, steps, len(clients)))
    for k, client in enumerate(clients):
        counted[:, : len(client.plan.sizes), k] = client.plan.counted
    sizes, last = counted
    n = np.array([len(client.data) for client in clients], np.float64)
    all_epochs = np.array([client.task.training.epochs for client in clients], np.float64)
    passes = np.where([client.most is None for client in clients], all_epochs, sizes.sum(axis=0) / n)
    batches = run.losses() * sizes[:, :, None]
    terms = batches.sum(axis=0) / (n * passes)[:, None]
    ends = (batches.sum(axis=2) * last).sum(axis=0) / np.minimum(n, n * passes)
    return [Losses(*found) for found in zip(terms.tolist(), terms.sum(axis=1).tolist(), ends.tolist(), strict=True)]
