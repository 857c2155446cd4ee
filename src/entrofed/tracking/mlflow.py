"""An MLflow store (the extra ``mlflow``): by default files in a folder, without a server or network.

An experiment becomes an experiment, a seed of it a run: parameters are the configuration, metrics such as
``test/accuracy`` have the round as their step and the start of the run as their time. The tag ``entrofed.run`` tells
which run it is: one that is there is deleted (MLflow keeps it in its trash) and told anew.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from entrofed import __version__
from entrofed.core.records import RoundRecord
from entrofed.tracking.numbers import scalars
from entrofed.tracking.optional import environment, needed
from entrofed.tracking.tracker import TrackedRun, Tracker

log = logging.getLogger("entrofed")

BATCH = 100
"""Parameters that MLflow takes at once."""
BATCH_OF_METRICS = 1000
TAG = "entrofed.run"


class MLflow(Tracker):
    """Writes runs into the store of a folder, or into the one at ``uri``."""

    def __init__(self, folder: Path, uri: str | None = None) -> None:
        self._folder, self._uri = folder.resolve(), uri
        self.store = self._folder / "mlflow.db"
        self._private = ExitStack()
        with private():
            for module in ("sqlalchemy", "alembic"):
                needed(module, "mlflow")
            self._tracking = needed("mlflow.tracking", "mlflow")  # sets the level of its loggers
            self._entities = needed("mlflow.entities", "mlflow")

    @cached_property
    def client(self) -> Any:
        """MLflow's own, to be used within :func:`private`."""
        if self._uri is None:
            self._folder.mkdir(parents=True, exist_ok=True)
        return self._tracking.MlflowClient(tracking_uri=self._uri or f"sqlite:///{self.store}")

    def earlier(self, run: TrackedRun) -> list[Any]:
        """What is in the store of this run."""
        home = self.client.get_experiment_by_name(run.experiment)
        return list(self.client.search_runs([home.experiment_id], f"tags.`{TAG}` = '{run.label}'")) if home else []

    def start(self, run: TrackedRun) -> None:
        """A new run in place of one that is there."""
        self._private.enter_context(private())
        client = self.client
        for old in self.earlier(run):
            client.delete_run(old.info.run_id)
            log.warning("%s: was in the store in another state; replaced", run.label)
        home = client.get_experiment_by_name(run.experiment)
        artifacts = None if self._uri else str(self._folder / "artifacts" / run.experiment)
        number = home.experiment_id if home else client.create_experiment(run.experiment, artifacts)
        self._start, self._end = _milliseconds(run.started), run.ended
        tags = {TAG: run.label, "entrofed.version": __version__}
        self.key = client.create_run(number, self._start, tags, run_name=f"seed-{run.seed}").info.run_id
        params = [self._entities.Param(name, str(value)) for name, value in run.settings.items()]
        for first in range(0, len(params), BATCH):
            client.log_batch(self.key, params=params[first : first + BATCH])

    def log(self, records: Sequence[RoundRecord]) -> None:
        """Every number of every round."""
        metrics = [
            self._entities.Metric(name, value, self._start, record.round)
            for record in records
            for name, value in scalars(record).items()
        ]
        for first in range(0, len(metrics), BATCH_OF_METRICS):
            self.client.log_batch(self.key, metrics=metrics[first : first + BATCH_OF_METRICS])

    def finish(self, summary: Mapping[str, Any] | None) -> None:
        """The run is over; without a summary, it stays as running."""
        if summary is not None:
            self.client.set_terminated(self.key, "FINISHED", _milliseconds(self._end or time.time()))
        self._private.close()


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


@contextmanager
def private() -> Iterator[None]:
    """No telemetry, and nothing but warnings from its loggers, for a while."""
    loggers = [logging.getLogger(name) for name in ("mlflow", "alembic")]
    with environment(MLFLOW_DISABLE_TELEMETRY="true"):
        before = [logger.level for logger in loggers]
        for logger in loggers:
            logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            for logger, level in zip(loggers, before, strict=True):
                logger.setLevel(level)
