"""The rounds of one experiment: start or resume, checkpoint, record, stop.

>>> from entrofed.experiment.config import parse
>>> experiment = parse({"rounds": 2, "data": {"name": "iris", "clients": 3}, "model": "iris_mlp"})
>>> experiment.rounds
2
"""

import logging
import os
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

from entrofed.backends import open_backend
from entrofed.backends.base import Backend
from entrofed.core.round import run_round
from entrofed.core.types import State
from entrofed.errors import ConfigError, LostModelsError, QuorumError
from entrofed.experiment.build import Setup, open_ledger, prepare, release_once, rules_of
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import Memories, Pool
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import Record, RunFolder, json_line
from entrofed.experiment.toml import flat

log = logging.getLogger("entrofed")

Observer = Callable[[Record], None]

MOST_TRIES = 5
"""How often a run goes back by itself."""


def run(
    experiment: Experiment,
    folder: RunFolder,
    *,
    backend: Backend | None = None,
    data_directory: Path | None = None,
    resume: bool = False,
    observer: Observer = lambda record: None,
) -> dict[str, Any]:
    """Run an experiment in a folder, from the start or from its last checkpoint; returns the summary.

    Streams of randomness are keyed by round, so a resumed run draws what the unbroken run would have drawn:
    the models and records are the same, bit for bit.
    """
    with folder.claimed():
        _check(folder, experiment, resume)
        setup = prepare(experiment, data_directory)
        folder.start(experiment)
        folder.keep_federation(setup.federation)
        handler = _log_to(folder.path / "log.txt")
        used = backend or open_backend(experiment.engine)
        try:
            return _Run(experiment, folder, setup, used, resume).play(observer)
        finally:
            if backend is None:
                used.close()
            log.removeHandler(handler)
            handler.close()


def is_finished(experiment: Experiment, folder: RunFolder) -> bool:
    """Whether the folder holds this very experiment, played to its end."""
    if not folder.exists() or folder.summary() is None:
        return False
    return folder.experiment().decisive() == experiment.decisive()


