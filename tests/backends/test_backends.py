"""Backends: equal to the inline one bit for bit, and not to be stopped by one client."""

import os
import signal
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch

from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.client.evaluate import evaluate
from entrofed.client.train import WorkOrder
from entrofed.core.types import Failure, Update
from entrofed.objectives.cross_entropy import CrossEntropy


def orders_for(bench, training, clients=range(8)):
    return [
        WorkOrder(c, round=1, seed=4, params=bench.params, objective=CrossEntropy(), training=training, cost=c + 1)
        for c in clients
    ]


def run_on(backend, federation, bench, orders):
    backend.host(federation, bench.build, bench.layout)
    return backend.run(orders)


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
    orders = orders_for(bench, training)
    inline = InlineBackend()
    expected = run_on(inline, digits, bench, orders)
    found = run_on(pool, digits, bench, orders)
    for ours, theirs in zip(expected, found, strict=True):
        assert same(ours.params, theirs.params)
        assert ours.memory["velocity"].tobytes() == theirs.memory["velocity"].tobytes()
        assert replace(ours, params=None, seconds=0, memory={}) == replace(theirs, params=None, seconds=0, memory={})
    rows = np.arange(len(digits.data.test_y))
    here, there = (evaluate(backend, [expected[0].params], "test", rows)[0] for backend in (inline, pool))
    assert there.loss == here.loss
    assert np.array_equal(there.confusion, here.confusion)


@dataclass(frozen=True)
class Threads:
    """An order that tells with how many threads it is carried out; passes for a work order."""

    params: Any
    cost: int = 1

    def carry_out(self, site: Any) -> int:
        return torch.get_num_threads()


def test_orders_have_one_thread_and_the_program_keeps_its_own(digits, bench, training, two_workers, same):
    """Sums over several threads have other bits."""
    orders, before = [Threads(bench.params), *orders_for(bench, training, [3])], torch.get_num_threads()
    outcomes = []
    try:
        for threads, backend in ((1, InlineBackend()), (2, InlineBackend()), (2, two_workers)):
            torch.set_num_threads(threads)
            outcomes.append(run_on(backend, digits, bench, orders))
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert [used for used, _ in outcomes] == [1, 1, 1]
    assert all(same(outcomes[0][1].params, trained.params) for _, trained in outcomes)


def test_compiled_training_is_the_same_everywhere(digits, bench, training, two_workers, same):
    orders, outcomes = orders_for(bench, training, [0, 1, 2]), []
    for backend in (InlineBackend(), two_workers):
        backend.host(digits, bench.build, bench.layout, compiled=True)
        outcomes.append(backend.run(orders))
    assert all(same(a.params, b.params) for a, b in zip(*outcomes, strict=True))


@dataclass(frozen=True)
class Misbehaving:
    """An order that breaks, hangs, or takes its worker with it; passes for a work order."""

    params: Any
    how: str
    marker: str = ""
    cost: int = 1

    def carry_out(self, site: Any) -> Any:
        if self.how == "raise":
            raise ValueError("a client's own error")
        if self.how == "hang":
            time.sleep(60)
        first_time = not os.path.exists(self.marker)
        if self.how == "die" or (self.how == "die once" and first_time):
            with open(self.marker, "a") as file:
                file.write("x")
            os.kill(os.getpid(), signal.SIGKILL)
        return f"done by {self.how}"


def test_an_exception_is_a_failure_and_nothing_more(digits, bench, training, two_workers, same):
    orders = [*orders_for(bench, training, [1]), Misbehaving(bench.params, "raise"), *orders_for(bench, training, [2])]
    for backend in (InlineBackend(), two_workers):
        first, second, third = run_on(backend, digits, bench, orders)
        assert second == Failure("ValueError: a client's own error")
        assert isinstance(first, Update)
        assert isinstance(third, Update)


def test_a_worker_that_dies_is_replaced_and_its_order_tried_once_more(digits, bench, training, two_workers, tmp_path):
    marker = tmp_path / "once"
    orders = [Misbehaving(bench.params, "die once", str(marker)), *orders_for(bench, training)]
    outcomes = run_on(two_workers, digits, bench, orders)
    assert outcomes[0] == "done by die once"
    assert marker.read_text() == "x"
    assert all(isinstance(outcome, Update) for outcome in outcomes[1:])


def test_an_order_that_kills_twice_is_given_up(digits, bench, training, two_workers, tmp_path, same):
    marker = tmp_path / "deaths"
    orders = [Misbehaving(bench.params, "die", str(marker)), *orders_for(bench, training)]
    outcomes = run_on(two_workers, digits, bench, orders)
    assert marker.read_text() == "xx"
    assert isinstance(outcomes[0], Failure)
    assert "died" in outcomes[0].reason
    expected = run_on(InlineBackend(), digits, bench, orders[1:])
    assert all(same(a.params, b.params) for a, b in zip(expected, outcomes[1:], strict=True))


def test_a_worker_that_hangs_is_not_waited_for(digits, bench, training):
    backend = ProcessBackend(1, timeout=4.0)
    try:
        orders = [Misbehaving(bench.params, "hang", cost=99), *orders_for(bench, training)]
        outcomes = run_on(backend, digits, bench, orders)
    finally:
        backend.close()
    assert outcomes[0] == Failure("no answer within 4 s")
    assert all(isinstance(outcome, Update) for outcome in outcomes[1:])


def test_a_pool_moves_on_to_another_experiment(digits, make_bench, training, two_workers, same):
    for name in ("digits_mlp", "lenet5_like", "digits_mlp"):
        bench = make_bench("cnn" if name == "lenet5_like" else name)
        orders = orders_for(bench, training, [0, 1])
        expected = run_on(InlineBackend(), digits, bench, orders)
        found = run_on(two_workers, digits, bench, orders)
        assert all(same(a.params, b.params) for a, b in zip(expected, found, strict=True))


def test_orders_with_different_models(digits, bench, training, two_workers, same):
    orders = orders_for(bench, training)
    shifted = [
        replace(order, params=replace(order.params, values=order.params.values + np.float32(0.01 * i)))
        for i, order in enumerate(orders)
    ]
    expected = run_on(InlineBackend(), digits, bench, shifted)
    found = run_on(two_workers, digits, bench, shifted)
    assert all(same(a.params, b.params) for a, b in zip(expected, found, strict=True))
    assert not same(found[0].params, found[1].params)


def test_nothing_of_the_callers_is_changed(digits, bench, training, inline):
    before = bench.params.values.copy()
    inline.run(orders_for(bench, training))
    assert np.array_equal(bench.params.values, before)
