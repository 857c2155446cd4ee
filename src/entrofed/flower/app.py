"""A deployable app that plays an experiment file: ``entrofed.flower.app:server`` and ``entrofed.flower.app:client``.

The run configuration has ``experiment`` (the path of the file, on every node), ``out`` (the folder of the run, at the
server) and, where datasets lie elsewhere than usual, ``data-dir``. A run that is there already goes on.
"""

from pathlib import Path

from flwr.app import Context
from flwr.serverapp import Grid, ServerApp

from entrofed.experiment.config import read, to_toml
from entrofed.experiment.run_folder import RunFolder
from entrofed.flower.experiment import experiment_client, play_on


def _source(context: Context) -> tuple[str, str | None]:
    directory = str(context.run_config.get("data-dir", ""))
    return to_toml(read(Path(str(context.run_config["experiment"])))), directory or None


client = experiment_client(_source)
server = ServerApp()


@server.main()
def main(grid: Grid, context: Context) -> None:
    """Play the experiment."""
    config = context.run_config
    experiment = read(Path(str(config["experiment"])))
    folder = RunFolder(Path(str(config["out"])) / experiment.name / f"seed-{experiment.seed}")
    directory = str(config.get("data-dir", ""))
    play_on(
        grid,
        experiment,
        folder,
        data_directory=Path(directory) if directory else None,
        resume=folder.exists(),
    )
