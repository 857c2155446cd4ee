"""Updates far larger than training makes them, numbers that cannot be, and models that are none: never in the model."""

from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from entrofed.backends.inline import InlineBackend
from entrofed.core.admission import ALONE, BUFFERS, CLAIMS, FACTOR, PARAMETERS, bound, limit_of, median, ordered_steps
from entrofed.core.job import Job, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.parts import TrainTask
from entrofed.core.tasks import TrainTask as Order
from entrofed.core.types import ClientTable, Update
from entrofed.experiment.config import MethodSection, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

PLAIN = Layout.of(torch.nn.Linear(3, 1))
NORM = Layout.of(torch.nn.BatchNorm1d(2))


def job(layout: Layout = PLAIN, clients: int = 20, method: str = "fedavg", sized: bool = False, **rules: Any) -> Job:
    section = MethodSection(name=method, batch_size=5)
    table = ClientTable(np.full(clients, 20), classes=2, trainable=layout.trainable, sized=sized)
    held = Rules(rounds=1, cohort=1, training=section.training(), **rules)
    return Job(section.recipe, held, table, np.arange(clients), layout, 0)


def order(chosen: Job, client: int, start: Any = None) -> TrainTask:
    layout = chosen.layout
    params = Params(np.ones(layout.floats, np.float32), np.zeros(layout.counters, np.int64)) if start is None else start
    method, training = chosen.method, chosen.rules.training
    facts = method.facts_told("with_update")
    return TrainTask(client, 0, 0, params, method.objective, training, facts=facts, rule=method.server.client)


def moved(task: TrainTask, far: float, **changes: Any) -> Update:
    """An update whose first parameter went so far."""
    values = task.params.values.copy()
    values[0] += far
    return replace(Update(task.client, Params(values, task.params.counters), 20, 4, 1.0, 1.0), **changes)


def judged(chosen: Job, distances: list[float], memory: Any = None) -> Any:
    tasks = {client: order(chosen, client) for client in range(len(distances))}
    updates = [moved(tasks[client], far) for client, far in enumerate(distances)]
    return bound(chosen, tasks, updates, memory or {})


def test_the_limit_by_hand() -> None:
    assert np.exp(limit_of(np.log([1.0, 2.0, 3.0]))) == pytest.approx(2 * FACTOR)  # five deviations are less
    assert np.exp(limit_of(np.log([1.0, 2.0, 4.0]))) == pytest.approx(2 * 2 ** (5 * 1.4826))
    assert np.exp(limit_of(np.log([1.0, 10.0, 100.0]))) == pytest.approx(10 * 1e4)  # and here far more than MOST


def test_who_goes_a_million_times_further_is_refused() -> None:
    updates, refused, memory = judged(job(), [1, 2, 3, 2e6, 2, 1])
    assert [update.client for update in updates] == [0, 1, 2, 4, 5]
    assert refused[3].startswith("its parameters went 2e+06 far; beside what others do,")
    assert len(memory[PARAMETERS]) == 5


@pytest.mark.parametrize("far", [3.4e38, 1e30, 1e6])
@pytest.mark.parametrize("cohort", [1, 2, 3])
def test_the_first_round_and_small_cohorts_included(far: float, cohort: int) -> None:
    distances = [*[1.0] * (cohort - 1), far]
    updates, refused, _ = judged(job(), distances)
    assert list(refused) == [cohort - 1]
    assert len(updates) == cohort - 1


def test_a_cohort_of_one_is_compared_with_the_rounds_before() -> None:
    chosen, memory = job(), {}
    for _ in range(3):
        _, refused, memory = judged(chosen, [0.5], memory)
        assert not refused
    _, refused, after = judged(chosen, [0.5 * 1000], memory)
    assert list(refused) == [0]
    assert after[PARAMETERS].tolist() == memory[PARAMETERS].tolist()
    assert not judged(chosen, [0.5 * 20], memory)[1]


