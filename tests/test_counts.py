"""How often things are done that take time: a guard that no clock can disturb."""

import gc
import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Bench

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.parcels import Packer, unpack
from entrofed.backends.shared import SharedBlock, Spec
from entrofed.client import runtime
from entrofed.client.runtime import ClientRuntime
from entrofed.core.params import Params
from entrofed.core.tasks import EvaluateTask, Task
from entrofed.data.federation import Federation
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run


class Counting(InlineBackend):
    """Counts tasks by their kind."""

    def __init__(self) -> None:
        super().__init__()
        self.tasks: Counter[str] = Counter()

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Do them."""
        self.tasks.update(type(task).__name__ for task in tasks)
        return super().run(tasks)


def played(folder: Path, rounds: int, method: str = "fedavg", **settings: Any) -> Counter[str]:
    """The tasks of a run of the digits, of which each evaluation is one task."""
    backend = Counting()
    experiment = parse(
        {"rounds": rounds, "data": {"clients": 6}, "method": {"name": method, "cohort": 3, "lr": 0.1}, **settings}
    )
    run(experiment, RunFolder(folder), backend=backend)
    return backend.tasks


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("fedavg", {}, {"TrainTask": 24, "EvaluateTask": 8}),
        ("fedavg", {"evaluate_every": 3, "evaluate_last": 2}, {"TrainTask": 24, "EvaluateTask": 4}),
        ("fedavg", {"evaluate_every": 8}, {"TrainTask": 24, "EvaluateTask": 1}),
        ("fedentopt", {}, {"TrainTask": 24, "EvaluateTask": 8}),
        ("fedep", {"topology": {"kind": "ring"}}, {"TrainTask": 48, "PoolTask": 48, "ConsensusTask": 8}),
    ],
)
def test_tasks_are_as_many_as_there_must_be(
    tmp_path: Path, method: str, settings: dict[str, Any], expected: dict[str, int]
) -> None:
    found = played(tmp_path, 8, method, **settings)
    if "topology" in settings:
        found.pop("EvaluateTask")  # of models that differ
    assert found == expected


def test_between_rounds_a_run_holds_one_model(tmp_path: Path) -> None:
    """Not the one it began with; ten updates of a large model leave little room for others."""

    def models() -> int:
        return sum(type(thing) is Params for thing in gc.get_objects())

    found: list[int] = []
    experiment = parse({"rounds": 3, "data": {"clients": 6}, "method": {"cohort": 3, "lr": 0.1}})
    gc.collect()
    before = models()
    setup = prepare(experiment)
    run(experiment, RunFolder(tmp_path), setup=setup, observer=lambda record: found.append(models() - before))
    assert found == [1, 1, 1]


def test_nothing_is_flushed_in_a_round_without_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flushed: list[int] = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    counts = []
    for rounds in (2, 6):
        flushed.clear()
        played(tmp_path / str(rounds), rounds, checkpoint_seconds=3600.0)
        counts.append(len(flushed))
    assert counts[0] == counts[1] < 40


class WatchedBlock(SharedBlock):
    """Counts the bytes that are asked for."""

    seen = 0

    def view(self, spec: Spec) -> np.ndarray[Any, Any]:
        """The array in that place."""
        found = super().view(spec)
        self.seen += found.nbytes
        return found


def test_a_model_travels_once_for_many_tasks_and_not_again_while_it_stays(bench: Bench) -> None:
    """Per worker: the model that several tasks start from, and that of the tasks after these."""
    packer, block = Packer(), WatchedBlock(size=1 << 20)
    try:
        for number in range(3):
            rows = [np.arange(5) + 10 * number + i for i in range(2)]
            tasks = tuple(EvaluateTask(bench.params, "test", piece) for piece in rows)
            assert packer.lay_out(tasks) < 2 * bench.layout.nbytes
            before = block.seen
            parcel = packer.write(block)
            model = bench.params.values.nbytes + bench.params.counters.nbytes
            assert block.seen - before == sum(piece.nbytes for piece in rows) + (model if number == 0 else 0)
            first, second = unpack(parcel, block.view)
            assert first.params is second.params
            assert np.array_equal(first.params.values, bench.params.values)
    finally:
        block.close()


def test_test_data_is_converted_once(digits: Federation, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[str] = []
    convert = ClientRuntime._converted

    def watched(self: ClientRuntime, part: str, rows: np.ndarray[Any, Any]) -> Any:
        converted.append(part)
        return convert(self, part, rows)

    monkeypatch.setattr(ClientRuntime, "_converted", watched)
    here = Workload(digits, bench.build, bench.layout).runtime()
    for _ in range(3):
        for rows in (np.arange(10), np.arange(10, 20)):
            here.samples("test", rows)
        here.client_data(0)
    assert Counter(converted) == {"test": 2, "train": 3}
    assert here.samples("test", np.arange(10)).y.tolist() == digits.data.test_y[:10].tolist()
    monkeypatch.setattr(runtime, "KEPT", 0)
    without_room = Workload(digits, bench.build, bench.layout).runtime()
    for _ in range(2):
        without_room.samples("test", np.arange(10))
    assert Counter(converted) == {"test": 4, "train": 3}
