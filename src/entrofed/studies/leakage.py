"""``entrofed study leakage``: what an honest-but-curious server learns of clients under each protection.

Clients share scikit-learn's digits, skewed (Dirichlet). The server keeps to the protocol and looks at what it gets:

- **labels**: how far its best guess of a client's label distribution is from the truth (total variation, mean over
  clients), by the released counts, by the client's first message (the bias of the output layer), and by the first
  global model, which anybody may have: of the sum, the guess is the same for all. ``known beforehand`` is the guess of
  equal shares.
- **membership**: canaries, samples with a wrong label, half of which were trained on. How well the loss of the final
  model tells the two halves apart (AUC; 0.5: not at all).

How labels are guessed was chosen by looking at seed 0; seeds from :data:`FIRST` on deal the data anew, and are fresh.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.backends import InlineBackend
from entrofed.core.params import Layout, Params
from entrofed.core.round import finish_round, plan_round, tell_once
from entrofed.core.seeds import stream
from entrofed.core.tasks import Task, TrainTask
from entrofed.core.types import Update
from entrofed.data.client_rows import ClientRows
from entrofed.experiment.build import Setup, client_table, first_state_of, job_of, prepare, protected, release_once
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.info.inference import advantage, labels_from_bias, total_variation

CLIP = 1.0
FIRST = 100
"""The first seed that is reported."""
CANARIES = 80
"""Of each half."""
LR, EPOCHS, BATCH = 0.1, 2, 16


def settings(clients: int, epsilon: float, counts: float) -> dict[str, dict[str, Any]]:
    """The protections: tables of an experiment, by title."""
    noised = {"simulate": True, "epsilon": counts}
    updates = {"clip": CLIP, "epsilon": epsilon}
    weighed, alike = {"weigher": "label_entropy"}, {"weigher": "uniform", "quorum": clients}
    return {
        "nothing": {"method": weighed},
        f"counts noised (epsilon {counts:g})": {"method": weighed, "privacy": noised},
        "steps clipped": {"method": {**weighed, "server": {"name": "clipped", "norm": CLIP}}, "privacy": noised},
        f"noise at the server (epsilon {epsilon:g})": {"method": weighed, "privacy": {**noised, "updates": updates}},
        f"noise at each client (epsilon {epsilon:g})": {
            "method": weighed,
            "privacy": {**noised, "updates": {**updates, "where": "client"}},
        },
        "secure aggregation": {"method": weighed, "privacy": {**noised, "secure": True}},
        f"secure, shares of noise (epsilon {epsilon:g})": {
            "method": alike,
            "privacy": {"simulate": True, "secure": True, "updates": {**updates, "where": "client"}},
        },
    }


class Tapped(InlineBackend):
    """Inline, and keeps what clients sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[Update] = []

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """What came of each task."""
        found = super().run(tasks)
        self.sent += [one for task, one in zip(tasks, found, strict=True) if isinstance(task, TrainTask)]
        return found


@dataclass(frozen=True)
class Seen:
    """What a server saw of one run."""

    counts: NDArray[np.float64] | None
    """As they were released."""
    messages: list[Update]
    """Of the first round."""
    first: Params
    last: Params
    epsilon: float | None


def canaried(setup: Setup, seed: int) -> tuple[Setup, NDArray[np.int64], NDArray[np.int64]]:
    """The setup with wrong labels on some training rows, one half of which nobody holds; the rows of both halves."""
    federation, rng = setup.federation, stream(seed, "canaries")
    held = np.concatenate([shard for shard in federation.shards if len(shard) > 4])
    rows = rng.choice(held, 2 * CANARIES, replace=False)
    labels, classes = federation.data.train_y.copy(), len(federation.data.classes)
    labels[rows] = (labels[rows] + rng.integers(1, classes, len(rows))) % classes
    inside, outside = np.sort(rows[:CANARIES]), np.sort(rows[CANARIES:])
    shards = ClientRows.of([shard[~np.isin(shard, outside)] for shard in federation.shards])
    changed = replace(federation, data=replace(federation.data, train_y=labels), shards=shards)
    return replace(setup, federation=changed), inside, outside


