"""FedCor: random rounds, and picks by how losses change together."""

import numpy as np
import pytest

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError
from entrofed.facts.loss import Loss
from entrofed.selectors.loss_correlation import LossCorrelation


def table(losses, sizes=None):
    told = [None if loss is None else np.array(loss) for loss in losses]
    return ClientTable(np.array(sizes or [10] * len(told)), facts={Loss.name: told})


def play(part, course, size=1, among=None):
    """Selections, one for each row of losses."""
    state, found = part.init(table(course[0]), np.arange(len(course[0]))), []
    for number, losses in enumerate(course):
        among = np.arange(len(losses)) if among is None else among
        found.append(part.select(state, table(losses), among, size, np.random.default_rng(number)))
        state = found[-1].state
    return found


def test_by_hand():
    """Losses changed by (-3, -3, 0): with noise 1, S = 17/18 of the outer product, plus 1.

    Clients 0 and 1 are worth ``(8.5 + 1 + 8.5) / 3 / sqrt(9.5)`` each, client 2 a third. Once 0 is known, 1 has
    variance ``9.5 - 8.5^2 / 9.5 = 1.8947`` and is worth its root, a third of it: 0.4588, more than client 2's 0.3333.
    """
    part = LossCorrelation(warmup=1, noise=1.0)
    _, chosen = play(part, [[5.0, 5.0, 5.0], [2.0, 2.0, 5.0]], size=3)
    assert chosen.clients == [0, 1, 2]
    expected = [6 / 9.5**0.5, (9.5 - 8.5**2 / 9.5) ** 0.5 / 3, 1 / 3]
    assert [reason["score"] for reason in chosen.reasons] == pytest.approx(expected)


def test_sizes_are_the_shares_of_the_data():
    part = LossCorrelation(warmup=1, noise=1.0)
    state = part.select(part.init(table([5.0] * 3), np.arange(3)), table([5.0] * 3), np.arange(3), 1, rng(0)).state
    chosen = part.select(state, table([2.0, 2.0, 4.0], [1, 1, 98]), np.arange(3), 1, rng(1))
    assert chosen.clients == [2]


def rng(seed):
    return np.random.default_rng(seed)


def test_random_cohorts_first_and_now_and_then():
    course = np.random.default_rng(0).random((14, 6)).tolist()
    found = play(LossCorrelation(warmup=4, interval=3), course, size=2)
    assert [not one.reasons for one in found] == [True] * 4 + [False, False, True] * 3 + [False]
    assert found[-1].state["when"].tolist() == [0, 1, 2, 3, 6, 9, 12]
    changes = np.array(course)[[1, 2, 3, 4, 7, 10, 13]] - np.array(course)[[0, 1, 2, 3, 6, 9, 12]]
    assert found[-1].state["changes"] == pytest.approx(changes)


def test_history_is_short_and_new_draws_count_more():
    course = np.random.default_rng(1).random((9, 4)).tolist()
    state = play(LossCorrelation(warmup=8, history=3), course)[-1].state
    assert state["when"].tolist() == [5, 6, 7]
    recent = LossCorrelation(warmup=2, forget=1e-6, noise=0.1)
    chosen = play(recent, [[9.0, 9.0, 9.0], [9.0, 9.0, 3.0], [4.0, 9.0, 3.0]])[-1]
    assert chosen.clients == [0]  # the last change was its alone


def test_those_picked_lately_count_less_until_the_next_draw():
    part = LossCorrelation(warmup=1, interval=99, beta=0.5)
    course = [[5.0, 5.0], [2.0, 2.2], *[[2.0, 2.2]] * 3]
    assert [one.clients for one in play(part, course)[1:]] == [[0], [1], [0], [1]]
    eager = LossCorrelation(warmup=1, interval=99, beta=1.0)
    assert [one.clients for one in play(eager, course)[1:]] == [[0]] * 4


def test_losses_that_nobody_told_and_clients_that_join():
    part = LossCorrelation(warmup=1)
    found = play(part, [[5.0, None, 5.0], [2.0, 3.0, float("nan")]], size=2)
    assert found[1].state["changes"].tolist() == [[-3, 0, 0]]
    assert found[1].clients[0] == 0
    later = part.select(found[1].state, table([2.0, 3.0, 1.0, 4.0]), np.arange(4), 4, rng(0))
    assert sorted(later.clients) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"warmup": 0}, "warmup = 0 must be at least 1"),
        ({"beta": 0.0}, "beta = 0.0 must be above 0 and at most 1"),
        ({"noise": 0.0}, "noise = 0.0 must be above 0"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        LossCorrelation(**options)
