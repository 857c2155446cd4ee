"""Run folders with made-up results."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.summary import summarize

CLIENTS, CLASSES = 6, ("a", "b", "c")

Make = Callable[..., RunFolder]


def metrics(accuracy: float) -> dict[str, Any]:
    """Of a model with this accuracy."""
    alike = ("accuracy", "macro_f1", "weighted_f1", "weighted_precision", "weighted_recall")
    classes = [accuracy, accuracy / 2, 1.0]
    return {"loss": 2 - accuracy, **dict.fromkeys(alike, accuracy), "class_accuracy": classes}


def record(number: int, accuracy: float, **changes: Any) -> dict[str, Any]:
    """The record of a round in which two clients took part, one of them with a weight three times as large."""
    cohort = [number % CLIENTS, (number + 1) % CLIENTS]
    entry = {"examples": 10, "steps": 2, "train_loss": 1 - accuracy, "train_loss_last_epoch": 1 - accuracy}
    made: dict[str, Any] = {
        "round": number,
        "lr": 0.1,
        "available": CLIENTS,
        "cohort": cohort,
        "reasons": [],
        "cohort_entropy": 1.0 + 0.5 * accuracy,
        "clients": [
            {"client": client, "weight": weight, **entry} for client, weight in zip(cohort, (0.75, 0.25), strict=True)
        ],
        "refused": [],
        "skipped": False,
        "effective_cohort": 1.6,
        "train_loss": 1 - accuracy,
        "bytes_down": 2_000_000,
        "bytes_up": 1_000_000,
        "test": metrics(accuracy),
        "id": None,
        "seconds": {"select": 0.1, "train": 0.7, "evaluate": 0.2, "clients": 1.5},
    }
    return made | changes


@pytest.fixture
def make(tmp_path: Path) -> Make:
    """Makes a run folder from accuracies, one per round, or from whole records."""
    return maker(tmp_path)


def maker(root: Path) -> Make:
    """Makes run folders under a root."""

    def made(
        name: str,
        seed: int,
        rounds: list[float] | list[dict[str, Any]],
        *,
        finished: bool = True,
        classes: tuple[str, ...] = CLASSES,
        **settings: Any,
    ) -> RunFolder:
        folder = RunFolder(root / "runs" / name / f"seed-{seed}")
        folder.path.mkdir(parents=True)
        records = [value if isinstance(value, dict) else record(i, value) for i, value in enumerate(rounds)]
        table = {
            "seed": seed,
            "rounds": max(len(records), 1) + (not finished),
            "data": {"name": "digits", "clients": CLIENTS},
        }
        experiment = parse({**table, **settings})
        folder.start(experiment, experiment.method.recipe)
        (folder.path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in records))
        counts = [[5 * client + 1, 3, client % 2] for client in range(CLIENTS)]
        facts = {"classes": list(classes), "participants": list(range(CLIENTS)), "label_counts": counts}
        (folder.path / "federation.json").write_text(json.dumps(facts))
        (folder.path / "environment.json").write_text('{"entrofed": "0"}')
        if finished:
            (folder.path / "summary.json").write_text(json.dumps(summarize(folder.records())))
        return folder

    return made
