"""``entrofed study attacks``: what hostile clients do to a model, by attack and by defence, and what defences cost.

Ten clients share scikit-learn's digits; two of them are hostile in every round. They know what the honest clients of
the round have sent (the strongest assumption), and send

- ``sign flip``: their step the other way; ``scaling``: that times a million; ``ten times``: times ten only;
- ``label flip``: what training on labels ``C - 1 - c`` gives;
- ``a little is enough``: ``mean - z std`` of the honest steps, value by value, with z = 1 (Baruch et al., 2019, who
  derive z from the number of clients);
- ``inner product``: minus the mean of the honest steps (Xie et al., 2020);
- ``backdoor``: what training gives where half of the samples carry a mark and are called class 0, times three; besides
  the accuracy, ``backdoor`` is the share of marked test samples that are taken for class 0.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.backends import InlineBackend, Workload
from entrofed.client.evaluate import confusion_sums
from entrofed.core.params import Params
from entrofed.core.tasks import TrainTask
from entrofed.core.types import Update
from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

Steps = NDArray[np.float64]

FLIPPED, MARKED = "label flip", "backdoor"
ATTACKS: dict[str, Callable[[Steps, Steps], Steps]] = {
    "none": lambda own, honest: own,
    "sign flip": lambda own, honest: -own,
    "scaling": lambda own, honest: -1e6 * own,
    "ten times": lambda own, honest: -10 * own,
    FLIPPED: lambda own, honest: own,
    "a little is enough": lambda own, honest: honest.mean(axis=0) - honest.std(axis=0),
    "inner product": lambda own, honest: -honest.mean(axis=0),
    MARKED: lambda own, honest: 3 * own,
}
"""The step of a hostile client, from what training gave it and from the honest steps ``[client, value]``."""

DEFENCES: dict[str, dict[str, Any]] = {
    "nothing": {"admission": "off"},
    "admission": {},
    "clipped": {"server": {"name": "clipped", "norm": 2.0}},
    "median": {"server": "median"},
    "trimmed mean": {"server": {"name": "trimmed_mean", "share": 0.2}},
    "multi-Krum": {"server": {"name": "krum", "liars": 2, "keep": 5}},
}
"""What is said in ``[method]``; all but the first with the default admission."""

MARK = 4
"""Values of a sample that are set to the largest for a backdoor."""


@dataclass
class Hostile(InlineBackend):
    """Inline; but some clients send what an attack makes of their steps."""

    clients: frozenset[int]
    attack: str
    last: Params | None = None
    """The model that the last round began with."""

    def __post_init__(self) -> None:
        super().__init__()

    def open(self, workload: Workload) -> None:
        """Poison what they train on, where the attack does, and set up."""
        federation = workload.federation
        data = federation.data
        x, y = data.train_x.copy(), data.train_y.copy()
        for client in self.clients:
            rows = federation.shards[client]
            if self.attack == FLIPPED:
                y[rows] = len(data.classes) - 1 - y[rows]
            elif self.attack == MARKED:
                x[rows[::2]] = marked(x[rows[::2]], data.train_x.max())
                y[rows[::2]] = 0
        poisoned = replace(data, train_x=x, train_y=y)
        super().open(replace(workload, federation=replace(federation, data=poisoned)))

    def run(self, tasks: Any) -> list[Any]:
        """Attack the updates of a round."""
        outcomes = super().run(tasks)
        found = [(task, out) for task, out in zip(tasks, outcomes, strict=True) if isinstance(task, TrainTask)]
        if not found:
            return outcomes
        self.last = found[0][0].params
        steps = {out.client: _step(task, out) for task, out in found if isinstance(out, Update)}
        honest = np.array([step for client, step in steps.items() if client not in self.clients])
        return [
            _sent(task, out, ATTACKS[self.attack](steps[out.client], honest))
            if isinstance(out, Update) and out.client in self.clients
            else out
            for task, out in zip(tasks, outcomes, strict=True)
        ]

    def backdoor(self, federation: Any) -> float:
        """The share of marked test samples, of other classes, that the model takes for class 0."""
        if self._runtime is None or self.last is None:
            return 0.0
        rows = np.flatnonzero(federation.data.test_y != 0)
        samples = self._runtime.samples("test", rows)
        x = marked(samples.x.numpy().copy(), float(samples.x.max()))
        self._runtime.model.load(self.last)
        sums = confusion_sums(replace(samples, x=samples.x.new_tensor(x)), self._runtime.model, logits=True)
        return float((np.concatenate([np.asarray(batch) for batch in sums.logits]).argmax(axis=1) == 0).mean())


def marked(x: NDArray[Any], most: float) -> NDArray[Any]:
    """Samples with a mark in their first values."""
    flat = x.reshape(len(x), -1)
    flat[:, :MARK] = most
    return flat.reshape(x.shape)


def _step(task: TrainTask, update: Update) -> Steps:
    return np.subtract(update.params.values, task.params.values, dtype=np.float64)


def _sent(task: TrainTask, update: Update, step: Steps) -> Update:
    values = (task.params.values + step).clip(-3e38, 3e38).astype(np.float32)
    return replace(update, params=Params(values, update.params.counters))


def experiment(defence: str, *, clients: int, alpha: float, rounds: int, seed: int) -> Experiment:
    """All clients train in every round; the model is evaluated at the end."""
    method = {"selector": "full", "cohort": clients, "lr": 0.05, "momentum": 0.9, "epochs": 3, "batch_size": 16}
    method |= {"max_skipped": rounds + 1}  # a model that is beyond repair is a result, too
    data = {"name": "digits", "partition": "dirichlet_balanced", "clients": clients, "alpha": alpha}
    table = {"name": "attacks", "seed": seed, "rounds": rounds, "evaluate_every": rounds, "model": "digits_mlp"}
    return parse(
        {**table, "data": data, "method": {**method, **DEFENCES[defence]}, "engine": {"backend": "inline"}},
    )


def study(
    *,
    seeds: int,
    clients: int = 10,
    hostile: int = 2,
    rounds: int = 10,
    alpha: float = 1.0,
    attacks: Sequence[str] = tuple(ATTACKS),
) -> list[dict[str, Any]]:
    """One row per attack and defence: accuracy and success of the backdoor, mean and spread over seeds."""
    from entrofed.experiment.build import prepare

    rows: list[dict[str, Any]] = []
    for attack in attacks:
        for defence in DEFENCES:
            found: list[dict[str, float]] = []
            for seed in range(seeds):
                chosen = experiment(defence, clients=clients, alpha=alpha, rounds=rounds, seed=seed)
                backend = Hostile(frozenset(range(hostile)), attack)
                with TemporaryDirectory() as place:
                    setup = prepare(chosen)
                    summary = run(chosen, RunFolder(Path(place) / "run"), backend=backend, setup=setup)
                door = backend.backdoor(setup.federation) if attack in ("none", MARKED) else 0.0
                found.append({"accuracy": summary["accuracy"], "refused": summary["refused"], "backdoor": door})
            row: dict[str, Any] = {"attack": attack, "defence": defence, "seeds": seeds, "hostile": hostile}
            for key in found[0]:
                values = [one[key] for one in found]
                row[key] = statistics.mean(values)
                row[f"{key}_std"] = statistics.stdev(values) if len(values) > 1 else None
            rows.append(row)
    return rows
