"""What a person sees while something runs: live bars on a terminal, plain lines elsewhere."""

from collections.abc import Callable, Iterator, Sequence
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

from entrofed.backends import open_backend
from entrofed.backends.base import Backend
from entrofed.cli.tables.runs import privacy_words
from entrofed.errors import EntrofedError
from entrofed.experiment.config import EngineSection, Experiment
from entrofed.experiment.run_folder import Record, RunFolder
from entrofed.experiment.runner import run

LINES = 5
"""Lines that a run prints where there is no terminal."""


def play_all(
    runs: Sequence[tuple[Experiment, RunFolder]],
    console: Console,
    data_directory: Path | None,
    *,
    resume: bool,
    keep_going: bool = False,
) -> dict[str, EntrofedError]:
    """Run experiments one after the other, on one set of workers as long as the engine stays the same.

    ``keep_going``: a run that fails does not keep the others from being played; returned is what went wrong.
    """
    failed: dict[str, EntrofedError] = {}
    backend: Backend | None = None
    engine = None
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    try:
        with progress:
            overall = progress.add_task("all runs", total=len(runs), note="", visible=len(runs) > 1)
            for experiment, folder in runs:
                if engine != experiment.engine:
                    if backend is not None:
                        backend.close()
                    backend, engine = _open(experiment.engine), experiment.engine
                task = progress.add_task(folder.label, total=experiment.rounds, note="")

                def observe(record: Record, task: TaskID = task, rounds: int = experiment.rounds) -> None:
                    note = _note(record)
                    progress.update(task, completed=record["round"] + 1, note=note)
                    every = max(1, rounds // LINES)
                    if not console.is_terminal and (record["round"] + 1) % every == 0:
                        console.print(f"round {record['round'] + 1}/{rounds}  {note}", highlight=False)

                if not console.is_terminal:
                    console.print(f"{folder.label}: {_rounds(experiment.rounds)}", highlight=False)
                try:
                    options = {"data_directory": data_directory, "resume": resume, "observer": observe}
                    summary = _play(experiment, folder, backend, options)
                except EntrofedError as error:
                    if not keep_going:
                        raise
                    failed[str(folder.path)] = error
                    console.print(f"[red]failed:[/red] {escape(f'{folder.label}: {error}')}", soft_wrap=True)
                    continue
                finally:
                    progress.remove_task(task)
                    progress.advance(overall)
                played = _rounds(summary["rounds"])
                outcome = f"accuracy {summary['accuracy']:.4f} after {played}, {summary['seconds']:.1f} s"
                console.print(f"{folder.label}: {outcome}; in {folder.path}", highlight=False, soft_wrap=True)
                if words := privacy_words(summary):
                    console.print(words, highlight=False)
    finally:
        if backend is not None:
            backend.close()
    return failed


def _rounds(number: int) -> str:
    """In words.

    >>> _rounds(1), _rounds(2)
    ('1 round', '2 rounds')
    """
    return f"{number} round{'s' * (number != 1)}"


def _open(engine: EngineSection) -> Backend | None:
    """The backend of an engine; Flower brings its own grid for every run."""
    return None if engine.backend == "flower" else open_backend(engine)


def _play(
    experiment: Experiment, folder: RunFolder, backend: Backend | None, options: dict[str, Any]
) -> dict[str, Any]:
    if experiment.engine.backend == "flower":
        from entrofed.flower.experiment import simulate

        return simulate(experiment, folder, **options)
    return run(experiment, folder, backend=backend, **options)


def _note(record: Record) -> str:
    parts = []
    if record["train_loss"] is not None:
        parts.append(f"loss {record['train_loss']:.3f}")
    if record["test"] is not None:
        parts.append(f"accuracy {record['test']['accuracy']:.4f}")
    if record["refused"]:
        parts.append(f"{len(record['refused'])} refused")
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