def test_a_cohort_of_adversaries_is_compared_with_the_rounds_before() -> None:
    chosen, memory = job(), {}
    for _ in range(4):
        _, _, memory = judged(chosen, [1.0, 2.0, 1.5, 1.0, 0.5], memory)
    assert len(judged(chosen, [1e6] * 5, memory)[1]) == 5


def test_what_is_shorter_than_the_model_is_never_too_far() -> None:
    """Others that hardly move any more are no reason to refuse who has something new to say."""
    chosen, memory = job(), {}
    for _ in range(3):
        _, _, memory = judged(chosen, [1e-6] * 5, memory)
    assert not judged(chosen, [1.9], memory)[1]
    assert list(judged(chosen, [2.1], memory)[1]) == [0]


def test_clipping_keeps_the_direction() -> None:
    chosen = job(admission="clip")
    updates, refused, memory = judged(chosen, [1, 1, 1, 1e6])
    assert not refused
    np.testing.assert_allclose(updates[3].params.values, [1 + FACTOR, 1, 1, 1])
    assert len(memory[PARAMETERS]) == 3
    assert [update.params.values[0] for update in updates[:3]] == [2, 2, 2]


def test_what_may_be_infinite_is_compared_without_a_warning() -> None:
    updates, refused, _ = judged(job(nonfinite="propagate"), [np.inf, np.inf, 1])
    assert ([update.client for update in updates], refused) == ([0, 1, 2], {})


def test_off_is_off() -> None:
    updates, refused, memory = judged(job(admission="off"), [1, 1, 1, 1e6])
    assert (len(updates), refused, memory) == (4, {}, {})


def test_nobody_is_touched_who_only_differs() -> None:
    distances = [0.01, 0.5, 1.0, 2.0, 40.0]
    tasks = {client: order(job(), client) for client in range(5)}
    given = [moved(tasks[client], far) for client, far in enumerate(distances)]
    updates, refused, _ = bound(job(), tasks, given, {})
    assert not refused
    assert all(a is b for a, b in zip(updates, given, strict=True))


def norm_update(chosen: Job, client: int, variance: float = 1.0, counter: int = 4) -> Update:
    values = np.array([1, 1, 0.1, 0.1, 0.2, 0.2, variance, 0.9], np.float32)
    return Update(client, Params(values, np.array([counter])), 20, 4, 1.0, 1.0)


@pytest.mark.parametrize(
    ("variance", "counter", "words"),
    [
        (-1e6, 4, "running_var is a variance, and -1e+06 is below zero"),
        (1e9, 4, "its buffers went 1e+09 far"),
        (1.0, 2**62, "num_batches_tracked went from 0 to"),
        (1.0, -1, "num_batches_tracked went from 0 to -1"),
    ],
)
def test_buffers_that_no_training_makes(variance: float, counter: int, words: str) -> None:
    chosen = job(NORM)
    start = Params(np.array([1, 1, 0, 0, 0, 0, 1, 1], np.float32), np.array([0]))
    tasks = {client: order(chosen, client, start) for client in range(5)}
    updates = [norm_update(chosen, client) for client in range(4)] + [norm_update(chosen, 4, variance, counter)]
    admitted, refused, memory = bound(chosen, tasks, updates, {})
    assert len(admitted) == 4
    assert refused[4].startswith(words)
    assert len(memory[BUFFERS]) == 4


def test_nobody_counts_for_more_than_it_is_known_to_have() -> None:
    chosen = job(sized=True)
    task = order(chosen, 3)
    (update,), _, _ = bound(chosen, {3: task}, [moved(task, 1, num_examples=10**9)], {})
    assert update.num_examples == 20


