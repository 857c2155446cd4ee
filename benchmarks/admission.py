"""Does the default admission leave honest runs alone? Plays settings twice, without it and with it, and compares bits.

``python benchmarks/admission.py [--held-out] [--data-dir DIR] [--rounds N] [FILE.toml ...]``: without files, small
experiments over partitions, methods, cohorts, stragglers and learning rates. Prints a line for each, and how far the
furthest honest update went, as a multiple of the median of the round and of those before it (the limit is 100 at
least). ``--held-out``: other data and networks, chosen after the limit was set, which judge it: convolutions,
batch norm, a wide table; a few rounds each.
"""

import argparse
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load

from entrofed.backends.inline import InlineBackend
from entrofed.core.admission import MEMORY
from entrofed.core.params import Layout
from entrofed.core.tasks import TrainTask
from entrofed.core.types import Update
from entrofed.experiment.config import parse, read
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

SKEWED = {"partition": "dirichlet_balanced", "alpha": 0.1, "min_size": 2}
TWO_CLASSES = {"partition": "label_quantity", "labels_per_client": 2}
FAULTS: tuple[dict[str, float], ...] = ({}, {"stragglers": 0.5}, {"joining": 0.4, "leaving": 0.2})
METHODS = (
    *(
        "fedavg_uniform",
        "fedentopt",
        "minimax_sim",
        "convex_hull",
        "reselection",
        "fedklentropy",
        "max_entropy",
        "fedep",
    ),
    *("fedasl", "fednova", "scaffold", "feddyn", "fedadam", "fedyogi", "fedavgm", "fedprox", "moon", "fedrs", "fedlc"),
    *("kl", "power_of_choice", "full"),
)


class Measuring(InlineBackend):
    """Notes how far updates go, over the learning rate."""

    def __init__(self) -> None:
        super().__init__()
        self.furthest, self._before = 0.0, list[float]()
        self._layout: Layout | None = None

    def open(self, workload: Any) -> None:
        super().open(workload)
        self._layout = workload.layout

    def run(self, tasks: Any) -> list[Any]:
        outcomes = super().run(tasks)
        pairs = [(t, o) for t, o in zip(tasks, outcomes, strict=True) if isinstance(t, TrainTask)]
        far = [
            outcome.params.moved(task.params, self._layout).parameters / task.training.lr
            for task, outcome in pairs
            if isinstance(outcome, Update) and self._layout is not None
        ]
        if far:
            seen = [*self._before, *far]
            self.furthest = max(self.furthest, max(far) / max(float(np.median(seen)), 1e-12))
            self._before = seen[-MEMORY:]
        return outcomes


def settings() -> Iterator[dict[str, Any]]:
    """Small experiments that differ in whatever makes honest updates large or small."""

    def one(data: dict[str, Any], method: dict[str, Any], **more: Any) -> dict[str, Any]:
        held = {"name": "digits", "clients": 20, **data}
        chosen = {"cohort": 5, "epochs": 3, "batch_size": 16, **method}
        return {"rounds": 15, "seed": 1, "evaluate_every": 15, "data": held, "method": chosen, **more}

    for data in (SKEWED, TWO_CLASSES, {"partition": "dirichlet_plain", "alpha": 0.3}, {"partition": "iid"}):
        for lr, momentum, epochs in ((0.05, 0.9, 3), (0.5, 0.0, 5), (1.0, 0.0, 1), (0.2, 0.9, 5)):
            for faults in FAULTS:
                yield one(data, {"lr": lr, "momentum": momentum, "epochs": epochs}, faults=faults)
    for method in METHODS:
        for data in (SKEWED, TWO_CLASSES):
            for lr in (0.05, 0.5):
                yield one(data, {"name": method, "lr": lr})
    for optimizer, lr in (("adam", 1e-3), ("adam", 0.05), ("adamw", 1e-2)):
        yield one(SKEWED, {"optimizer": optimizer, "lr": lr})
    for cohort in (1, 2):
        yield one(SKEWED, {"lr": 0.3, "cohort": cohort}) | {"rounds": 45, "evaluate_every": 45}
    for lr in (0.01, 0.3):
        yield one({"name": "heart-hospitals", "partition": "natural", "clients": None}, {"lr": lr, "cohort": 4}) | {
            "model": {"name": "mlp", "hidden": [32]}
        }
    yield one(SKEWED, {"lr": 0.3, "schedule": {"kind": "cosine", "warmup": 5}})
    ring = one(SKEWED, {"lr": 0.2}, topology={"kind": "ring"})
    del ring["method"]["cohort"]
    yield ring


