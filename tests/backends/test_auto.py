"""Small work is done here, larger work by workers, with the same bits."""

from dataclasses import replace

import numpy as np
import pytest
from tests.conftest import Bench

from entrofed.backends import auto
from entrofed.backends.auto import AutoBackend
from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.core.tasks import EvaluateTask
from entrofed.data.federation import Federation


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many workers were started, each time; they are no processes here."""
    found: list[int] = []

    class Watched(InlineBackend):
        def __init__(self, workers: int, *, timeout: float) -> None:
            super().__init__()
            found.append(workers)

    monkeypatch.setattr("entrofed.backends.processes.ProcessBackend", Watched)
    monkeypatch.setattr(auto, "InlineBackend", type("Here", (InlineBackend,), {}))
    return found


@pytest.fixture
def workload(digits: Federation, bench: Bench) -> Workload:
    return Workload(digits, bench.build, bench.layout)


@pytest.fixture
def tasks(bench: Bench) -> list[EvaluateTask]:
    return [EvaluateTask(bench.params, "test", np.arange(first, first + 20)) for first in (0, 20)]


def test_small_work_starts_nothing(started: list[int], workload: Workload, tasks: list[EvaluateTask]) -> None:
    backend = AutoBackend(2)
    backend.open(workload)
    backend.run(tasks)
    assert started == []


@pytest.mark.parametrize(
    ("workers", "tasks_at_once", "expected"),
    [(2, 2, [2]), (1, 2, []), (2, 1, [])],
)
def test_workers_are_started_once_where_they_pay(
    monkeypatch: pytest.MonkeyPatch,
    started: list[int],
    workload: Workload,
    tasks: list[EvaluateTask],
    workers: int,
    tasks_at_once: int,
    expected: list[int],
) -> None:
    monkeypatch.setattr(auto, "START", -1.0)
    monkeypatch.setattr(auto, "WORTH", 0.0)
    backend = AutoBackend(workers)
    backend.open(workload)
    for _ in range(2):
        backend.run(tasks[:tasks_at_once])
    assert started == expected


@pytest.mark.parametrize(
    ("rounds", "seconds", "expected", "here"),
    [
        (1, [3.0, 3.0], [2], [40, 30]),
        (1, [3.0, 0.1], [], [40, 30, 20, 10]),
        (1, [0.1, 3.0], [], [40, 20, 30, 10]),
        (10, [0.3, 0.3], [2], [40, 30]),
    ],
)
def test_what_would_take_long_is_done_by_workers(
    monkeypatch: pytest.MonkeyPatch,
    started: list[int],
    workload: Workload,
    bench: Bench,
    rounds: int,
    seconds: list[float],
    expected: list[int],
    here: list[int],
) -> None:
    """The two longest tasks must say so, for the first may have had to load things; the outcomes stay in order."""
    rows = [np.arange(length) for length in (20, 30, 40, 10)]
    tasks = [EvaluateTask(bench.params, "test", some) for some in rows]
    clock, done, times = [0.0], list[int](), iter(seconds)
    backend = AutoBackend(2)
    backend.open(replace(workload, rounds=rounds))
    inside = backend._backend.run

    def run(some: list[EvaluateTask]) -> list[object]:
        clock[0] += next(times, 0.0)
        done.extend(len(task.rows) for task in some)
        return inside(some)

    monkeypatch.setattr(backend._backend, "run", run)
    monkeypatch.setattr(auto.time, "process_time", lambda: clock[0])
    found = backend.run(tasks)
    assert started == expected
    assert done == here
    plain = InlineBackend()
    plain.open(workload)
    assert [sums.loss for sums in found] == [sums.loss for sums in plain.run(tasks)]


def test_tasks_that_are_not_worth_sending_stay_here(
    monkeypatch: pytest.MonkeyPatch, started: list[int], workload: Workload, tasks: list[EvaluateTask]
) -> None:
    monkeypatch.setattr(auto, "START", -1.0)
    monkeypatch.setattr(auto, "WORTH", 1e3)
    backend = AutoBackend(2)
    backend.open(workload)
    for _ in range(2):
        backend.run(tasks)
    assert started == []


def test_what_workers_never_do_starts_none(
    monkeypatch: pytest.MonkeyPatch, started: list[int], workload: Workload, tasks: list[EvaluateTask]
) -> None:
    monkeypatch.setattr(auto, "START", 0.0)
    monkeypatch.setattr(EvaluateTask, "near", True)
    backend = AutoBackend(2)
    backend.open(workload)
    for _ in range(2):
        backend.run(tasks)
    monkeypatch.setattr(EvaluateTask, "near", False)
    backend.run(tasks)
    assert started == []


def test_a_compiled_model_is_compiled_once(started: list[int], workload: Workload, tasks: list[EvaluateTask]) -> None:
    backend = AutoBackend(2)
    backend.open(workload)
    backend._workload = replace(workload, compiled=True)  # to compile it takes long
    backend._start = lambda: started.append(0)  # type: ignore[method-assign]
    backend.run(tasks)
    assert started == [0]


@pytest.mark.parametrize(("workers", "expected"), [(1, 0), (2, 1)])
def test_workers_are_prepared_once_before_they_are_needed(
    monkeypatch: pytest.MonkeyPatch,
    started: list[int],
    workload: Workload,
    tasks: list[EvaluateTask],
    workers: int,
    expected: int,
) -> None:
    prepared: list[None] = []
    monkeypatch.setattr("entrofed.backends.processes.get_ready", lambda: prepared.append(None))
    monkeypatch.setattr(auto, "SOON", 0.0)
    monkeypatch.setattr(auto, "WORTH", 0.0)
    backend = AutoBackend(workers)
    backend.open(workload)
    for _ in range(3):
        backend.run(tasks)
    assert (len(prepared), started) == (expected, [])


@pytest.mark.slow
def test_the_change_to_workers_changes_no_bit(
    monkeypatch: pytest.MonkeyPatch, workload: Workload, tasks: list[EvaluateTask]
) -> None:
    backend = AutoBackend(2)
    backend.open(workload)
    try:
        monkeypatch.setattr(auto, "SOON", 0.0)
        monkeypatch.setattr(auto, "WORTH", 0.0)
        here = backend.run(tasks)
        monkeypatch.setattr(auto, "START", 0.0)
        there = backend.run(tasks)
        assert isinstance(backend._backend, ProcessBackend)
    finally:
        backend.close()
    assert [sums.loss for sums in here] == [sums.loss for sums in there]
