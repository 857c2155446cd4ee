"""What a person sees while something runs: live bars on a terminal, plain lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)

from entrofed.cli.console import in_options
from entrofed.core.records import RoundRecord
from entrofed.errors import EntrofedError
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder
from entrofed.suite.play import PlayObserver, Runs, play
from entrofed.suite.words import rounds_words, summary_words

LINES = 5
"""Lines that a run prints where there is no terminal, and more where they would come too far apart."""
SILENCE = 30.0
"""Seconds without a line after which the next round has one."""


class TimeUpError(Exception):
    """The time that was given is spent; what was played is kept."""


def play_all(
    runs: Runs,
    console: Console,
    data_directory: Path | None,
    *,
    keep_going: bool = False,
    jobs: int = 1,
    until: float | None = None,
    **how: bool,
) -> dict[str, EntrofedError]:
    """Play runs as :func:`entrofed.suite.play.play` does, ``how`` included, and show how they get on.

    ``until``: a time on the monotonic clock; a TimeUpError ends the first round after it.
    """
    with RunProgress(console, len(runs), until).shown() as observer:
        try:
            return play(
                runs,
                data_directory=data_directory,
                keep_going=keep_going,
                observer=observer,
                simulators={"flower": _on_flower},
                jobs=jobs,
                **how,
            )
        except KeyboardInterrupt as stopped:
            files = [folder.path / "metrics.jsonl" for _, folder in runs]
            some = any(file.exists() and file.stat().st_size for file in files)
            stopped.add_note("finished rounds are kept" if some else "no round was finished")
            raise


def _on_flower(experiment: Experiment, folder: RunFolder, **options: Any) -> dict[str, Any]:
    from entrofed.flower.experiment import simulate

    return simulate(experiment, folder, **options)


class RunProgress(PlayObserver):
    """A bar for each run that is played and one for all; where there is no terminal, a few lines for each run.

    ``clock``: seconds that never go back, which ``until`` is a time of.
    """

    def __init__(
        self, console: Console, runs: int, until: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console, self._until, self._clock = console, until, clock
        self._told = clock()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeRemainingColumn(),
            console=console,
            disable=not console.is_terminal,
        )
        self._all = self._progress.add_task("all runs", total=runs, note="", visible=runs > 1)
        self._runs: dict[Path, TaskID] = {}
        self._together = False  # several at once, now or before: a line says whose it is

    @contextmanager
    def shown(self) -> Iterator["RunProgress"]:
        """Keep the bars on the terminal for a while."""
        with self._progress:
            yield self

    def run_started(self, experiment: Experiment, folder: RunFolder) -> None:
        """A new bar."""
        self._runs[folder.path] = self._progress.add_task(escape(folder.label), total=experiment.rounds, note="")
        self._together = self._together or len(self._runs) > 1
        if not self._console.is_terminal:
            self._print(f"{folder.label}: {rounds_words(experiment.rounds)}")

    def round_finished(self, experiment: Experiment, folder: RunFolder, record: RoundRecord) -> None:
        """The bar gets on; or, of some rounds, a line."""
        done, note = record.round + 1, _note(record)
        if folder.path in self._runs:
            self._progress.update(self._runs[folder.path], completed=done, note=note)
        due = done % max(1, experiment.rounds // LINES) == 0 or self._clock() - self._told >= SILENCE
        if due and not self._console.is_terminal:
            which = f"{folder.label} " if self._together else ""
            self._print(f"{which}round {done}/{experiment.rounds}  {note}")
        if self._until is not None and self._clock() > self._until:
            raise TimeUpError

    def run_finished(self, folder: RunFolder, summary: dict[str, Any]) -> None:
        """How it came out."""
        self._next(folder)
        outcome = f"accuracy {summary['accuracy']:.4f} after {rounds_words(summary['rounds'])}"
        self._print(f"{folder.label}: {outcome}, {summary['seconds']:.1f} s; in {folder.path}")
        for words in summary_words(summary):
            self._print(words)

    def run_failed(self, folder: RunFolder, error: EntrofedError) -> None:
        """Why."""
        self._next(folder)
        self._console.print(f"[red]failed:[/red] {escape(in_options(f'{folder.label}: {error}'))}", soft_wrap=True)

    def _next(self, folder: RunFolder) -> None:
        if folder.path in self._runs:
            self._progress.remove_task(self._runs.pop(folder.path))
        self._progress.advance(self._all)

    def _print(self, words: str) -> None:
        self._told = self._clock()
        self._console.print(words, highlight=False, markup=False, soft_wrap=True)


def _note(record: RoundRecord) -> str:
    parts = []
    if record.train_loss is not None:
        parts.append(f"loss {record.train_loss:{'.3f' if record.train_loss < 1e6 else '.3g'}}")
    if record.test is not None:
        parts.append(f"accuracy {record.test.accuracy:.4f}")
    if record.refused:
        parts.append(f"{len(record.refused)} refused")
    return "  ".join(parts)


@contextmanager
def download_progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar for each file that is downloaded."""
    tasks: dict[str, TaskID] = {}
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    ) as progress:

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total)
            progress.update(tasks[name], completed=done)

        yield report
