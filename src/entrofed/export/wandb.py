"""Offline runs for Weights & Biases: folders ``OUT/wandb/offline-run-*``. A new export of a run replaces its folder."""

from pathlib import Path

from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.tracked import tracked_run
from entrofed.tracking.wandb import WandB


def to_wandb(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write an offline run for each run."""
    tracker, paths = WandB(output), list[Path]()
    for run in runs:
        tracker.start(tracked_run(run))
        tracker.log(run.records())
        tracker.finish(run.summary())
        paths.append(tracker.path)
    return paths
