"""One run of an experiment, in a folder.

>>> from entrofed.experiment.config import parse
>>> experiment = parse({"rounds": 2, "data": {"name": "iris", "clients": 3}, "model": "iris_mlp"})
>>> experiment.rounds
2
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from entrofed.backends import Backend, backend_of
from entrofed.client.metrics import CLIENT_ACCURACY
from entrofed.core.gossip import gossip_round
from entrofed.core.records import RoundRecord
from entrofed.core.round import run_round, tell_once
from entrofed.experiment.build import Setup, client_table, first_state_of, job_of, prepare, release_once
from entrofed.experiment.config import Experiment
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.experiment.judge import Judge
from entrofed.experiment.model_file import ModelFile
from entrofed.experiment.rounds import Observer, Runner
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.summary import summarize
from entrofed.experiment.tracked import tracked_run
from entrofed.tracking import Tracker, Trackers, trackers_of

log = logging.getLogger("entrofed")


def run(
    experiment: Experiment,
    folder: RunFolder,
    *,
    backend: Backend | None = None,
    data_directory: Path | None = None,
    resume: bool = False,
    observer: Observer = lambda record: None,
    setup: Setup | None = None,
    trackers: Sequence[Tracker] = (),
) -> dict[str, Any]:
    """Run an experiment in a folder, from the start or from its last checkpoint; returns the summary.

    ``setup``: what :func:`~entrofed.experiment.build.prepare` made of it, if that is at hand. ``trackers`` are told of
    the run beside those that the experiment names.

    Streams of randomness are keyed by round, so a resumed run draws what the unbroken run would have drawn:
    the models and records are the same, bit for bit.
    """
    with folder.claimed():
        folder.check(experiment, resume=resume)
        setup = setup or prepare(experiment, data_directory)
        folder.check_data(setup.federation)
        told = Trackers([*trackers_of(experiment.track, folder.path), *trackers])
        folder.start(experiment, setup.method)
        folder.keep_federation(setup.federation, own=experiment.data.path is not None)
        engine, method = experiment.engine, experiment.method
        used = backend or backend_of(engine.backend, engine.workers, engine.timeout)
        try:
            with _logging_to(folder.path / "log.txt"):
                released = release_once(setup, folder)
                used.open(setup.workload)
                job = tell_once(job_of(setup, client_table(setup, released)), setup.params, used)
                evaluation = FederationEvaluation(
                    setup.federation, job.rules, used, setup.metrics, by_client=CLIENT_ACCURACY in experiment.metrics
                )
                runner = Runner(
                    folder,
                    setup.layout,
                    max_skipped=method.max_skipped,
                    quorum=method.quorum,
                    checkpoint_seconds=experiment.checkpoint_seconds,
                    memory_bytes=engine.memory_mb * 1e6,
                    judge=Judge(experiment, setup.judged, job.rules, evaluation),
                    model=ModelFile.of(folder.path, setup.build, setup.federation),
                )
                runner.begin(first_state_of(job, setup.params, runner.client_states), resume=resume)
                if job.network is None:
                    job = replace(job, predict=evaluation.predict)
                play = run_round if job.network is None else gossip_round

                def seen(record: RoundRecord) -> None:
                    told.log(record)
                    observer(record)

                summary: dict[str, Any] | None = None
                told.start(tracked_run(folder), folder.records())
                try:
                    runner.play(lambda state: play(job, state, used, evaluation), experiment.rounds, seen)
                    summary = summarize(folder.records())
                    summary["privacy"] = None if released is None else released.spent
                    if experiment.stop is not None:
                        summary["stopped"] = runner.stopped
                    folder.finish(summary)
                finally:
                    told.finish(summary)
                return summary
        finally:
            if backend is None:
                used.close()


def is_finished(experiment: Experiment, folder: RunFolder) -> bool:
    """Whether the folder holds this very experiment, played to its end."""
    if not folder.exists() or folder.summary() is None:
        return False
    return folder.experiment().decisive() == experiment.decisive()


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
