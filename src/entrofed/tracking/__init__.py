"""The course of a run in other programs, while it goes on."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from entrofed.errors import unknown
from entrofed.tracking.mlflow import MLflow
from entrofed.tracking.tensorboard import TensorBoard
from entrofed.tracking.tracker import TrackedRun, Tracker, Trackers
from entrofed.tracking.wandb import OFFLINE, WandB

__all__ = ["TRACKERS", "TrackedRun", "Tracker", "Trackers", "trackers_of"]

TRACKERS: dict[str, Callable[[Path], Tracker]] = {
    "tensorboard": lambda folder: TensorBoard(folder / "tensorboard"),
    "mlflow": lambda folder: MLflow(folder / "mlflow", os.environ.get("MLFLOW_TRACKING_URI")),
    "wandb": lambda folder: WandB(folder, os.environ.get("WANDB_MODE", OFFLINE)),
}
"""By name, for a run in a folder: all stays in it, unless the environment names MLflow's store or says W&B's mode."""


def trackers_of(names: Iterable[str], folder: Path) -> list[Tracker]:
    """The trackers of these names, for the run in a folder; a ConfigError if one is not known or not installed."""
    found: list[Tracker] = []
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        found.append(TRACKERS[name](folder))
    return found
