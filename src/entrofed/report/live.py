"""A page that follows its runs."""

import time
from collections.abc import Callable
from pathlib import Path

from entrofed.experiment.run_folder import RunFolder
from entrofed.report.page import write_report

Stamp = tuple[Path, int, int]


def live(
    runs_of: Callable[[], list[RunFolder]],
    output: Path,
    every: float,
    stop: Callable[[], bool],
    title: str | None = None,
    target: float | None = None,
) -> None:
    """Write the page anew whenever its runs have got on, until no process plays one of them or ``stop`` says so.

    The page reloads itself every so many seconds; the last one written does not.
    """
    before: list[Stamp] = []
    runs: list[RunFolder] = []
    while not stop():
        runs = [run for run in runs_of() if run.exists()]
        if runs and not any(is_played(run) for run in runs):
            break
        now = _stamps(runs)
        if now != before:
            before = now
            write_report(runs, output, title=title, refresh=every, target=target)
        time.sleep(every)
    if runs:
        write_report(runs, output, title=title, target=target)


def is_played(run: RunFolder) -> bool:
    """Whether a run may get on: it has no summary, and a process holds its folder."""
    return not (run.path / "summary.json").exists() and run.is_held()


def _stamps(runs: list[RunFolder]) -> list[Stamp]:
    """What changes when a run gets on."""
    found: list[Stamp] = []
    for run in runs:
        for name in ("experiment.toml", "metrics.jsonl", "summary.json"):
            path = run.path / name
            if path.exists():
                status = path.stat()
                found.append((path, status.st_mtime_ns, status.st_size))
    return found
