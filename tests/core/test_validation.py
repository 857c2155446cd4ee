"""Every way for an update to be bad, and that good ones pass untouched."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.instructions import instructions

from entrofed.core.job import Job, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.types import ClientTable, Failure, Update
from entrofed.core.validation import MAX_EXAMPLES, admit, problem
from entrofed.errors import EntrofedError
from entrofed.experiment.sections.method import MethodSection

LAYOUT = Layout.of(torch.nn.BatchNorm1d(2))  # 8 floats, 1 counter


def job(nonfinite: str = "drop", method: str = "fedavg", **rules: Any) -> Job:
    """What admission looks at: the layout, the rules, and the facts that the method asks for."""
    section = MethodSection(name=method)
    held = Rules(rounds=1, cohort=1, training=section.training(), nonfinite=nonfinite, **rules)  # type: ignore[arg-type]
    return Job(section.recipe, held, ClientTable(np.arange(10) * 11, classes=2), np.arange(10), LAYOUT, 0)


def good(client: int = 3, **changes: Any) -> Update:
    params = Params(np.full(8, client, np.float32), np.array([client]))
    return replace(Update(client, params, 20, 4, 0.5, 0.4), **changes)


def with_values(values: Any, client: int = 3) -> Update:
    return good(client, params=Params(values, np.array([1])))


def spoiled(value: float) -> Update:
    return with_values(np.array([1, 2, value, 4, 5, 6, value, 8], np.float32))


REFUSED = {
    "failure": (Failure("OSError: no room"), "OSError: no room"),
    "nothing": (None, "not an update: NoneType"),
    "something else": ({"client": 3}, "not an update: dict"),
    "a model alone": (good().params, "not an update: Params"),
    "a loss of an endless number": (good(train_loss=2**70), "its training loss has 71 bits; at most 63 are read"),
    "foreign client": (good(7), "answer in the name of client 7"),
    "no model": (good(params=None), "no model but NoneType"),
    "float64": (with_values(np.zeros(8)), "parameters of type float64, expected float32"),
    "a list": (with_values([0.0] * 8), "parameters of type list, expected float32"),
    "too short": (with_values(np.zeros(7, np.float32)), "parameters of shape (7,), expected (8,)"),
    "two axes": (with_values(np.zeros((8, 1), np.float32)), "parameters of shape (8, 1), expected (8,)"),
    "no counters": (
        good(params=Params(np.zeros(8, np.float32), np.zeros(0, np.int64))),
        "counters of shape (0,), expected (1,)",
    ),
    "float counters": (
        good(params=Params(np.zeros(8, np.float32), np.zeros(1))),  # type: ignore[arg-type]
        "counters of type float64, expected int64",
    ),
    "no examples": (good(num_examples=0), "no examples"),
    "negative examples": (good(num_examples=-1), "absurd number of examples: -1"),
    "too many examples": (
        good(num_examples=MAX_EXAMPLES + 1),
        f"absurd number of examples: {MAX_EXAMPLES + 1}",
    ),
    "examples true": (good(num_examples=True), "number of examples is not an integer: True"),
    "examples float": (good(num_examples=20.0), "number of examples is not an integer: 20.0"),
    "examples nan": (good(num_examples=float("nan")), "number of examples is not an integer: nan"),
    "no steps": (good(num_steps=0), "no steps"),
    "negative steps": (good(num_steps=-2), "absurd number of steps: -2"),
    "steps float": (good(num_steps=4.5), "number of steps is not an integer: 4.5"),
    "nan": (spoiled(np.nan), "2 non-finite parameters"),
    "inf": (spoiled(np.inf), "2 non-finite parameters"),
    "minus inf": (spoiled(-np.inf), "2 non-finite parameters"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_for_the_right_reason(case: str) -> None:
    answer, reason = REFUSED[case]
    assert problem(answer, 3, job()) == reason
    assert admit(job(), [3], [answer]) == ([], {3: reason})


@pytest.mark.parametrize(
    "update",
    [
        good(),
        good(num_examples=1, num_steps=1),
        good(num_examples=MAX_EXAMPLES),
        good(num_examples=np.int32(5)),
        good(params=Params(np.full(8, np.finfo(np.float32).max), np.array([0]))),
    ],
)
def test_good_ones_pass_untouched(update: Update) -> None:
    values = update.params.values.copy()
    assert problem(update, 3, job()) is None
    admitted, refused = admit(job(), [3], [update])
    assert admitted[0] is update
    assert refused == {}
    np.testing.assert_array_equal(update.params.values, values)


def test_of_two_answers_the_first_is_kept() -> None:
    first, second = good(num_examples=1), good(num_examples=2)
    admitted, refused = admit(job(), [3, 4, 3], [first, good(4), second])
    assert [update.num_examples for update in admitted] == [1, 20]
    assert refused == {3: "duplicate answer; the first was kept"}


def test_nobody_answers() -> None:
    assert admit(job(), [], []) == ([], {})


def test_answers_and_clients_must_match() -> None:
    with pytest.raises(ValueError):
        admit(job(), [1, 2], [good(1)])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_nonfinite_raise(value: float) -> None:
    with pytest.raises(EntrofedError, match="client 3 sent 2 non-finite parameters, and nonfinite = 'raise'"):
        admit(job("raise"), [1, 3], [good(1), spoiled(value)])


def test_raise_is_about_nonfinite_parameters_only() -> None:
    admitted, refused = admit(job("raise"), [1, 2, 3], [good(1), Failure("crash"), good(num_steps=0)])
    assert [update.client for update in admitted] == [1]
    assert refused == {2: "crash", 3: "no steps"}


def test_a_failure_that_speaks_of_nonfinite_values_is_a_failure() -> None:
    assert admit(job("raise"), [3], [Failure("ValueError: non-finite loss")]) == (
        [],
        {3: "ValueError: non-finite loss"},
    )


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_nonfinite_propagate(value: float) -> None:
    update = spoiled(value)
    assert admit(job("propagate"), [3], [update])[0] == [update]
    assert admit(job("propagate"), [3], [REFUSED["too short"][0]])[0] == []


BAD = sorted(REFUSED.keys() - {"foreign client"})


@settings(deadline=None)
@given(st.lists(st.none() | st.sampled_from(BAD), max_size=12))
def test_exactly_the_good_ones_in_order(kinds: list[str | None]) -> None:
    answers = []
    for client, kind in enumerate(kinds):
        answer = good(client) if kind is None else REFUSED[kind][0]
        answers.append(replace(answer, client=client) if isinstance(answer, Update) else answer)
    admitted, refused = admit(job(), range(len(kinds)), answers)
    expected = [client for client, kind in enumerate(kinds) if kind is None]
    assert [update.client for update in admitted] == expected
    assert all(update is answers[update.client] for update in admitted)
    assert refused == {client: REFUSED[kind][1] for client, kind in enumerate(kinds) if kind is not None}


def test_four_times_the_answers_are_four_times_the_work() -> None:
    """Admission was quadratic in the cohort: 10,000 answers took 3 s."""
    answers = [good(client) for client in range(800)]
    few, many = (instructions(lambda n=n: admit(job(), range(n), answers[:n])) for n in (200, 800))  # type: ignore[misc]
    assert few > 200
    assert many < 4.1 * few


def test_where_sizes_are_released_the_claimed_ones_do_not_count() -> None:
    admitted, _ = admit(job(released_sizes=True), [3, 4], [good(3), good(4)])
    assert [update.num_examples for update in admitted] == [33, 44]


SOFT = {
    "nothing": ({}, "the reply lacks mean_prediction"),
    "no distribution": ({"mean_prediction": np.array([0.5, 0.6])}, "mean_prediction: it is not a distribution"),
    "of other classes": ({"mean_prediction": np.array([1.0])}, "mean_prediction: it is not a distribution"),
    "not finite": ({"mean_prediction": np.array([np.nan, 1])}, "mean_prediction is not an array of finite numbers"),
    "text": ({"mean_prediction": np.array(["a", "b"])}, "mean_prediction is not an array of finite numbers"),
}


@pytest.mark.parametrize("case", SOFT)
def test_facts_that_the_method_asks_for(case: str) -> None:
    facts, words = SOFT[case]
    assert (problem(good(facts=facts), 3, job(method="reselection")) or "").startswith(words)
    right = good(facts={"mean_prediction": np.array([0.25, 0.75])})
    assert problem(right, 3, job(method="reselection")) is None
    assert problem(good(), 3, job()) is None
