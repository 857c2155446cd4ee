"""FedAdam, FedYogi and FedAdagrad: their oracles, and what they leave alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.servers.adaptive import Adaptive, FedAdagrad, FedAdam, FedYogi

NO_PARAMS = Params(np.zeros(1, np.float32), np.zeros(0, np.int64))
ALL = pytest.mark.parametrize("kind", [FedAdam, FedYogi, FedAdagrad])


def update_of(client: int, values: Any, counter: int = 0) -> Update:
    return Update(client, Params(np.asarray(values, np.float32), np.array([counter])), 10, 2, 1.0, 1.0)


def context_of(start: Any, trainable: int) -> Context:
    table = ClientTable(sizes=np.full(9, 10), trainable=trainable)
    return Context(Params(np.asarray(start, np.float32), np.array([0])), 0, table, None, 0, None)  # type: ignore[arg-type]


def walk(part: Adaptive, deltas: list[float]) -> tuple[list[float], list[float]]:
    """Where a parameter is after each step from 1, and v."""
    state = part.init(NO_PARAMS, ClientTable(np.ones(1, np.int64), trainable=1), np.arange(1))
    x, places, variances = 1.0, [], []
    for delta in deltas:
        change, state = part.step(np.array([delta]), state)
        x += float(change[0])
        places.append(x)
        variances.append(float(state["v"][0]))
    return places, variances


@pytest.mark.parametrize(
    ("part", "places", "variances"),
    [
        (FedAdam(lr=0.1), [1.09803921568627, 1.14381081143594], [0.0025, 0.002875]),
        (FedYogi(lr=0.1), [1.09803921568627, 1.14361669763811], [0.0025, 0.0029]),
        (FedAdagrad(lr=0.1), [1.0998003992016, 1.06273016925505], [0.25, 0.29]),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_opt_1(part: Adaptive, places: list[float], variances: list[float]) -> None:
    found = walk(part, [0.5, -0.2])
    assert found[0] == pytest.approx(places, rel=1e-9)
    assert found[1] == pytest.approx(variances, rel=1e-9)


def test_yogi_shrinks_by_the_square() -> None:
    _, variances = walk(FedYogi(), [10.0, 0.1])
    assert variances == pytest.approx([1.0, 1.0 - 0.01 * 0.01], rel=1e-12)


def test_corrected_moments() -> None:
    """After the first step both are those of Delta itself; after the second, by hand."""
    places, _ = walk(FedAdam(lr=0.1, bias_correction=True), [0.5, -0.2])
    m, v = (0.9 * 0.05 - 0.02) / 0.19, 0.002875 / 0.0199
    assert places[0] == pytest.approx(1 + 0.1 * 0.5 / 0.501, rel=1e-12)
    assert places[1] - places[0] == pytest.approx(0.1 * m / (v**0.5 + 1e-3), rel=1e-9)


@ALL
def test_the_start_of_the_paper(kind: type[Adaptive]) -> None:
    table = ClientTable(np.ones(1, np.int64), trainable=2)
    assert kind(tau=0.1, start="tau_squared").init(NO_PARAMS, table, np.arange(1))["v"] == pytest.approx([0.01] * 2)
    assert kind().init(NO_PARAMS, table, np.arange(1))["v"].tolist() == [0, 0]


@ALL
def test_a_round_by_hand(kind: type[Adaptive]) -> None:
    """Delta = 0.25 * 1 + 0.75 * 3 - 2 = 0.5; the buffer behind the parameter is averaged."""
    part, context = kind(lr=0.1), context_of([2.0, 9.0], 1)
    state = part.init(context.params, context.clients, np.arange(2))
    updates = [update_of(0, [1.0, 1.0], 7), update_of(1, [3.0, 3.0], 5)]
    after, state = part.apply(updates, np.array([0.25, 0.75]), context, state)
    expected = 2 - 1 + walk(part, [0.5])[0][0]
    assert after.values == pytest.approx([expected, 2.5], rel=1e-7)
    assert after.counters.tolist() == [7]
    assert len(state["v"]) == 1
    assert state["m"].dtype == state["v"].dtype == np.float64


@ALL
@given(
    arrays(np.float32, 5, elements=st.floats(-(2.0**100), 2.0**100, width=32)),
    st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
)
def test_no_step_where_no_client_moved(kind: type[Adaptive], values: np.ndarray, raw: list[float]) -> None:
    """However small tau is: the rounding of an average must not be taken for a direction."""
    part, context = kind(lr=1.0, tau=1e-30), context_of(values, 5)
    state = part.init(context.params, context.clients, np.arange(1))
    updates = [update_of(k, values) for k in range(len(raw))]
    for _ in range(3):
        after, state = part.apply(updates, np.array(raw) / sum(raw), context, state)
        assert (after.values == values).all()
        assert not state["m"].any()


@ALL
def test_huge_values(kind: type[Adaptive]) -> None:
    largest = float(np.finfo(np.float32).max)
    context = context_of([largest], 1)
    part = kind(lr=1e39)
    state = part.init(context.params, context.clients, np.arange(1))
    for sent, expected in ((-largest, -largest), (largest, largest)):
        after, _ = part.apply([update_of(0, [sent])], np.ones(1), context, state)
        assert after.values.tolist() == [expected]


@ALL
@pytest.mark.parametrize("options", [{"lr": 0.0}, {"tau": 0.0}, {"tau": float("nan")}])
def test_bad_options(kind: type[Adaptive], options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="must be above 0"):
        kind(**options)


@pytest.mark.parametrize("kind", [FedAdam, FedYogi])
@pytest.mark.parametrize("options", [{"beta1": 1.0}, {"beta2": -0.1}])
def test_bad_betas(kind: type[Adaptive], options: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match="at least 0 and below 1"):
        kind(**options)


def test_a_correction_of_what_is_not_biased_so() -> None:
    with pytest.raises(ConfigError, match="leave one of them out"):
        FedAdam(start="tau_squared", bias_correction=True)