def test_claims_are_compared_where_nothing_is_known() -> None:
    chosen = job()
    tasks = {client: order(chosen, client) for client in range(5)}
    given = [moved(tasks[k], 1, num_examples=n, num_steps=2) for k, n in enumerate([10, 20, 30, 25, 10**9])]
    updates, _, memory = bound(chosen, tasks, given, {})
    assert [update.num_examples for update in updates][:4] == [10, 20, 30, 25]
    assert updates[4].num_examples <= 25 * 10
    again = [moved(tasks[0], 1, num_examples=500)]
    (update,), _, _ = bound(chosen, tasks, again, memory)
    assert update.num_examples == 2 * memory[CLAIMS][0] == 20


def test_plain_numbers_come_out() -> None:
    chosen = job()
    task = order(chosen, 0)
    (update,), _, _ = bound(chosen, {0: task}, [moved(task, 1, num_examples=np.int32(20), num_steps=np.int64(4))], {})
    assert (type(update.num_examples), type(update.num_steps)) == (int, int)


def test_steps_that_were_ordered() -> None:
    training = MethodSection(epochs=3, batch_size=8).training()
    assert ordered_steps(training, 17) == (6, 9)  # with BatchNorm, the last batch of one is skipped
    assert ordered_steps(training, 16) == (6, 6)
    assert ordered_steps(training, 3) == (1, 3)
    assert ordered_steps(training, 100, 2) == (2, 2)


@pytest.mark.parametrize(("times", "usable"), [(-3.0, True), (99.0, True), (101.0, False), (1e30, False)])
def test_what_follows_from_a_start_that_is_not_known_is_bounded(times: float, usable: bool) -> None:
    """A neighbour's change of its control variate: its start is not known, so it is compared with one's own."""
    chosen = job(method="scaffold")
    task = replace(order(chosen, 0), broadcast={"control": np.zeros(PLAIN.trainable, np.float32)})
    right = task.rule.report(task, moved(task, 1))
    said = replace(right, facts={"control_change": (times * right.facts["control_change"]).astype(np.float32)})
    assert bound(chosen, {0: task}, [said], {})[1]
    assert bool(bound(chosen, {0: task}, [said], {}, elsewhere=[0])[1]) != usable


def test_what_follows_from_no_start_is_known_all_the_same() -> None:
    chosen = job(method="fednova")
    task = order(chosen, 0)
    right = task.rule.report(task, moved(task, 1))
    assert not bound(chosen, {0: task}, [right], {}, elsewhere=[0])[1]
    lied = replace(right, facts={"accumulated": right.facts["accumulated"] * 2})
    assert bound(chosen, {0: task}, [lied], {}, elsewhere=[0])[1]


@pytest.mark.parametrize(
    ("steps", "words"),
    [(1, "1 steps on 20 examples; at least 4 were ordered"), (5, "5 steps on 20 examples; at most 4 were ordered")],
)
def test_steps_of_fednova_are_bounded_from_both_sides(steps: int, words: str) -> None:
    chosen = job(method="fednova")
    task = order(chosen, 0)
    told = task.rule.report(task, moved(task, 1, num_steps=steps))
    assert bound(chosen, {0: task}, [told], {})[1] == {0: words}
    right = task.rule.report(task, moved(task, 1))
    assert not bound(chosen, {0: task}, [right], {})[1]
    lied = replace(right, facts={"accumulated": np.array([1.0, 1.0])})
    assert bound(chosen, {0: task}, [lied], {})[1] == {
        0: "accumulated does not follow from the model that came with it"
    }
    assert bound(chosen, {0: task}, [replace(right, facts={})], {})[1] == {
        0: "it says [] besides the model, expected ['accumulated']"
    }


def test_facts_that_nobody_asked_for() -> None:
    chosen = job()
    task = order(chosen, 0)
    _, refused, _ = bound(chosen, {0: task}, [moved(task, 1, facts={"a surprise": np.ones(3)})], {})
    assert refused == {0: "it says ['a surprise'] besides the model, expected []"}


def test_alone_by_hand() -> None:
    length = 2.0  # of four ones, as is that of the model
    assert not judged(job(), [ALONE * (length + length)])[1]
    assert judged(job(), [ALONE * (length + length) * 1.01])[1]


