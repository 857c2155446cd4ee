"""A user's own objects in worker processes: whatever is defined wherever, the same bits, or a clear word."""

import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.backends.sending import Outbox, forget, keep
from entrofed.core.params import Layout
from entrofed.core.tasks import TrainTask
from entrofed.core.types import Failure, Training, Update
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.registry import build
from entrofed.registry.references import load


def tasks_for(build: Any, objective: Any, training: Training, clients: range = range(8)) -> list[TrainTask]:
    model = build()
    params = Layout.of(model).read(model)
    return [TrainTask(c, 1, 4, params, objective, training, cost=c + 1) for c in clients]


def outcomes(backend: Any, federation: Federation, build: Any, tasks: list[TrainTask]) -> list[Any]:
    backend.open(Workload(federation, build, Layout.of(build())))
    return list(backend.run(tasks))


def local_network() -> Any:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = nn.Linear(64, 10)

        def forward(self, x):
            return self.layer(x.flatten(1))

    return Net


CODE = """
from torch import nn
class Net(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Flatten(), nn.Linear(64, 10))
        for parameter in self.parameters():
            nn.init.constant_(parameter, 0.01)
class Smoothed:
    def __init__(self, smoothing=0.1):
        self.smoothing = smoothing
    def loss(self, model, x, y, given):
        return nn.functional.cross_entropy(model(x), y, label_smoothing=self.smoothing)
"""


def test_own_objects_give_the_same_bits(digits, training, two_workers, same, tmp_path):
    (tmp_path / "code.py").write_text(CODE)
    of_file, Smoothed = load(f"{tmp_path / 'code.py'}:Net"), load(f"{tmp_path / 'code.py'}:Smoothed")
    smoothing = 0.2
    cases = [
        (local_network(), lambda logits, y: cross_entropy(logits, y, label_smoothing=smoothing)),
        (of_file, Smoothed(0.3)),
        (of_file, nn.CrossEntropyLoss(label_smoothing=0.1)),
        (of_file, {"name": "proximal", "objective": Smoothed(0.3)}),
    ]
    for network, objective in cases:
        tasks = tasks_for(network, build("objective", objective), training)
        expected = outcomes(InlineBackend(), digits, network, tasks)
        found = outcomes(two_workers, digits, network, tasks)
        assert all(isinstance(update, Update) for update in expected)
        assert all(same(a.params, b.params) for a, b in zip(expected, found, strict=True))


def test_a_worker_that_dies_gets_them_again(digits, training, same):
    network, objective = local_network(), build("objective", lambda logits, y: cross_entropy(logits, y))
    tasks = tasks_for(network, objective, training)
    backend = ProcessBackend(1)
    try:
        before = outcomes(backend, digits, network, tasks)
        os.kill(backend._workers[0]._process.pid, 9)
        after = backend.run(tasks)
        assert all(same(a.params, b.params) for a, b in zip(before, after, strict=True))
    finally:
        backend.close()


def roundtrip(outbox: Outbox, message: Any) -> Any:
    raw = bytes(outbox.dumps(message))
    forget()
    keep(outbox.contents)
    try:
        return pickle.loads(raw)  # noqa: S301 (our own bytes)
    finally:
        forget()


def test_what_a_worker_can_import_is_not_sent_by_value(training):
    outbox = Outbox()
    message = (CrossEntropy(), training, Path("x"), torch.float32, len, [1, "a"])
    assert roundtrip(outbox, message) == message
    assert outbox.contents == []


def test_own_objects_are_sent_once_and_again_when_they_change():
    class Weigher:
        power = 1

        def weigh(self, updates, context):
            return [self.power]

    part, outbox = build("weigher", Weigher()), Outbox()
    first, second = roundtrip(outbox, (part, part))
    assert first is second
    assert first == part
    assert len(outbox.contents) == 1
    outbox.begin()
    outbox.dumps(part)
    assert len(outbox.contents) == 1  # the same as before
    outbox.begin()
    part.part.power = 2
    assert roundtrip(outbox, part).weigh([], None).weights.tolist() == [2]
    assert len(outbox.contents) == 2


