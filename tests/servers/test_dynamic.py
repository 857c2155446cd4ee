"""FedDyn: a round by hand, and its fixed point through the real training loop."""

from dataclasses import replace

import numpy as np
import pytest
from tests.quadratics import params, play

from entrofed.core.params import Layout
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.experiment.sections.method import MethodSection
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.servers.average import Average
from entrofed.servers.dynamic import Dynamic


def context(start):
    return Context(start, 0, ClientTable(np.ones(4, np.int64), trainable=1), Layout((), 1, 1, 0), 0, None)


def test_by_hand():
    """alpha = 0.1, four clients, of which two move from 1 to 0.5 and -1.

    h = -0.1 / 4 (-0.5 - 2) = 0.0625, so that w = -0.25 - 0.625; g = 0.05 and 0.2.
    """
    rule, start = Dynamic(0.1), params(1)
    state = rule.init(start, context(start).clients, np.arange(4))
    task = TrainTask(0, 0, 0, start, CrossEntropy(), MethodSection().training(), broadcast=rule.broadcast(state))
    assert rule.client.correction(task) is None
    updates = [rule.client.report(task, Update(k, params(w), 1, 1, 0.0, 0.0)) for k, w in enumerate((0.5, -1))]
    after, state = rule.apply(updates, np.full(2, 0.5), context(start), state)
    assert state["h"] == pytest.approx([0.0625])
    assert after.values == pytest.approx([-0.875])
    assert [update.client_state["gradient"][0] for update in updates] == pytest.approx([0.05, 0.2])
    again = replace(task, client_state=updates[0].client_state)
    assert rule.client.correction(again).values == pytest.approx([-0.05])
    further = rule.client.report(again, Update(0, params(2), 1, 1, 0.0, 0.0))
    assert further.client_state["gradient"] == pytest.approx([0.05 - 0.1])


def test_its_fixed_point_is_the_federations_minimum():
    """Minima 0 and 4 with curvatures 1 and 3: together 3. FedAvg of many local steps ends halfway between."""
    *_, plain = play(Average(), (1, 3), (0, 4), lr=0.2, steps=40, rounds=60)
    *_, dynamic = play(Dynamic(1.0), (1, 3), (0, 4), lr=0.2, steps=40, rounds=60)
    assert plain.params.values[0] == pytest.approx(2, abs=1e-3)
    assert dynamic.params.values[0] == pytest.approx(3, abs=1e-3)
    own = [float(dynamic.client_states[k]["gradient"][0]) for k in range(2)]
    assert own == pytest.approx([3, -3], abs=1e-3)  # h (w - b), and they sum to 0
    assert dynamic.server["h"] == pytest.approx([0], abs=1e-3)


def test_bad_alpha():
    with pytest.raises(ConfigError, match="alpha = 0 must be above 0"):
        Dynamic(0)
