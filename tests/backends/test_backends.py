"""Backends: equal to the inline one bit for bit, and not to be stopped by one client."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from entrofed.backends import processes
from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend, as_a_worker_wants_it
from entrofed.backends.sending import Outbox
from entrofed.backends.shared import MEMORY, SharedBlock, _family, sweep_blocks
from entrofed.client.evaluate import evaluate
from entrofed.client.work import work
from entrofed.core.params import Layout
from entrofed.core.tasks import PredictTask, Task, TrainTask
from entrofed.core.types import Failure, Update
from entrofed.data.client_rows import ClientRows
from entrofed.data.federation import Federation
from entrofed.errors import EntrofedError
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.servers.scaffold import ControlVariate


def tasks_for(bench, training, clients=range(8)):
    return [
        TrainTask(c, round=1, seed=4, params=bench.params, objective=CrossEntropy(), training=training, cost=c + 1)
        for c in clients
    ]


def run_on(backend, federation, bench, tasks):
    backend.open(Workload(federation, bench.build, bench.layout))
    return backend.run(tasks)


@pytest.fixture(scope="module", params=[1, 2, 3])
def pool(request):
    backend = ProcessBackend(request.param)
    yield backend
    backend.close()


@pytest.mark.xdist_group("pool")  # or the pools are started twice
@pytest.mark.parametrize("name", ["digits_mlp", "cnn"])
def test_processes_equal_inline(digits, make_bench, training, same, pool, name):
    bench = make_bench(name)
    training = replace(training, augment=("crop", "flip"), persist_optimizer=True)
    tasks = tasks_for(bench, training)
    inline = InlineBackend()
    expected = run_on(inline, digits, bench, tasks)
    found = run_on(pool, digits, bench, tasks)
    for ours, theirs in zip(expected, found, strict=True):
        assert same(ours.params, theirs.params)
        assert ours.client_state["velocity"].tobytes() == theirs.client_state["velocity"].tobytes()
        assert replace(ours, params=None, seconds=0, client_state={}) == replace(
            theirs, params=None, seconds=0, client_state={}
        )
    rows = np.arange(len(digits.data.test_y))
    here, there = (evaluate(backend, [(expected[0].params, rows)])[0] for backend in (inline, pool))
    assert there.loss == here.loss
    assert np.array_equal(there.confusion, here.confusion)


@dataclass(frozen=True)
class Threads(Task):
    """A task that tells with how many threads it is done."""

    arrays: ClassVar[tuple[str, ...]] = ("params",)

    params: Any
    cost: int = 1


@work.register
def _threads(task: Threads, runtime: Any) -> int:
    return torch.get_num_threads()


def test_tasks_have_one_thread_and_the_program_keeps_its_own(digits, bench, training, two_workers, same):
    """Sums over several threads have other bits."""
    tasks, before = [Threads(bench.params), *tasks_for(bench, training, [3])], torch.get_num_threads()
    outcomes = []
    try:
        for threads, backend in ((1, InlineBackend()), (2, InlineBackend()), (2, two_workers)):
            torch.set_num_threads(threads)
            outcomes.append(run_on(backend, digits, bench, tasks))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert [used for used, _ in outcomes] == [1, 1, 1]
    assert all(same(outcomes[0][1].params, trained.params) for _, trained in outcomes)


@pytest.mark.slow
@pytest.mark.xdist_group("compiled")
def test_compiled_training_is_the_same_everywhere(digits, bench, training, two_workers, same):
    tasks, outcomes = tasks_for(bench, training, [0, 1, 2]), []
    for backend in (InlineBackend(), two_workers):
        backend.open(Workload(digits, bench.build, bench.layout, compiled=True))
        outcomes.append(backend.run(tasks))
    assert all(same(a.params, b.params) for a, b in zip(*outcomes, strict=True))


def test_every_worker_knows_its_number(digits, bench, training, two_workers):
    """By which it finds its GPU; a device that is not there is named by every task."""
    two_workers.open(Workload(digits, bench.build, bench.layout, device="cuda:99", precision="bf16"))
    settings = [worker._setting for worker in two_workers._workers]
    assert [(setting.worker, setting.device, setting.precision) for setting in settings] == [
        (0, "cuda:99", "bf16"),
        (1, "cuda:99", "bf16"),
    ]
    outcomes = two_workers.run(tasks_for(bench, training, [0, 1, 2]))
    assert all("engine.device = 'cuda:99': there is none on this machine" in outcome.reason for outcome in outcomes)


@dataclass(frozen=True)
class Misbehaving(Task):
    """A task that breaks, hangs, or takes its worker with it."""

    arrays: ClassVar[tuple[str, ...]] = ("params",)

    params: Any
    how: str
    marker: str = ""
    cost: int = 1


@work.register
def _misbehave(task: Misbehaving, runtime: Any) -> Any:
    if task.how == "raise":
        raise ValueError("a client's own error")
    if task.how == "hang":
        time.sleep(60)
    first_time = not os.path.exists(task.marker)
    if task.how == "die" or (task.how == "die once" and first_time):
        with open(task.marker, "a") as file:
            file.write("x")
        os.kill(os.getpid(), signal.SIGKILL)
    return f"done by {task.how}"


def test_an_exception_is_a_failure_and_nothing_more(digits, bench, training, two_workers, same):
    tasks = [*tasks_for(bench, training, [1]), Misbehaving(bench.params, "raise"), *tasks_for(bench, training, [2])]
    for backend in (InlineBackend(), two_workers):
        first, second, third = run_on(backend, digits, bench, tasks)
        assert second == Failure("ValueError: a client's own error")
        assert isinstance(first, Update)
        assert isinstance(third, Update)


def test_a_worker_that_dies_is_replaced_and_its_order_tried_again(digits, bench, training, two_workers, tmp_path):
    marker = tmp_path / "once"
    tasks = [Misbehaving(bench.params, "die once", str(marker)), *tasks_for(bench, training)]
    outcomes = run_on(two_workers, digits, bench, tasks)
    assert outcomes[0] == "done by die once"
    assert marker.read_text() == "x"
    assert all(isinstance(outcome, Update) for outcome in outcomes[1:])


def test_an_order_that_always_kills_ends_the_run(digits, bench, training, two_workers, tmp_path, same):
    """It was refused as if the client were at fault, so that kills of workers changed results."""
    marker = tmp_path / "deaths"
    tasks = [Misbehaving(bench.params, "die", str(marker)), *tasks_for(bench, training)]
    with pytest.raises(EntrofedError, match=r"a worker died \(exit code -9\), 5 times over the same task"):
        run_on(two_workers, digits, bench, tasks)
    assert marker.read_text() == "xxxxx"
    expected = run_on(InlineBackend(), digits, bench, tasks[1:])
    outcomes = run_on(two_workers, digits, bench, tasks[1:])
    assert all(same(a.params, b.params) for a, b in zip(expected, outcomes, strict=True))


def test_blocks_of_dead_processes_are_swept():
    """SIGKILL of a whole group left its blocks behind."""
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    path = MEMORY / f"{_family()}{int(child.stdout)}-abcdef"
    mine = SharedBlock(size=8)
    path.write_bytes(b"left behind")
    assert sweep_blocks() >= 1
    assert not path.exists()
    assert (MEMORY / mine.name).exists()
    mine.close()


def test_ctrl_c_while_workers_start_is_not_lost():
    """It was ignored between the progress display and the first round, 8 times of 8."""
    with pytest.raises(KeyboardInterrupt), as_a_worker_wants_it():
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_workers_start_leaves_no_memory_behind(monkeypatch):
    """Blocks of workers that had been started were left to Python's resource tracker, which complained."""
    start, mine = processes._Worker._start, f"{_family()}{os.getpid()}-*"
    before = set(MEMORY.glob(mine))

    def interrupted(worker):
        start(worker)
        if worker._number == 1:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(processes._Worker, "_start", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ProcessBackend(2)
    assert set(MEMORY.glob(mine)) == before


@pytest.mark.slow
def test_a_frozen_worker_does_not_hold_up_sending(digits, bench, training):
    """A message above the pipe's buffer to a worker that reads nothing blocked for good."""
    backend = ProcessBackend(1, timeout=2.0)
    try:
        run_on(backend, digits, bench, tasks_for(bench, training, [1]))
        worker = backend._workers[0]
        os.kill(worker._process.pid, signal.SIGSTOP)
        began = time.monotonic()
        worker._send(b"x" * 10_000_000)
        assert time.monotonic() - began < 20
        with pytest.raises(EOFError):
            worker.take()
        worker.replace()
        assert isinstance(run_on(backend, digits, bench, tasks_for(bench, training, [1]))[0], Update)
    finally:
        backend.close()


@pytest.mark.slow
def test_a_worker_that_hangs_is_not_waited_for(digits, bench, training):
    backend = ProcessBackend(1, timeout=4.0)
    try:
        tasks = [Misbehaving(bench.params, "hang", cost=99), *tasks_for(bench, training)]
        outcomes = run_on(backend, digits, bench, tasks)
    finally:
        backend.close()
    assert outcomes[0] == Failure("no answer within 4 s")
    assert all(isinstance(outcome, Update) for outcome in outcomes[1:])


def test_a_pool_moves_on_to_another_experiment(digits, make_bench, training, two_workers, same):
    for name in ("digits_mlp", "lenet5_like", "digits_mlp"):
        bench = make_bench("cnn" if name == "lenet5_like" else name)
        tasks = tasks_for(bench, training, [0, 1])
        expected = run_on(InlineBackend(), digits, bench, tasks)
        found = run_on(two_workers, digits, bench, tasks)
        assert all(same(a.params, b.params) for a, b in zip(expected, found, strict=True))


def test_tasks_with_different_models(digits, bench, training, two_workers, same):
    tasks = tasks_for(bench, training)
    shifted = [
        replace(task, params=replace(task.params, values=task.params.values + np.float32(0.01 * i)))
        for i, task in enumerate(tasks)
    ]
    expected = run_on(InlineBackend(), digits, bench, shifted)
    found = run_on(two_workers, digits, bench, shifted)
    assert all(same(a.params, b.params) for a, b in zip(expected, found, strict=True))
    assert not same(found[0].params, found[1].params)


def test_nothing_of_the_callers_is_changed(digits, bench, training, inline):
    before = bench.params.values.copy()
    inline.run(tasks_for(bench, training))
    assert np.array_equal(bench.params.values, before)


@pytest.mark.parametrize("kind", ["predict", "moon", "scaffold", "facts"])
def test_no_array_goes_through_the_pipe(digits, make_bench, training, two_workers, monkeypatch, kind):
    """Ten models for a prediction, a client's last model, its control variate: all of it in shared memory."""
    bench = make_bench("cnn")
    data = replace(digits.data, valid_x=digits.data.test_x, valid_y=digits.data.test_y)
    workload = Workload(replace(digits, data=data), bench.build, bench.layout)
    models = tuple(replace(bench.params, values=bench.params.values + np.float32(i)) for i in range(10))
    size = bench.layout.floats
    state = {"previous": models[1].values, "previous_counters": models[1].counters}
    control = {"control": np.zeros(bench.layout.trainable, np.float32)}
    task = tasks_for(bench, training, [1])[0]
    tasks = {
        "predict": PredictTask(models, np.arange(50)),
        "moon": replace(task, objective=Contrastive(), client_state=state),
        "scaffold": replace(task, rule=ControlVariate(), broadcast=control, client_state=control),
        "facts": replace(task, facts=(MeanPrediction(),)),
    }
    two_workers.open(workload)
    sizes, dumps, loads = [], Outbox.dumps, ForkingPickler.loads

    def sending(outbox, content):
        raw = dumps(outbox, content)
        sizes.append(len(raw))
        return raw

    def receiving(raw):
        sizes.append(len(raw))
        return loads(raw)

    monkeypatch.setattr(Outbox, "dumps", sending)
    monkeypatch.setattr(ForkingPickler, "loads", receiving)
    (outcome,) = two_workers.run([tasks[kind]])
    assert not isinstance(outcome, Failure), outcome
    assert 2 <= len(sizes) <= 3  # a larger block is asked for
    assert max(sizes) < 4 * size / 50


def test_many_short_tasks_go_together_and_one_that_kills_is_found_out(
    digits, bench, training, two_workers, tmp_path, same, monkeypatch
):
    """A worker that dies over several tasks says not over which: each is tried again alone."""
    tasks = [replace(task, cost=1) for task in tasks_for(bench, training)] * 8
    deadly, broken = Misbehaving(bench.params, "die once", str(tmp_path / "deaths")), Misbehaving(bench.params, "raise")
    outcomes = run_on(two_workers, digits, bench, [*tasks[:20], deadly, *tasks[20:40], broken, *tasks[40:]])
    assert len(two_workers._bundles(tasks)) < len(tasks)
    longer = [replace(task, cost=200) for task in tasks]
    assert len(two_workers._bundles(longer)) < len(tasks)  # for so small a network it is no work
    monkeypatch.setattr(two_workers, "_parameters", 10**6)
    assert len(two_workers._bundles(longer)) == len(tasks)
    assert outcomes.pop(20) == "done by die once"
    assert outcomes.pop(40) == Failure("ValueError: a client's own error")
    expected = run_on(InlineBackend(), digits, bench, tasks[:8]) * 8
    assert all(same(a.params, b.params) for a, b in zip(expected, outcomes, strict=True))
    assert (tmp_path / "deaths").read_text() == "x"


def own_network(width, tokens):
    first = [torch.nn.Embedding(600, 4)] if tokens else []
    return torch.nn.Sequential(*first, torch.nn.Flatten(), torch.nn.Linear(width, 2))


@pytest.mark.parametrize(
    ("kind", "shape", "width"),
    [
        ("table", (3,), 3),
        ("image", (5, 5, 3), 75),
        ("tensor", (2, 3, 2, 2), 24),
        ("text", (6,), 24),
        ("tensor", (6,), 24),
    ],
)
def test_own_data_of_every_kind(training, two_workers, same, kind, shape, width):
    """Also with a client that has a single sample, and one that has none."""
    tokens = width == 24 and len(shape) == 1
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 600, (40, *shape)) if tokens else rng.random((40, *shape)), np.arange(40) % 2
    clients = [(x[:20], y[:20]), (x[20:21], y[20:21]), (x[:0], y[:0]), (x[21:], y[21:])]
    federation = Federation.from_clients(clients, test=(x, y), kind=kind)
    assert (federation.data.kind, federation.sizes.tolist()) == (kind, [20, 1, 0, 19])
    build = partial(own_network, width, tokens)
    layout = Layout.of(build())
    bench = SimpleNamespace(build=build, layout=layout, params=layout.read(build()))
    tasks = tasks_for(bench, training, [0, 1, 3])
    here, there = (run_on(backend, federation, bench, tasks) for backend in (InlineBackend(), two_workers))
    assert all(same(ours.params, theirs.params) for ours, theirs in zip(here, there, strict=True))
    assert not same(here[0].params, here[2].params)


def test_what_a_worker_is_sent_does_not_grow_with_the_clients(digits, bench, two_workers):
    """Who has which rows lies in shared memory, beside the data."""
    rows = digits.shards.rows
    sizes = []
    for clients in (2, 500):
        shards = ClientRows.cut(rows, np.bincount(np.arange(len(rows)) % clients))
        run_on(two_workers, replace(digits, shards=shards), bench, [])
        sizes.append(len(ForkingPickler.dumps(two_workers._workers[0]._setting)))
    assert abs(sizes[1] - sizes[0]) < 100