class _Run:
    """One pass through the rounds."""

    def __init__(
        self,
        experiment: Experiment,
        folder: RunFolder,
        setup: Setup,
        backend: Backend,
        resume: bool,
    ) -> None:
        self.experiment, self.folder, self.backend = experiment, folder, backend
        self.federation, self.layout = setup.federation, setup.layout
        self.method = experiment.method.recipe()
        pool = Pool(folder.path / "memory", experiment.engine.memory_mb * 1e6)
        self.checkpoints = Checkpoints(folder.checkpoints, self.layout, pool)
        self.rules = rules_of(experiment, self.federation)
        released = release_once(experiment, setup.federation, self.method, folder)
        self.spent = released.spent if released is not None else None
        self.ledger = open_ledger(experiment, setup, self.method, released)
        self.round = run_round
        if setup.network is None:
            selector = self.method.selector.init(self.ledger, self.federation.participants)
            server = self.method.server.init(setup.params, self.ledger, self.federation.participants)
        else:
            from entrofed.core.gossip import begin, gossip_round

            selector, server = {}, begin(self.method, setup.params, self.ledger, setup.network)
            self.round = partial(gossip_round, network=setup.network)
        self.state = State(
            round=0,
            params=setup.params,
            selector=selector,
            server=server,
            memory=Memories(pool),
        )
        self.first = self.state
        if resume:
            self._restore()
        folder.keep_rounds(self.state.round)
        self.best = self.checkpoints.best_accuracy() if self.state.round else float("-inf")
        backend.host(self.federation, setup.build, self.layout, compiled=experiment.engine.compile)

    def _restore(self) -> None:
        state, problems = self.checkpoints.last()
        for problem in problems:
            log.warning("%s; going back to the checkpoint before", problem)
        if state is not None:
            self.state = state
            self.checkpoints.prune(state.round)
        log.info("resumed at round %d", self.state.round)

    def play(self, observer: Observer) -> dict[str, Any]:
        """Play the rounds that are left, going back to the last checkpoint if models are lost with a machine."""
        tries = 0
        while True:
            try:
                self._play_rounds(observer)
                break
            except LostModelsError as error:
                tries += 1
                if tries > MOST_TRIES:
                    raise
                self.state = self.checkpoints.last()[0] or self.first
                self.folder.keep_rounds(self.state.round)
                self.best = self.checkpoints.best_accuracy() if self.state.round else float("-inf")
                log.warning("%s; going back to round %d", error, self.state.round)
        summary = {**summarize(self.folder.records()), "privacy": self.spent}
        self.folder.finish(summary)
        return summary

    def _play_rounds(self, observer: Observer) -> None:
        rounds, every = self.experiment.rounds, self.experiment.checkpoint_seconds
        saved, saved_at = self.state.round, time.monotonic()
        best_state: State | None = None
        with (self.folder.path / "metrics.jsonl").open("a", encoding="utf-8") as metrics:

            def save() -> None:
                metrics.flush()
                os.fsync(metrics.fileno())
                if best_state is not None:
                    self.checkpoints.save_best(best_state, self.best)
                self.checkpoints.save(self.state)

            try:
                while self.state.round < rounds:
                    after, record = self.round(
                        self.state, self.method, self.rules, self.ledger, self.federation, self.layout, self.backend
                    )
                    metrics.write(json_line(record))
                    metrics.flush()
                    self.state = after  # only now: a checkpoint never gets ahead of the records
                    if record["test"] is not None and record["test"]["accuracy"] > self.best:
                        self.best, best_state = record["test"]["accuracy"], replace(self.state, memory={})
                    observer(record)
                    if self.state.skipped >= self.experiment.method.max_skipped:
                        raise QuorumError(
                            f"{self.folder.label}: {self.state.skipped} rounds in a row had fewer than "
                            f"{self.rules.quorum} usable updates (method.quorum); the reasons are in log.txt"
                        )
                    if time.monotonic() - saved_at >= every:
                        save()
                        best_state, saved, saved_at = None, self.state.round, time.monotonic()
            except LostModelsError:
                saved = self.state.round  # there is nothing to save
                raise
            finally:
                if self.state.round > saved:
                    save()


def summarize(records: list[Record]) -> dict[str, Any]:
    """The figures people compare: final, mean of the last ten evaluations, best; traffic and time."""
    tests = [record["test"] for record in records if record["test"] is not None]
    accuracies = [test["accuracy"] for test in tests]
    inside = [record["id"]["accuracy"] for record in records if record["id"] is not None]
    return {
        "rounds": len(records),
        "accuracy": accuracies[-1],
        "accuracy_last_10": mean(accuracies[-10:]),
        "accuracy_best": max(accuracies),
        "accuracy_id": inside[-1] if inside else None,
        "accuracy_id_last_10": mean(inside[-10:]) if inside else None,
        "macro_f1": tests[-1]["macro_f1"],
        "weighted_f1": tests[-1]["weighted_f1"],
        "loss": tests[-1]["loss"],
        "bytes": sum(record["bytes_up"] + record["bytes_down"] for record in records),
        "refused": sum(len(record["refused"]) for record in records),
        "skipped": sum(record["skipped"] for record in records),
        "seconds": sum(sum(v for k, v in record["seconds"].items() if k != "clients") for record in records),
    }


def _check(folder: RunFolder, experiment: Experiment, resume: bool) -> None:
    if not folder.exists():
        return
    if not resume:
        raise ConfigError(
            f"{folder.path}: there is a run already; continue it with --resume, or replace it with --overwrite"
        )
    before, now = flat(folder.experiment().decisive()), flat(experiment.decisive())
    come_and_go = experiment.faults.joining or experiment.faults.leaving  # at moments that depend on the rounds
    free = set() if come_and_go else {"rounds"}
    changed = [key for key in now if before.get(key) != now[key] and key not in free]
    if changed:
        raise ConfigError(
            f"{folder.path}: the run was started with another configuration; changed: {', '.join(changed)}. "
            "Take another name, or replace the run with --overwrite"
        )


def _log_to(path: Path) -> logging.FileHandler:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return handler
