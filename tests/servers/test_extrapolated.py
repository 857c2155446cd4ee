"""FedExP: its formula by hand, and FedAvg where clients agree."""

import numpy as np
import pytest

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.servers.average import average
from entrofed.servers.extrapolated import Extrapolated

HALF = np.array([0.5, 0.5])


def updates_of(*models):
    return [Update(k, Params(np.array(m, np.float32), np.array([k])), 10, 2, 1.0, 1.0) for k, m in enumerate(models)]


def context_of(start, trainable):
    table = ClientTable(sizes=np.full(9, 10), trainable=trainable)
    return Context(Params(np.array(start, np.float32), np.array([0])), 0, table, None, 0, None)


def test_by_hand():
    """Displacements (4, 1) and (-2, 1): 17 and 5, mean (1, 1) of 2; 11 / (2 (2 + 0.75)) = 2."""
    after, state = Extrapolated(epsilon=0.75).apply(updates_of([5, 2], [-1, 2]), HALF, context_of([1, 1], 2), {})
    assert after.values.tolist() == [3.0, 3.0]
    assert state == {}


def test_weights_count():
    """0.75 and 0.25: mean (2.5, 1) of 7.25, lengths 14; 14 / (2 * 7.25) is below 1."""
    weights, updates = np.array([0.75, 0.25]), updates_of([5, 2], [-1, 2])
    after, _ = Extrapolated().apply(updates, weights, context_of([1, 1], 2), {})
    assert after.values.tolist() == [3.5, 2.0]


def test_clients_that_agree_are_averaged_to_the_last_bit():
    updates = updates_of([0.3, 0.1, 7], [0.3, 0.1, 9])
    after, _ = Extrapolated().apply(updates, HALF, context_of([0.1, 0.7, 1], 2), {})
    expected = average(updates, HALF)
    assert after.values.tobytes() == expected.values.tobytes()
    assert after.counters.tolist() == [1]


def test_buffers_are_averaged_only():
    after, _ = Extrapolated(epsilon=0.75).apply(updates_of([5, 2, 8], [-1, 2, 4]), HALF, context_of([1, 1, 1], 2), {})
    assert after.values.tolist() == [3.0, 3.0, 6.0]


def test_momentum_remembers_longer_steps():
    part, context = Extrapolated(epsilon=0.75, beta=0.5), context_of([1, 1], 2)
    state = part.init(context.params, context.clients, np.arange(2))
    for expected in ([3.0, 3.0], [4.0, 4.0]):  # 2 * (1, 1), and half of that besides
        after, state = part.apply(updates_of([5, 2], [-1, 2]), HALF, context, state)
        assert after.values.tolist() == expected
    assert state["momentum"].tolist() == [3.0, 3.0]


@pytest.mark.parametrize("options", [{"epsilon": 0.0}, {"epsilon": float("inf")}, {"beta": 1.0}, {"beta": -0.1}])
def test_bad_options(options):
    with pytest.raises(ConfigError, match="must be above 0, beta"):
        Extrapolated(**options)
