"""One run of an experiment, in a folder.

>>> from entrofed.experiment.config import parse
>>> experiment = parse({"rounds": 2, "data": {"name": "iris", "clients": 3}, "model": "iris_mlp"})
>>> experiment.rounds
2
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from entrofed.backends import Backend, backend_of
from entrofed.backends.stacked import StackedBackend
from entrofed.client.metrics import CLIENT_ACCURACY
from entrofed.core.ending import finish_run
from entrofed.core.gossip import gossip_round
from entrofed.core.job import Job
from entrofed.core.records import RoundRecord
from entrofed.core.round import Train, run_round, tell_once
from entrofed.core.types import PartState, State
from entrofed.experiment.build import (
    Setup,
    check_protection,
    client_table,
    first_state_of,
    job_of,
    pool_once,
    prepare,
    protected,
    release_once,
)
from entrofed.experiment.config import Experiment
from entrofed.experiment.evaluation import FederationEvaluation
from entrofed.experiment.idle import never_acted
from entrofed.experiment.judge import Judge
from entrofed.experiment.model_file import AT_END, ModelFile
from entrofed.experiment.rounds import Observer, Runner
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.summary import summarize
from entrofed.experiment.tracked import tracked_run
from entrofed.files import open_own
from entrofed.privacy.budget import BudgetError
from entrofed.tracking import Tracker, Trackers, trackers_of

log = logging.getLogger("entrofed")


def run(
    experiment: Experiment,
    folder: RunFolder,
    *,
    backend: Backend | None = None,
    data_directory: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
    from_scratch: bool = False,
    observer: Observer = lambda record: None,
    setup: Setup | None = None,
    trackers: Sequence[Tracker] = (),
    train: Train | None = None,
) -> dict[str, Any]:
    """Run an experiment in a folder, from the start or from its last checkpoint; returns the summary.

    ``overwrite``: a run that lies here is replaced; it is deleted when the new one has come to its first checkpoint.
    ``from_scratch``: where no checkpoint is intact, begin anew instead of raising a CheckpointError.

    ``setup``: what :func:`~entrofed.experiment.build.prepare` made of it, if that is at hand. ``trackers`` are told of
    the run beside those that the experiment names. ``train``: how the tasks of a round are done, if not by the backend.

    Streams of randomness are keyed by round, so a resumed run draws what the unbroken run would have drawn:
    the models and records are the same, bit for bit.
    """
    setup = setup or prepare(experiment, data_directory)
    check_protection(setup)
    with folder.claimed():  # what is refused before leaves nothing behind
        folder.check(experiment, resume=resume, overwrite=overwrite)
        if overwrite:
            folder.move_aside()
        folder.check_data(setup.federation)
        told = Trackers([*trackers_of(experiment.track, folder.path), *trackers])
        folder.start(experiment, setup.method)
        folder.keep_federation(setup.federation, own=experiment.data.path is not None)
        engine, method = experiment.engine, experiment.method
        used = backend or backend_of(engine.backend, engine.workers, engine.timeout)
        stacked = None if setup.stacking.form is None else StackedBackend(used)
        used = stacked or used
        try:
            with logging_to(folder.path / "log.txt"):
                released = release_once(setup, folder)
                setup = pool_once(setup, released)
                used.open(setup.workload)
                job = tell_once(job_of(setup, client_table(setup, released)), setup.params, used)
                job, protection = protected(setup, job)
                real_noise = (
                    protection is not None and experiment.privacy is not None and not experiment.privacy.simulate
                )
                evaluation = FederationEvaluation(
                    setup.federation,
                    job.rules,
                    used,
                    setup.metrics,
                    by_client=CLIENT_ACCURACY in experiment.metrics,
                    parts=experiment.evaluate_on,
                )
                model = ModelFile.of(folder.path, setup.build, setup.federation)
                runner = Runner(
                    folder,
                    setup.layout,
                    max_skipped=method.max_skipped,
                    quorum=method.quorum,
                    checkpoint_seconds=0.0 if real_noise else experiment.checkpoint_seconds,
                    memory_bytes=engine.memory_mb * 1e6,
                    judge=Judge(experiment, setup.judged, job.rules, evaluation),
                    model=model,
                )
                first = partial(_first, setup, job, runner.client_states)
                runner.begin(first, resume=resume, start_over=from_scratch)
                if job.network is None:
                    job = replace(job, predict=evaluation.predict)
                play = partial(run_round, train=train) if job.network is None else gossip_round

                def seen(record: RoundRecord) -> None:
                    told.log(record)
                    observer(record)

                summary: dict[str, Any] | None = None
                told.start(tracked_run(folder), folder.records())
                try:
                    rounds, stopped = (experiment.rounds, None) if protection is None else protection.limit
                    try:
                        runner.play(lambda state: play(job, state, used, evaluation), rounds, seen)
                    except BudgetError as spent:
                        stopped = str(spent)
                    summary = summarize(records := folder.records())
                    if idle := never_acted(job, records, runner.state):
                        summary["never_acted"] = idle
                    if (ended := finish_run(job, runner.state, used)) is not None:
                        summary["at_end"] = evaluation.of_test(ended.params).to_json() | {"bytes": ended.traffic.total}
                        why = f"made at the end by the server rule {setup.method.server.name!r}"
                        replace(model, path=folder.path / AT_END).write(replace(runner.state, params=ended.params), why)
                    summary["privacy"] = None if released is None else released.spent
                    if protection is not None:
                        summary["privacy"] = {
                            **(summary["privacy"] or {}),
                            "updates": protection.spent(job, runner.state),
                        }
                    if engine.stack is not False:
                        summary["stack"] = setup.stacking.record(stacked)
                    if experiment.stop is not None or stopped is not None:
                        summary["stopped"] = runner.stopped or stopped
                    folder.finish(summary)
                finally:
                    told.finish(summary)
                return summary
        finally:
            if backend is None:
                used.close()


def _first(setup: Setup, job: Job, client_states: Mapping[int, PartState]) -> State:
    """Where the run begins, made anew each time: it is as large as the model."""
    return first_state_of(job, setup.params, client_states)


def is_finished(experiment: Experiment, folder: RunFolder) -> bool:
    """Whether the folder holds this very experiment, played to its end."""
    if not folder.exists() or folder.summary() is None:
        return False
    return folder.experiment().decisive() == experiment.decisive()


@contextmanager
def logging_to(path: Path) -> Iterator[None]:
    """Within the block, what is logged also goes to a file."""
    handler = logging.StreamHandler(file := open_own(path))
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        handler.close()
        file.close()
