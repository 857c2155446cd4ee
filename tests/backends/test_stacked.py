"""Stacks of training tasks: the same bits wherever they are done, and in whatever company."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.stacked import StackedBackend, chunks, together
from entrofed.core.tasks import EvaluateTask, Stacked, StackTask, TrainTask
from entrofed.core.types import Failure, Update
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.servers.scaffold import ControlVariate


@pytest.fixture
def tasks(bench, training):
    objective, rule = CrossEntropy(), ControlVariate()
    broadcast = {"control": np.full(bench.layout.trainable, 0.01, np.float32)}
    training = replace(training, persist_optimizer=True)
    return [
        TrainTask(c, 1, 4, bench.params, objective, training, c + 1, rule=rule, broadcast=broadcast) for c in range(8)
    ]


def test_processes_equal_inline(digits, bench, tasks, same, two_workers, monkeypatch):
    monkeypatch.setattr("entrofed.backends.stacked.VALUES", 0)  # two stacks of four
    found = []
    for backend in (InlineBackend(), two_workers):
        stacked = StackedBackend(backend)
        stacked.open(Workload(digits, bench.build, bench.layout))
        found.append(stacked.run([*tasks, EvaluateTask(bench.params, "test", np.arange(50))]))
        assert not stacked.apart
    *here, sums = found[0]
    *there, other = found[1]
    assert sums.loss == other.loss
    for ours, theirs in zip(here, there, strict=True):
        assert same(ours.params, theirs.params)
        for name in ours.client_state:
            assert ours.client_state[name].tobytes() == theirs.client_state[name].tobytes()
        assert ours.train_loss == theirs.train_loss
    assert [update.client for update in here] == list(range(8))


class Noting(InlineBackend):
    """Does nothing but note what it is given."""

    def __init__(self, answer):
        super().__init__()
        self.answer, self.given = answer, []

    def open(self, workload):
        pass

    def run(self, tasks):
        self.given += tasks
        return [self.answer(task) for task in tasks]


def test_tasks_that_are_unlike_are_apart(tasks, training):
    other = replace(tasks[0], training=replace(tasks[0].training, lr=1.0))
    slow = replace(tasks[1], training=replace(tasks[1].training, epochs=1))
    later = replace(tasks[2], client_state={"steps": np.array(7.0)})
    evaluation = EvaluateTask(tasks[0].params, "test", np.arange(3))
    assert chunks([other, slow, *tasks[3:5], later, evaluation], 32) == [[0], [3, 2, 1], [4]]


def test_chunks_are_of_about_one_length_and_similar_cost(tasks):
    assert chunks(tasks, 5) == [[7, 6, 5, 4], [3, 2, 1, 0]]
    assert [len(chunk) for chunk in chunks(tasks * 5, 32)] == [20, 20]
    assert together(10**9) == 4


def test_a_stack_that_comes_to_nothing_fails_each_of_its_clients(tasks, bench):
    backend = StackedBackend(Noting(lambda task: Failure("no answer within 1 s")))
    assert backend.run(tasks) == [Failure("no answer within 1 s")] * 8


def test_who_was_trained_one_by_one_is_counted_and_logged_once(tasks, caplog):
    noting = Noting(lambda task: Stacked(tuple(Update(t.client, t.params, 1, 1, 0, 0) for t in task.tasks), "because"))
    backend = StackedBackend(noting)
    for _ in range(2):
        assert [update.client for update in backend.run(tasks)] == list(range(8))
    assert backend.apart == {"because": 16}
    assert [record.message for record in caplog.records] == [
        "engine.stack: clients are trained one by one: because",
    ]
    assert all(isinstance(task, StackTask) for task in noting.given)
