"""What is printed where there is no terminal."""

import io
from pathlib import Path

from rich.console import Console

from entrofed.cli.progress import SILENCE, RunProgress
from entrofed.core.records import RoundRecord
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder


def lines(seconds_per_round: float, rounds: int = 100) -> list[str]:
    """Of a run whose rounds take so long."""
    now, out = 0.0, io.StringIO()
    experiment = parse({"rounds": rounds, "data": {"name": "digits", "clients": 3}})
    folder = RunFolder(Path("x/seed-0"))
    with RunProgress(Console(file=out, width=80), 1, clock=lambda: now).shown() as progress:
        progress.run_started(experiment, folder)
        for number in range(rounds):
            now += seconds_per_round
            progress.round_finished(experiment, folder, RoundRecord(number))
    return [line.split()[1].partition("/")[0] for line in out.getvalue().splitlines()[1:]]


def test_fast_rounds_are_told_by_count() -> None:
    assert lines(0.1) == ["20", "40", "60", "80", "100"]


def test_slow_rounds_are_told_by_time_as_well() -> None:
    """Never more than half a minute without a line, as far as rounds end in it."""
    assert SILENCE == 30
    assert lines(4.0, 20) == ["4", "8", "12", "16", "20"]
    assert lines(4.0)[:5] == ["8", "16", "20", "28", "36"]
    assert lines(50.0) == [str(number) for number in range(1, 101)]
