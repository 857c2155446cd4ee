"""FedAvgM: its oracle, and plain averaging without momentum."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Context, PartState, Update
from entrofed.errors import ConfigError
from entrofed.servers.average import average
from entrofed.servers.momentum import Momentum

NOBODY = np.arange(0)
LARGEST = float(np.finfo(np.float32).max)


def update_of(client: int, values: Any, counter: int = 0) -> Update:
    return Update(client, Params(np.asarray(values, np.float32), np.array([counter])), 10, 2, 1.0, 1.0)


def context_of(start: Any, trainable: int) -> Context:
    table = ClientTable(sizes=np.full(9, 10), trainable=trainable)
    return Context(Params(np.asarray(start, np.float32), np.array([0])), 0, table, None, 0, None)  # type: ignore[arg-type]


def play(part: Momentum, start: Any, cohorts: Sequence[Any], trainable: int) -> tuple[list[Params], PartState]:
    """Rounds in which a single client sends these models."""
    context = context_of(start, trainable)
    state = part.init(context.params, context.clients, NOBODY)
    models = []
    for values in cohorts:
        after, state = part.apply([update_of(0, values, 3)], np.ones(1), context, state)
        models.append(after)
        context = context_of(after.values, trainable)
    return models, state


def test_opt_1() -> None:
    models, state = play(Momentum(), [1.0], [[1.5], [1.3]], 1)
    assert [float(model.values[0]) for model in models] == pytest.approx([1.5, 1.75], rel=1e-7)
    assert state["momentum"] == pytest.approx([0.9 * 0.5 - 0.2], rel=1e-6)  # 1.3 is not a float32
    assert state["momentum"].dtype == np.float64


def test_the_step_length() -> None:
    (model,), _ = play(Momentum(lr=0.5), [1.0], [[3.0]], 1)
    assert model.values.tolist() == [2.0]


def test_warmup() -> None:
    """Two rounds in which beta is 0 and half of 0.8; then all of it."""
    found, part = [], Momentum(beta=0.8, warmup=2)
    state: PartState = {"momentum": np.ones(1)}
    for number in range(3):
        _, after = part.apply([update_of(0, [0.0])], np.ones(1), replace(context_of([0.0], 1), round=number), state)
        found.append(float(after["momentum"][0]))
    assert found == pytest.approx([0, 0.4, 0.8])
    with pytest.raises(ConfigError, match="warmup = -1 is a number of rounds"):
        Momentum(warmup=-1)


def test_growth() -> None:
    """From the third round on the rate grows by a tenth per round."""
    part, found = Momentum(beta=0.0, lr=2.0, growth=1.1, hold=2), []
    for number in range(5):
        context = replace(context_of([0.0], 1), round=number)
        after, _ = part.apply([update_of(0, [1.0])], np.ones(1), context, {"momentum": np.zeros(1)})
        found.append(float(after.values[0]))
    assert found == pytest.approx([2, 2, 2, 2.2, 2.42])
    for bad, words in (({"growth": 0.9}, "growth = 0.9 must be at least 1"), ({"hold": 3}, "hold = 3 does nothing")):
        with pytest.raises(ConfigError, match=words):
            Momentum(**bad)


def test_anneal() -> None:
    """Six rounds: the rate is 2 in the first three, and falls by thirds to what would be 0 in the seventh."""
    part, found = Momentum(beta=0.0, lr=2.0, anneal=3), []
    for number in range(6):
        context = replace(context_of([0.0], 1), round=number)
        context = replace(context, clients=replace(context.clients, rounds=6))
        after, _ = part.apply([update_of(0, [1.0])], np.ones(1), context, {"momentum": np.zeros(1)})
        found.append(float(after.values[0]))
    assert found == pytest.approx([2, 2, 2, 2, 4 / 3, 2 / 3])
    with pytest.raises(ConfigError, match="anneal = -2 is a number of rounds"):
        Momentum(anneal=-2)
    context = context_of([0.0], 1)
    with pytest.raises(ConfigError, match="anneal needs the number of rounds, which is not known here"):
        part.init(context.params, context.clients, NOBODY)


def test_buffers_have_no_momentum() -> None:
    models, state = play(Momentum(), [0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], 1)
    assert models[1].values == pytest.approx([1.9, 1.0], rel=1e-7)
    assert len(state["momentum"]) == 1
    assert models[1].counters.tolist() == [3]


vectors = arrays(np.float32, 7, elements=st.floats(-LARGEST, LARGEST, width=32))


@given(st.lists(st.tuples(vectors, st.floats(0.01, 1)), min_size=1, max_size=5), vectors, vectors)
def test_without_momentum_the_average_to_the_last_bit(
    clients: list[tuple[np.ndarray, float]], start: np.ndarray, old: np.ndarray
) -> None:
    updates = [update_of(k, values, k) for k, (values, _) in enumerate(clients)]
    weights = np.array([weight for _, weight in clients])
    weights /= weights.sum()
    remembered = {"momentum": old[:5].astype(np.float64)}
    after, _ = Momentum(beta=0).apply(updates, weights, context_of(start, 5), remembered)
    expected = average(updates, weights)
    assert after.values.tobytes() == expected.values.tobytes()
    assert after.counters.tolist() == expected.counters.tolist()


def test_never_beyond_float32() -> None:
    models, _ = play(Momentum(lr=5), [-LARGEST], [[LARGEST], [LARGEST]], 1)
    assert [float(model.values[0]) for model in models] == [LARGEST, LARGEST]


@pytest.mark.parametrize("options", [{"beta": 1.0}, {"beta": -0.1}, {"lr": 0.0}, {"lr": float("inf")}])
def test_bad_options(options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be"):
        Momentum(**options)
