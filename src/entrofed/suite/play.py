"""Play many runs: one after the other, on one set of workers as long as the engine stays the same, or side by side."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from entrofed.backends import HERE, Backend, backend_of
from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError, EntrofedError
from entrofed.experiment.config import Experiment
from entrofed.experiment.rounds import Observer
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.experiment.sections.engine import EngineSection

Runs = Sequence[tuple[Experiment, RunFolder]]


class PlayObserver:
    """Is told how runs get on; a subclass does something about it."""

    def run_started(self, experiment: Experiment, folder: RunFolder) -> None:
        """Before the data of a run is loaded."""

    def round_finished(self, experiment: Experiment, folder: RunFolder, record: RoundRecord) -> None:
        """After each round."""

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
        overwrite: bool,
        from_scratch: bool,
        observer: Observer,
    ) -> dict[str, Any]:
        """As :func:`entrofed.experiment.runner.run` does."""
        ...


def play(
    runs: Runs,
    *,
    data_directory: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    from_scratch: bool = False,
    keep_going: bool = False,
    observer: PlayObserver | None = None,
    simulators: Mapping[str, Simulate] | None = None,
    jobs: int = 1,
) -> dict[str, EntrofedError]:
    """Play runs; returns what went wrong, by the path of the run's folder.

    Args:
        runs: Experiments, each with the folder it is played in.
        data_directory: Where datasets lie; None for the default.
        resume: Continue what was started before, instead of refusing to.
        overwrite: Replace what was started before.
        from_scratch: Begin anew where no checkpoint of a run is intact.
        keep_going: A run that fails does not keep the others from being played. Without it, nothing starts unless all
            runs can begin, and the first error is raised.
        observer: Is told how the runs get on.
        simulators: Engines, by ``engine.backend``, that are no :class:`~entrofed.backends.base.Backend`.
        jobs: Runs that are played at once, each inline in a process of its own; only for engines of this machine.
    """
    watch, theirs = observer or PlayObserver(), simulators or {}
    how: dict[str, Any] = {"resume": resume, "overwrite": overwrite, "from_scratch": from_scratch}
    if not keep_going:
        for experiment, folder in runs:
            folder.check(experiment, resume=resume, overwrite=overwrite)
    if jobs > 1:
        return _play_side_by_side(runs, jobs, data_directory, watch, how, keep_going=keep_going)
    failed: dict[str, EntrofedError] = {}
    workers = Workers()
    try:
        for experiment, folder in runs:
            watch.run_started(experiment, folder)
            seen = partial(watch.round_finished, experiment, folder)
            try:
                simulate = theirs.get(experiment.engine.backend) or partial(run, backend=workers.of(experiment.engine))
                summary = simulate(experiment, folder, data_directory=data_directory, observer=seen, **how)
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


def _play_side_by_side(
    runs: Runs,
    jobs: int,
    data_directory: Path | None,
    watch: PlayObserver,
    how: dict[str, Any],
    *,
    keep_going: bool,
) -> dict[str, EntrofedError]:
    from entrofed.suite.side_by_side import Player, heard, players

    for experiment, folder in runs:
        if experiment.engine.backend not in HERE:
            raise ConfigError(
                f"{folder.label}: engine.backend = {experiment.engine.backend!r} has workers of its own, and its runs "
                "are played one after the other; leave out jobs"
            )
    failed: dict[str, EntrofedError] = {}
    left = iter(runs)
    with players(min(jobs, len(runs))) as everybody:

        def begin(player: Player) -> None:
            player.run = next(left, None)
            if player.run is not None:
                watch.run_started(*player.run)
                player.play(player.run, data_directory, how)

        for player in everybody:
            begin(player)
        while busy := [player for player in everybody if player.run is not None]:
            for player, run, said in heard(busy):
                if isinstance(said, RoundRecord):
                    watch.round_finished(*run, said)
                    continue
                if isinstance(said, EntrofedError):
                    if not keep_going:
                        raise said
                    failed[str(run[1].path)] = said
                    watch.run_failed(run[1], said)
                else:
                    watch.run_finished(run[1], said)
                begin(player)
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