def held_out() -> Iterator[dict[str, Any]]:
    """Settings that came after the limit."""

    def one(name: str, data: dict[str, Any], model: Any, method: dict[str, Any], **more: Any) -> dict[str, Any]:
        chosen = {"cohort": 5, "epochs": 2, "batch_size": 32, **method}
        held = {"name": name, "clients": 100, **data}
        table = {"rounds": 8, "seed": 2, "evaluate_every": 8, "data": held, "model": model, "method": chosen}
        return {**table, **more}

    for data in (SKEWED, TWO_CLASSES):
        for lr, momentum in ((0.01, 0.9), (0.1, 0.0)):
            yield one("cifar-10", data, "lenet5", {"lr": lr, "momentum": momentum})
    yield one("cifar-10", SKEWED, "lenet_bn", {"lr": 0.05}, faults={"stragglers": 0.5})
    yield one("cifar-10", SKEWED, "lenet5", {"name": "scaffold", "lr": 0.05})
    yield one("cifar-10", SKEWED, "lenet5", {"optimizer": "adam", "lr": 1e-3})
    yield one("fashion-mnist", {"partition": "dirichlet_plain", "alpha": 0.1}, "lenet5", {"lr": 0.1})
    yield one(
        "adult", {"partition": "quantity", "alpha": 0.5, "min_size": 1}, {"name": "mlp", "hidden": [32]}, {"lr": 0.5}
    )


def bits(folder: RunFolder) -> tuple[Any, ...]:
    """The models and the records of a run, without the time they took."""
    records = [{**record.to_json(), "seconds": None} for record in folder.records()]
    last = max(folder.checkpoints.glob("round-*.safetensors")).read_bytes()
    tensors = {name: array.tobytes() for name, array in load(last).items() if not name.startswith("admission/")}
    return json.dumps(records), sorted(tensors.items())


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--held-out", action="store_true")
    parser.add_argument("--data-dir", type=Path)
    parser.add_argument("--rounds", type=int)
    given = parser.parse_args()
    chosen: Any = held_out() if given.held_out else settings()
    if given.files:
        chosen = (read(path).model_dump(exclude_unset=True) for path in given.files)
    count = touched = different = 0
    furthest = 0.0
    for table in chosen:
        if given.rounds:
            table |= {"rounds": given.rounds, "evaluate_every": given.rounds}
        found = []
        with tempfile.TemporaryDirectory() as place:
            for admission in ("off", "refuse"):
                method = {**table["method"], "admission": admission}
                experiment = parse({**table, "method": method, "engine": {"backend": "inline"}})
                folder, backend = RunFolder(Path(place) / admission), Measuring()
                run(experiment, folder, backend=backend, data_directory=given.data_dir)
                found.append(bits(folder))
            refused = [r.reason for record in folder.records() for r in record.refused if "dropped" not in r.reason]
        count += 1
        touched += len(refused)
        different += found[0] != found[1]
        furthest = max(furthest, backend.furthest)
        same = "same bits" if found[0] == found[1] else "OTHER BITS"
        words = [experiment.data.name, experiment.data.partition, experiment.method.name, experiment.method.lr]
        far = f"furthest {backend.furthest:.1f}"
        print(*words, f"cohort {experiment.method.cohort}", same, far, *refused[:2], flush=True)
    print(f"{count} settings: {different} with other bits, {touched} honest updates touched, furthest {furthest:.1f}")


if __name__ == "__main__":
    main()