def play(setup: Setup, backend: Tapped) -> Seen:
    """Play an experiment, and keep what its server saw."""
    with TemporaryDirectory() as folder:
        released = release_once(setup, RunFolder(Path(folder)))
    backend.open(setup.workload)
    job = tell_once(job_of(setup, client_table(setup, released)), setup.params, backend)
    job, protection = protected(setup, job)
    state, models, messages = first_state_of(job, setup.params, {}), [setup.params], list[Update]()
    for number in range(setup.experiment.rounds):
        plan = plan_round(job, state, backend)
        state = finish_round(job, state, plan, backend.run(plan.tasks)).state
        models.append(state.params)
        messages = messages if number else list(backend.sent)
    spent = None if protection is None else float(protection.spent(job, state)["epsilon"])
    return Seen(None if released is None else released.counts, messages, models[1], models[-1], spent)


def output_bias(layout: Layout, classes: int) -> slice:
    """Where the bias of the output layer lies in a model: the last parameter with one number per class."""
    entry = [one for one in layout.entries if one.kind == "trainable" and one.shape == (classes,)][-1]
    return slice(entry.start, entry.start + entry.size)


def _rise(params: Params, start: Params, where: slice) -> NDArray[np.float64]:
    return (params.values[where] - start.values[where]).astype(np.float64)


def attacked(setup: Setup, seen: Seen, inside: NDArray[np.int64], outside: NDArray[np.int64]) -> dict[str, Any]:
    """What the server's guesses are worth."""
    federation, privacy = setup.federation, setup.experiment.privacy
    classes = len(federation.data.classes)
    true = federation.label_counts / np.maximum(federation.label_counts.sum(axis=1, keepdims=True), 1)
    taking_part = [update.client for update in seen.messages]
    where = output_bias(setup.layout, classes)

    def wrong(guesses: dict[int, NDArray[np.float64]]) -> float:
        return statistics.fmean(total_variation(guesses[k], true[k]) for k in taking_part)

    equal = np.full(classes, 1 / classes)
    by_counts = by_message = None
    if seen.counts is not None:
        totals = np.maximum(seen.counts.sum(axis=1, keepdims=True), 1e-9)
        by_counts = wrong(dict(enumerate(seen.counts / totals)))
    if privacy is None or not privacy.secure:
        by_message = wrong(
            {one.client: labels_from_bias(_rise(one.params, setup.params, where)) for one in seen.messages}
        )
    of_sum = labels_from_bias(_rise(seen.first, setup.params, where))
    runtime = setup.workload.runtime()
    runtime.model.load(seen.last)
    losses = []
    for rows in (inside, outside):
        data = runtime.samples("train", rows)
        logits = torch.cat([found for found, _ in runtime.model.predictions(data)]).double()
        losses.append(torch.nn.functional.cross_entropy(logits, data.y, reduction="none").numpy())
    test = runtime.samples("test", np.arange(len(federation.data.test_y)))
    said = torch.cat([found for found, _ in runtime.model.predictions(test)]).argmax(dim=1)
    return {
        "beforehand": wrong(dict.fromkeys(taking_part, equal)),
        "counts": by_counts,
        "message": by_message,
        "model": wrong(dict.fromkeys(taking_part, of_sum)),
        "membership": advantage(*losses),
        "accuracy": float((said == test.y).double().mean()),
        "epsilon": seen.epsilon,
    }


def study(
    *,
    clients: int = 20,
    rounds: int = 20,
    epsilon: float = 8.0,
    counts: float = 0.5,
    alpha: float = 0.3,
    seeds: int = 3,
) -> list[dict[str, Any]]:
    """A row for each protection: means and spreads over seeds."""
    rows = []
    for title, table in settings(clients, epsilon, counts).items():
        found = []
        for seed in range(FIRST, FIRST + seeds):
            method = {"name": "fedavg", "cohort": 1.0, "lr": LR, "epochs": EPOCHS, "batch_size": BATCH, "momentum": 0.0}
            data = {"name": "digits", "partition": "dirichlet_balanced", "clients": clients, "alpha": alpha}
            general = {"rounds": rounds, "seed": seed, "model": "digits_mlp", "data": data}
            experiment = parse({**general, **table, "method": {**method, **table["method"]}})
            setup, inside, outside = canaried(prepare(experiment), seed)
            found.append(attacked(setup, play(setup, Tapped()), inside, outside))
        row: dict[str, Any] = {"setting": title, "clients": clients, "rounds": rounds, "seeds": seeds}
        for key in found[0]:
            values = [one[key] for one in found]
            row[key] = None if values[0] is None else statistics.fmean(values)
            row[f"{key}_std"] = None if values[0] is None or seeds < 2 else statistics.stdev(values)
        rows.append(row)
    return rows
