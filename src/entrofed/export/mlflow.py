"""An MLflow store in a folder (the extra ``mlflow``): ``OUT/mlflow.db`` and ``OUT/artifacts``; no server, no network.

Look at it with ``mlflow ui --backend-store-uri sqlite:///OUT/mlflow.db``. The store knows its artifacts by their full
path: export anew instead of moving the folder.

An experiment becomes an experiment, a seed of it a run: parameters are the configuration, metrics such as
``test/accuracy`` have the round as their step and the start of the run as their time. The tag ``entrofed.run`` tells
which run it is and ``entrofed.digest`` its state: a run that is there in the same state is left alone; in another
state, the one that is there is deleted (MLflow keeps it in its trash) and the run exported anew.
"""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import Any

from entrofed import __version__
from entrofed.experiment.run_folder import RunFolder
from entrofed.export.optional import environment, needed
from entrofed.export.runs import label, scalars, settings

log = logging.getLogger("entrofed")

BATCH = 100
"""Parameters that MLflow takes at once."""
BATCH_OF_METRICS = 1000
STATE = ("experiment.toml", "metrics.jsonl", "summary.json")


def to_mlflow(runs: list[RunFolder], output: Path) -> list[Path]:
    """Write the runs into the store of the folder; returns its path."""
    store = output.resolve() / "mlflow.db"
    with environment(MLFLOW_DISABLE_TELEMETRY="true"):
        for module in ("sqlalchemy", "alembic"):
            needed(module, "mlflow")
        tracking = needed("mlflow.tracking", "mlflow")  # sets the level of its loggers
        with _quiet("mlflow", "alembic"):
            client = tracking.MlflowClient(tracking_uri=f"sqlite:///{store}")
            for run in runs:
                _export(client, run, output.resolve() / "artifacts")
    return [store]


def _export(client: Any, run: RunFolder, artifacts: Path) -> None:
    entities = needed("mlflow.entities", "mlflow")
    experiment, summary, digest = run.experiment(), run.summary(), _digest(run)
    name = label(experiment)
    home = client.get_experiment_by_name(experiment.name)
    number = home.experiment_id if home else client.create_experiment(experiment.name, str(artifacts / experiment.name))
    for old in client.search_runs([number], f"tags.`entrofed.run` = '{name}'"):
        if old.data.tags.get("entrofed.digest") == digest:
            log.info("%s: is in the store already, in the same state; left alone", name)
            return
        client.delete_run(old.info.run_id)
        log.warning("%s: was in the store in another state; replaced", name)
    start = _milliseconds(run.path / "experiment.toml")
    tags = {"entrofed.run": name, "entrofed.version": __version__}
    key = client.create_run(number, start, tags, run_name=f"seed-{experiment.seed}").info.run_id
    params = [entities.Param(name, str(value)) for name, value in settings(experiment).items()]
    metrics = [
        entities.Metric(name, value, start, record.round)
        for record in run.records()
        for name, value in scalars(record).items()
    ]
    for first in range(0, len(params), BATCH):
        client.log_batch(key, params=params[first : first + BATCH])
    for first in range(0, len(metrics), BATCH_OF_METRICS):
        client.log_batch(key, metrics=metrics[first : first + BATCH_OF_METRICS])
    client.log_artifact(key, str(run.path / "experiment.toml"))
    if summary is not None:
        client.log_artifact(key, str(run.path / "summary.json"))
        client.set_terminated(key, "FINISHED", _milliseconds(run.path / "summary.json"))
    client.set_tag(key, "entrofed.digest", digest)  # last: a run without it is not whole


def _digest(run: RunFolder) -> str:
    digest = blake2b(digest_size=16)
    for name in STATE:
        path = run.path / name
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


def _milliseconds(path: Path) -> int:
    return int(path.stat().st_mtime * 1000)


@contextmanager
def _quiet(*names: str) -> Iterator[None]:
    """Nothing but warnings from these loggers, for a while."""
    loggers = [logging.getLogger(name) for name in names]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
