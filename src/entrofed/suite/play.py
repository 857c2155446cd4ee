"""Play many runs, one after the other, on one set of workers as long as the engine stays the same."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from entrofed.backends import Backend, backend_of
from entrofed.core.records import RoundRecord
from entrofed.errors import EntrofedError
from entrofed.experiment.config import EngineSection, Experiment
from entrofed.experiment.rounds import Observer
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

Runs = Sequence[tuple[Experiment, RunFolder]]


class PlayObserver:
    """Is told how runs get on; a subclass does something about it."""

    def run_started(self, experiment: Experiment, folder: RunFolder) -> None:
        """Before the data of a run is loaded."""

    def round_finished(self, experiment: Experiment, record: RoundRecord) -> None:
        """After each round of the run that was started last."""

    def run_finished(self, folder: RunFolder, summary: dict[str, Any]) -> None:
        """After the last round of a run."""

    def run_failed(self, folder: RunFolder, error: EntrofedError) -> None:
        """A run came to nothing, and the next is played all the same."""


class Simulate(Protocol):
    """Plays one run on an engine that brings its own workers; returns the summary."""

    def __call__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        *,
        data_directory: Path | None,
        resume: bool,
        observer: Observer,
    ) -> dict[str, Any]:
        """As :func:`entrofed.experiment.runner.run` does."""
        ...


def play(
    runs: Runs,
    *,
    data_directory: Path | None = None,
    resume: bool = False,
    keep_going: bool = False,
    observer: PlayObserver | None = None,
    simulators: Mapping[str, Simulate] | None = None,
) -> dict[str, EntrofedError]:
    """Play runs; returns what went wrong, by the path of the run's folder.

    Args:
        runs: Experiments, each with the folder it is played in.
        data_directory: Where datasets lie; None for the default.
        resume: Continue what was started before, instead of refusing to.
        keep_going: A run that fails does not keep the others from being played. Without it, nothing starts unless all
            runs can begin, and the first error is raised.
        observer: Is told how the runs get on.
        simulators: Engines, by ``engine.backend``, that are no :class:`~entrofed.backends.base.Backend`.
    """
    watch, theirs = observer or PlayObserver(), simulators or {}
    if not keep_going:
        for experiment, folder in runs:
            folder.check(experiment, resume=resume)
    failed: dict[str, EntrofedError] = {}
    workers = Workers()
    try:
        for experiment, folder in runs:
            watch.run_started(experiment, folder)
            seen = partial(watch.round_finished, experiment)
            try:
                simulate = theirs.get(experiment.engine.backend) or partial(run, backend=workers.of(experiment.engine))
                summary = simulate(experiment, folder, data_directory=data_directory, resume=resume, observer=seen)
            except EntrofedError as error:
                if not keep_going:
                    raise
                failed[str(folder.path)] = error
                watch.run_failed(folder, error)
            else:
                watch.run_finished(folder, summary)
    finally:
        workers.close()
    return failed


class Workers:
    """The backend of one engine at a time."""

    def __init__(self) -> None:
        self._engine: EngineSection | None = None
        self._backend: Backend | None = None

    def of(self, engine: EngineSection) -> Backend:
        """The backend that is there, if it is that engine's, else a new one in its place."""
        if self._backend is None or self._engine != engine:
            self.close()
            self._backend, self._engine = backend_of(engine.backend, engine.workers, engine.timeout), engine
        return self._backend

    def close(self) -> None:
        if self._backend is not None:
            self._backend.close()
            self._backend = None