# whole runs


class Hostile(InlineBackend):
    """Trains as usual; some clients send something else."""

    def __init__(self, change: Any, liars: tuple[int, ...] = (0,)) -> None:
        super().__init__()
        self.change, self.liars = change, liars

    def run(self, tasks: Any) -> list[Any]:
        return [
            self.change(task, outcome) if isinstance(task, Order) and task.client in self.liars else outcome
            for task, outcome in zip(tasks, super().run(tasks), strict=True)
        ]


def scaled(factor: float) -> Any:
    def change(task: Any, update: Any) -> Any:
        with np.errstate(over="ignore"):
            values = task.params.values - factor * (update.params.values - task.params.values)
            values = np.nan_to_num(values, posinf=3.4e38, neginf=-3.4e38).astype(np.float32)
        return replace(update, params=Params(values, update.params.counters))

    return change


def once(value: float) -> Any:
    def change(task: Any, update: Any) -> Any:
        values = update.params.values.copy()
        values[11] = value
        return replace(update, params=Params(values, update.params.counters)) if task.round == 2 else update

    return change


def claiming(number: int) -> Any:
    def change(task: Any, update: Any) -> Any:
        lied = scaled(30.0)(task, update)
        return replace(lied, num_examples=number)

    return change


def few_steps(task: Any, update: Any) -> Any:
    lied = replace(scaled(1.0)(task, update), num_steps=1)
    return lied if task.rule is None else task.rule.report(task, replace(lied, facts={}))


def accuracy(folder: Any, change: Any, **method: Any) -> float:
    chosen = {"cohort": 9, "lr": 0.1, "epochs": 3, "batch_size": 16, "momentum": 0.9, "selector": "full", **method}
    data = {"name": "digits", "partition": "dirichlet_balanced", "clients": 9, "alpha": 1.0}
    table = {"rounds": 8, "seed": 3, "data": data, "method": chosen, "engine": {"backend": "inline"}}
    summary = run(parse({**table, "evaluate_every": 8}), RunFolder(folder), backend=Hostile(change))
    return float(summary["accuracy"])


ATTACKS = {
    "one value of 3.4e38, once": once(3.4e38),
    "a million times": scaled(1e6),
    "a thousand million million times": scaled(1e15),
}


@cache
def undisturbed(method: str) -> float:
    with TemporaryDirectory() as folder:
        return accuracy(Path(folder), lambda task, update: None, name=method)


@pytest.mark.parametrize("attack", ATTACKS)
@pytest.mark.parametrize("method", ["fedavg", "fedadam", "fednova", "scaffold", "fedklentropy"])
def test_one_client_never_poisons_the_model(tmp_path: Any, attack: str, method: str) -> None:
    """Each of these ended at 0.10, or with exit code 4."""
    found = accuracy(tmp_path, ATTACKS[attack], name=method)
    assert found > undisturbed(method) - 0.05
    assert found > 0.75


def test_a_lied_size_does_not_go_around_clipping(tmp_path: Any) -> None:
    """0.91 fell to 0.10."""
    server = {"name": "clipped", "norm": 2.0}
    assert accuracy(tmp_path, claiming(10**9), server=server) > 0.8


def test_a_lied_number_of_steps_does_not_go_around_the_cap(tmp_path: Any) -> None:
    """With weight 0.2 at most: 0.91 fell to 0.10."""
    capped = {"name": "capped", "share": 0.2}
    assert accuracy(tmp_path, few_steps, name="fednova", weigher=capped) > 0.8


def test_the_median_is_numpys() -> None:
    rng = np.random.default_rng(0)
    for length in range(1, 150):
        values = rng.standard_normal(length)
        assert median(values) == np.median(values)
        values[rng.integers(length)] = np.inf
        assert median(values) == np.median(values)
        values[rng.integers(length)] = np.nan
        assert np.isnan(median(values))