def test_what_cannot_be_sent_is_named_with_the_remedy(digits, bench, training, two_workers, same):
    lock = threading.Lock()

    def guarded(logits, y):
        with lock:
            return cross_entropy(logits, y)

    tasks = tasks_for(bench.build, build("objective", guarded), training)
    with pytest.raises(ConfigError, match=r"'guarded' cannot be sent to worker processes: .*lock.*'inline' works"):
        outcomes(two_workers, digits, bench.build, tasks)
    expected = outcomes(InlineBackend(), digits, bench.build, tasks)
    assert all(isinstance(update, Update) for update in expected)
    plain = [replace(task, objective=CrossEntropy()) for task in tasks]
    found = outcomes(two_workers, digits, bench.build, plain)  # the workers are none the worse
    assert all(same(a.params, b.params) for a, b in zip(expected, found, strict=True))


def test_a_network_that_cannot_be_sent(digits, bench, two_workers):
    handle = (number for number in range(3))

    def network():
        return bench.build() if handle else None

    with pytest.raises(ConfigError, match=r"'network' cannot be sent to worker processes: cannot pickle 'generator'"):
        two_workers.open(Workload(digits, network, bench.layout))


def test_a_network_that_fails_in_the_worker_only(digits, bench, training, two_workers):
    parent = os.getpid()

    def network():
        if os.getpid() != parent:
            raise FileNotFoundError("weights.bin")
        return bench.build()

    tasks = tasks_for(network, CrossEntropy(), training)
    for found in outcomes(two_workers, digits, network, tasks):
        assert found == Failure("FileNotFoundError: weights.bin")
        assert "test_sending.py line" in found.where
    assert all(isinstance(found, Update) for found in outcomes(two_workers, digits, bench.build, tasks))


class Sly:
    """Cannot be unpickled anywhere else."""

    def __init__(self, home: int) -> None:
        self.home = home

    def __setstate__(self, state):
        if os.getpid() != state["home"]:
            raise ValueError("not at home")
        self.__dict__.update(state)

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


def test_a_task_that_cannot_be_read_is_a_failure(digits, bench, training, two_workers):
    """And of those that go together with it, only that one."""
    tasks = [replace(task, cost=1) for task in tasks_for(bench.build, CrossEntropy(), training)] * 4
    tasks[3] = replace(tasks[3], purpose=Sly(os.getpid()))  # type: ignore[arg-type]
    found = outcomes(two_workers, digits, bench.build, tasks)
    assert len(two_workers._bundles(tasks)) < len(tasks)
    assert found[3] == Failure("ValueError: not at home")
    assert sum(isinstance(one, Update) for one in found) == len(tasks) - 1


def test_an_answer_that_cannot_be_sent_is_a_failure(digits, bench, training, two_workers):
    class Odd:
        name, when, reveals = "odd", "with_update", "nothing that could be sent"

        def measure(self, data, model):
            return threading.Lock()

        def problem(self, value, classes):
            return None

    tasks = tasks_for(bench.build, CrossEntropy(), training)
    tasks[2] = replace(tasks[2], facts=(Odd(),))
    found = outcomes(two_workers, digits, bench.build, tasks)
    assert "cannot pickle '_thread.lock'" in found[2].reason
    assert sum(isinstance(one, Update) for one in found) == 7


SCRIPT = """
import threading
from pathlib import Path
import torch
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.methods import fedentopt

print("begins")
smoothing = 0.1

class Net(torch.nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.layer = torch.nn.LazyLinear(classes)
    def forward(self, x):
        return self.layer(x.flatten(1))

class Weigher:
    def weigh(self, updates, context):
        return [update.num_examples ** 0.5 for update in updates]

def loss(logits, y):
    return torch.nn.functional.cross_entropy(logits, y, label_smoothing=smoothing)

bits = []
for backend in ("inline", "processes"):
    table = {"rounds": 2, "data": {"name": "digits", "clients": 6}, "method": {"cohort": 3},
             "engine": {"backend": backend, "workers": 2}}
    experiment = parse(table)
    setup = prepare(experiment, model=Net, method=fedentopt(weigher=Weigher(), objective=loss))
    run(experiment, RunFolder(Path(backend)), setup=setup)
    bits.append(sorted(Path(backend, "checkpoints").glob("round-*.safetensors"))[-1].read_bytes())
print("same" if bits[0] == bits[1] else "different")
"""


@pytest.mark.slow
def test_a_script_as_a_new_user_writes_it(tmp_path):
    """Without a guard: workers do not run it again, and get what it defines all the same."""
    (tmp_path / "script.py").write_text(SCRIPT)
    found = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert (found.returncode, found.stdout.split(), found.stderr) == (0, ["begins", "same"], "")
