"""A run as trackers and exports know it."""

import json

from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.toml import flat
from entrofed.tracking import TrackedRun


def settings(experiment: Experiment) -> dict[str, str | int | float | bool]:
    """The resolved configuration without tables in tables; lists become JSON, what is not set is left out.

    >>> settings(Experiment(name="x"))["data.clients"]
    10
    """
    table = flat(experiment.model_dump(mode="json", exclude_none=True))
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in table.items()}


def tracked_run(folder: RunFolder) -> TrackedRun:
    """Which run lies in a folder."""
    experiment, summary = folder.experiment(), folder.path / "summary.json"
    return TrackedRun(
        experiment=experiment.name,
        seed=experiment.seed,
        config=experiment.model_dump(mode="json", exclude_none=True),
        settings=settings(experiment),
        started=(folder.path / "experiment.toml").stat().st_mtime,
        ended=summary.stat().st_mtime if summary.exists() else None,
    )
