"""The rounds of one run: start or resume, record, checkpoint, stop. Simulations and Flower strategies run on it."""

import logging
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import IO, Any

from entrofed.core.params import Layout
from entrofed.core.records import RoundRecord, Stopwatch
from entrofed.core.types import State
from entrofed.errors import CheckpointError, LostModelsError, QuorumError
from entrofed.experiment.beside import Beside
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStates, ClientStateStore
from entrofed.experiment.judge import Best, Judge
from entrofed.experiment.model_file import ModelFile
from entrofed.experiment.run_folder import RunFolder, json_line
from entrofed.experiment.summary import diverged
from entrofed.files import open_own

log = logging.getLogger("entrofed")

Observer = Callable[[RoundRecord], None]
PlayRound = Callable[[State], tuple[State, RoundRecord]]

MAX_TRIES = 5
"""How often a run goes back by itself."""


class Runner:
    """Plays rounds, and keeps what is needed to go on: the one place for records, checkpoints, resume, quorum stops.

    ``checkpoint_seconds``: between checkpoints, which are written while the run goes on; 0 makes one after every round,
    and the run waits for it. ``before_save`` writes what else belongs
    to a checkpoint. ``model``: where the best model goes, as the ``judge`` finds; without a judge, the last. Without a
    folder nothing is kept.
    """

    def __init__(
        self,
        folder: RunFolder | None,
        layout: Layout,
        *,
        max_skipped: int,
        quorum: int,
        checkpoint_seconds: float = 0.0,
        memory_bytes: float = 256e6,
        before_save: Callable[[], None] = lambda: None,
        judge: Judge | None = None,
        model: ModelFile | None = None,
    ) -> None:
        self.folder, self._max_skipped, self._quorum = folder, max_skipped, quorum
        self.checkpoint_seconds, self._before_save = checkpoint_seconds, before_save
        self._judge, self._model = judge, model
        self.client_states: Any = {}
        self._checkpoints: Checkpoints | None = None
        if folder is not None:
            store = ClientStateStore(folder.path / "memory", memory_bytes)
            self.client_states = ClientStates(store)
            self._checkpoints = Checkpoints(folder.checkpoints, layout, store)
        self._best = Best()
        self._best_state: State | None = None
        """Until its model is stored."""
        self._file: IO[str] | None = None
        self._beside = Beside()

    def begin(self, first: Callable[[], State], *, resume: bool, start_over: bool = False) -> None:
        """Start from the state that ``first`` makes, or from the last intact checkpoint.

        ``start_over``: where there are checkpoints and none is intact, put the records aside and begin anew; else that
        is an error.
        """
        self._first = first
        self.state = (self._restored(start_over) if resume else None) or first()
        if self.folder is not None:
            self.folder.keep_rounds(self.state.round)
        self._saved, self._saved_at = self.state.round, time.monotonic()

    def _restored(self, start_over: bool) -> State | None:
        """The last intact checkpoint; None where nothing was saved."""
        if self._checkpoints is None:
            return None
        state, problems = self._checkpoints.last()
        for problem in problems:
            log.warning("%s; going back to the checkpoint before", problem)
        if state is None and problems and not start_over:
            raise CheckpointError(
                f"{self._checkpoints.folder}: no checkpoint can be used: {'; '.join(problems)}. Bring back the files "
                "as they were, take another folder, or begin anew with from_scratch = True"
            )
        if state is None and problems and self.folder is not None:
            log.warning("beginning anew; the records so far are in %s", self.folder.start_over())
        if state is not None:
            self._checkpoints.prune(state.round)
        self._best = self._model.best() if self._model is not None and state is not None else Best()
        self._best_state = None
        log.info("resumed at round %d", 0 if state is None else state.round)
        return state

    @property
    def stopped(self) -> str | None:
        """Why the run ended before its last round; None if it did not."""
        return None if self._judge is None else self._judge.end(self.state.round, self._best)

    def play(self, play_round: PlayRound, rounds: int, observer: Observer = lambda record: None) -> None:
        """Play the rounds that are left, going back to the last checkpoint if models are lost with a machine."""
        tries = 0
        while True:
            try:
                with self._recording():
                    while self.state.round < rounds and self.stopped is None:
                        self._commit(*play_round(self.state), observer)
                if self._model is not None and not self._model.path.exists():
                    self._model.write(self.state, "the last; the run was played by an earlier version")
                return
            except LostModelsError as error:
                tries += 1
                if tries > MAX_TRIES or self.folder is None:
                    raise
                self.begin(self._first, resume=True)
                log.warning("%s; going back to round %d", error, self.state.round)

    def _commit(self, state: State, record: RoundRecord, observer: Observer) -> None:
        """Go over to the state after a round, once its record is written: a checkpoint never gets ahead of records."""
        accuracy, record = self._judged(state, record)
        if self._file is not None:
            self._file.write(json_line(record))
            self._file.flush()
        self.state = state
        if accuracy is not None and accuracy > self._best.accuracy:
            self._best, self._best_state = Best(accuracy, state.round), replace(state, client_states={})
        if time.monotonic() - self._saved_at >= self.checkpoint_seconds and not self._beside.busy:
            self._save(wait=not self.checkpoint_seconds)
        observer(record)
        if state.skipped >= self._max_skipped:
            where = "" if self.folder is None else f"{self.folder.label}: "
            if record.reason is not None and "quorum" not in record.reason:
                why = "; ".join(words for words in (record.reason, diverged(record)) if words)
                raise QuorumError(f"{where}{state.skipped} rounds in a row came to nothing; the last: {why}")
            raise QuorumError(
                f"{where}{state.skipped} rounds in a row had fewer than {self._quorum} usable updates (method.quorum); "
                f"{diverged(record) or _reasons(record)}"
            )

    def _judged(self, state: State, record: RoundRecord) -> tuple[float | None, RoundRecord]:
        """The accuracy that counts, and the record with the time that it took, and with it if it may end the run."""
        if self._judge is None:
            return None, record
        watch = Stopwatch()
        accuracy = self._judge.accuracy(state, record)
        watch.lap("evaluate")
        if accuracy is None:
            return None, record
        seconds = {**record.seconds, "evaluate": record.seconds.get("evaluate", 0.0) + watch.seconds["evaluate"]}
        return accuracy, replace(record, seconds=seconds, judged=accuracy if self._judge.ends_runs else None)

    @contextmanager
    def _recording(self) -> Iterator[None]:
        """Hold the file of records open; whatever happens, what was played is saved."""
        if self.folder is None:
            yield
            return
        with open_own(self.folder.path / "metrics.jsonl") as self._file:
            try:
                yield
            except LostModelsError:
                with suppress(LostModelsError):
                    self._beside.wait()
                raise  # there is nothing to save
            except BaseException:
                self._save(wait=True)
                raise
            else:
                self._save(wait=True)
            finally:
                self._file = None

    def _save(self, *, wait: bool) -> None:
        """Make a checkpoint of where the run is; a state never changes, so that the run can go on meanwhile."""
        self._beside.wait()
        if self._checkpoints is None or self._file is None or self.state.round <= self._saved:
            return
        self._before_save()
        self._beside.start(
            partial(self._write, self._checkpoints, self._file, self.state, self._best_state, self._best)
        )
        self._saved, self._saved_at, self._best_state = self.state.round, time.monotonic(), None
        if wait:
            self._beside.wait()

    def _write(
        self, checkpoints: Checkpoints, records: IO[str], state: State, best_state: State | None, best: Best
    ) -> None:
        os.fsync(records.fileno())  # every record is flushed when it is written
        self._write_model(state, best_state, best)
        checkpoints.save(state)
        if self.folder is not None:
            self.folder.forget_replaced()

    def _write_model(self, state: State, best_state: State | None, best: Best) -> None:
        if self._judge is None or self._model is None:
            return
        if self._judge.on is None:
            self._model.write(state, "the last; there is no held-out data and no validation set to choose by")
        elif best_state is not None:
            self._model.write(best_state, self._judge.reason(best), best.accuracy)


def _reasons(record: RoundRecord) -> str:
    """Why updates of a round were refused, the most frequent reason first."""
    counted = Counter(refusal.reason for refusal in record.refused).most_common(3)
    found = ", ".join(f"{reason} ({count} clients)" for reason, count in counted)
    return f"in the last: {found}" if found else "nobody was there"
