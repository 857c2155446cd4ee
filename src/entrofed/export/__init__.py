"""Runs in the formats of other tools."""

from collections.abc import Callable
from pathlib import Path

from entrofed.errors import ConfigError, unknown
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.tracked import tracked_run
from entrofed.export.csv import to_csv
from entrofed.export.mlflow import to_mlflow
from entrofed.export.parquet import to_parquet
from entrofed.export.tensorboard import to_tensorboard
from entrofed.export.wandb import to_wandb

FORMATS: dict[str, Callable[[list[RunFolder], Path], list[Path]]] = {
    "csv": to_csv,
    "mlflow": to_mlflow,
    "parquet": to_parquet,
    "tensorboard": to_tensorboard,
    "wandb": to_wandb,
}


def export(runs: list[RunFolder], output: Path, format: str) -> list[Path]:  # noqa: A002
    """Write runs, finished or not, into a folder; returns what was written.

    A run is known by its experiment's name and its seed, so no two of them may share both.
    """
    if format not in FORMATS:
        raise unknown("export format", format, FORMATS)
    if not runs:
        raise ConfigError("there is no run to export; name a run, or a folder that holds runs")
    known: dict[str, RunFolder] = {}
    for run in runs:
        name = tracked_run(run).label
        if known.setdefault(name, run).path.resolve() != run.path.resolve():
            raise ConfigError(
                f"{known[name].path} and {run.path} are both called {name!r} and could not be told apart; "
                "export them into different folders, one at a time"
            )
    if output.exists() and not output.is_dir():
        raise ConfigError(f"{output}: the output must be a folder, and this is a file; choose another")
    output.mkdir(parents=True, exist_ok=True)
    return FORMATS[format](list(known.values()), output)
