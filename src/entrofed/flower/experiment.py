"""Experiment files on Flower: the same run as on any other backend, but the clients are the nodes of a grid.

In simulation (:func:`simulate`, ``entrofed run --backend flower``) or deployed: an app whose components are
``entrofed.flower.app:server`` and ``entrofed.flower.app:client`` plays the experiment file that its run configuration
names. Every node needs the file and the data, and is one client: that of its ``partition-id``.
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import Context
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp
from numpy.typing import NDArray

from entrofed.client.runtime import ClientRuntime
from entrofed.errors import ConfigError, EntrofedError
from entrofed.experiment.build import Setup, prepare
from entrofed.experiment.config import Experiment, parse_text, to_toml
from entrofed.experiment.rounds import Observer
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.flower.client import Local, trained_app
from entrofed.flower.grid import GridBackend, Roster
from entrofed.flower.protected import masked_training

log = logging.getLogger("entrofed")

Source = Callable[[Context], tuple[str, str | None]]
"""The experiment as TOML, and the data directory."""
WAIT = 120.0
"""Seconds to wait for nodes at the start."""


def checked_for_flower(experiment: Experiment) -> None:
    """Raise a ConfigError for what has no meaning on a grid."""
    if experiment.topology is not None:
        raise ConfigError(
            "Flower has a server and no edges between clients, so a [topology] cannot be played on it; "
            "choose engine.backend = 'ray' to spread peers over machines"
        )


@cache
def _setup(text: str, directory: str | None) -> tuple[Setup, ClientRuntime]:
    """Data and model of an experiment, once per process."""
    setup = prepare(parse_text(text), None if directory is None else Path(directory))
    return setup, replace(setup.workload, compiled=False).runtime()


def experiment_client(source: Source) -> ClientApp:
    """The ClientApp of an experiment."""

    def local_of(context: Context, client: int) -> Local:
        setup, runtime = _setup(*source(context))
        rows = np.arange(len(setup.federation.data.test_y))
        return Local(runtime.client_data(client), lambda: runtime.samples("test", rows), runtime.model)

    def labels(context: Context) -> NDArray[np.int64]:
        federation = _setup(*source(context))[0].federation
        rows = federation.shards[int(context.node_config["partition-id"])]
        return federation.data.train_y[rows]

    def classes(context: Context) -> int:
        return len(_setup(*source(context))[0].federation.data.classes)

    return trained_app(local_of, labels, classes)


def play_on(
    grid: Grid,
    experiment: Experiment,
    folder: RunFolder,
    *,
    data_directory: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    from_scratch: bool = False,
    observer: Observer = lambda record: None,
    setup: Setup | None = None,
) -> dict[str, Any]:
    """Run an experiment whose clients are the nodes of a grid; returns the summary."""
    checked_for_flower(experiment)
    setup = setup or prepare(experiment, data_directory)
    clients = len(setup.federation.shards)
    roster = Roster(names=[str(client) for client in range(clients)])
    end = time.monotonic() + WAIT
    while len(roster.present()) < clients and time.monotonic() < end:
        time.sleep(0.2)
        roster.refresh(grid, WAIT)
    if not roster.present():
        raise EntrofedError(f"no node with the name of one of {clients} clients has come within {WAIT:.0f} s")
    log.info("%d of %d clients are there", len(roster.present()), clients)
    backend = GridBackend(grid, roster, experiment.engine.timeout)
    secure = experiment.privacy is not None and experiment.privacy.secure
    how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "from_scratch": from_scratch}
    if secure:
        how["train"] = masked_training(grid, roster, experiment.engine.timeout)
    return run(experiment, folder, backend=backend, observer=observer, setup=setup, **how)


def simulate(
    experiment: Experiment,
    folder: RunFolder,
    *,
    data_directory: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    from_scratch: bool = False,
    observer: Observer = lambda record: None,
) -> dict[str, Any]:
    """Run an experiment on Flower's simulation runtime; returns the summary."""
    os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    from flwr.simulation import run_simulation

    checked_for_flower(experiment)
    text, directory = to_toml(experiment), None if data_directory is None else str(data_directory)
    setup = prepare(experiment, data_directory)
    server, summary = ServerApp(), dict[str, Any]()

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "from_scratch": from_scratch}
        summary.update(play_on(grid, experiment, folder, observer=observer, setup=setup, **how))

    workers = experiment.engine.workers
    run_simulation(
        server,
        experiment_client(lambda context: (text, directory)),
        num_supernodes=len(setup.federation.shards),
        backend_config={
            "init_args": {"num_cpus": workers, "include_dashboard": False, "logging_level": logging.ERROR},
            "client_resources": {"num_cpus": 1, "num_gpus": 0.0},
        },
    )
    return summary
