"""NOVA-1/2, SCAF-1/2 and the table of quadratics, through the real training loop."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.quadratics import params, play

from entrofed.core.params import Layout
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.sections.method import MethodSection
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.scripted import Scripted
from entrofed.servers.average import Average, average
from entrofed.servers.normalized import AccumulatedSteps, Normalized, accumulated
from entrofed.servers.scaffold import ControlVariate, Scaffold
from entrofed.weighers.data_size import DataSize

NO_COUNTERS, PLAIN = np.zeros(0, np.int64), CrossEntropy()


def context(start, clients=2):
    return Context(start, 0, ClientTable(np.ones(clients, np.int64), trainable=1), Layout((), 1, 1, 0), 0, None)


def reported(rule, start, update, objective=PLAIN, **training):
    """The update with what the rule has its clients add."""
    chosen = replace(MethodSection().training(), **training)
    return rule.client.report(TrainTask(update.client, 0, 0, start, objective, chosen, rule=rule.client), update)


def test_nova_1():
    assert accumulated(5, 0.9) == pytest.approx(13.1441, rel=1e-9)
    assert accumulated(160, 0.9) == pytest.approx(1510.0000042958, rel=1e-9)
    assert accumulated(1, 0.9) == pytest.approx(1)
    assert accumulated(3, 0.0) == 3


@settings(deadline=None)
@given(st.integers(1, 200), st.floats(0, 0.99))
def test_accumulated_steps_are_those_of_a_constant_gradient(steps, momentum):
    velocity = way = 0.0
    for _ in range(steps):
        velocity = momentum * velocity + 1
        way += velocity
    assert accumulated(steps, momentum) == pytest.approx(way, rel=1e-9)


@pytest.mark.parametrize(("momentum", "expected"), [(0.0, -0.5625), (0.9, -0.793634609899)])
def test_nova_2(momentum, expected):
    start = params(1)
    updates = [
        reported(Normalized(), start, Update(k, params(w), n, steps, 0.0, 0.0), momentum=momentum)
        for k, (w, n, steps) in enumerate([(0.5, 10, 2), (-1, 30, 6)])
    ]
    after, _ = Normalized().apply(updates, np.array([0.25, 0.75]), context(start), {})
    assert after.values[0] == pytest.approx(expected, rel=1e-6)
    assert average(updates, np.array([0.25, 0.75])).values[0] == pytest.approx(-0.625)


def test_fednova_with_a_proximal_term():
    """a_k = sum (1 - lr mu)^s, and the common step counts steps."""
    start, rule = params(1), Normalized()
    proximal = MethodSection(name="fedprox", objective={"name": "proximal", "mu": 0.5}).recipe.objective
    updates = [
        reported(rule, start, Update(k, params(w), 10, steps, 0.0, 0.0), proximal, lr=0.1)
        for k, (w, steps) in enumerate([(0.5, 2), (-1, 6)])
    ]
    a = [sum(0.95**s for s in range(steps)) for steps in (2, 6)]
    assert [u.facts["accumulated"].tolist() for u in updates] == [[pytest.approx(a[0]), 2], [pytest.approx(a[1]), 6]]
    after, _ = rule.apply(updates, np.array([0.5, 0.5]), context(start), {})
    assert after.values[0] == pytest.approx(1 - 4 * (0.5 * 0.5 / a[0] + 0.5 * 2 / a[1]), rel=1e-6)


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 10**6), st.integers(1, 50), st.floats(0, 0.95))
def test_equal_steps_are_fedavg_bit_for_bit(seed, steps, momentum):
    rng, rule = np.random.default_rng(seed), Normalized()
    start, weights = params(*rng.standard_normal(5)), rng.dirichlet(np.ones(3))
    updates = [Update(k, params(*rng.standard_normal(5)), 1, steps, 0.0, 0.0) for k in range(3)]
    updates = [reported(rule, start, update, momentum=momentum) for update in updates]
    table = ClientTable(np.ones(3, int), trainable=5)
    after, _ = rule.apply(updates, weights, replace(context(start), clients=table), {})
    np.testing.assert_array_equal(after.values, average(updates, weights).values)


def test_a_common_direction_is_kept():
    """Displacements a_k d give w - t_eff d, which is what averaging gives."""
    start, rule, weights = params(3), Normalized(), np.array([0.3, 0.7])
    a = np.array([accumulated(2, 0.5), accumulated(9, 0.5)])
    updates = [
        reported(rule, start, Update(k, params(3 - a[k] * 0.25), 1, steps, 0.0, 0.0), momentum=0.5)
        for k, steps in enumerate((2, 9))
    ]
    after, _ = rule.apply(updates, weights, context(start), {})
    assert after.values[0] == pytest.approx(3 - (weights @ a) * 0.25, rel=1e-6)
    assert after.values[0] == pytest.approx(average(updates, weights).values[0], rel=1e-6)


def test_a_liar_cannot_divide_by_nothing():
    updates = [
        Update(k, params(w), 1, 4, 0.0, 0.0, facts={"accumulated": np.array([a, a])})
        for k, (w, a) in enumerate([(0.5, 4.0), (0.0, 0.0)])
    ]
    after, _ = Normalized().apply(updates, np.array([0.5, 0.5]), context(params(1)), {})
    assert np.isfinite(after.values).all()


# Quadratics h (x - b)^2 / 2


def test_scaf_1():
    states = list(play(Scaffold(), (1, 1), (0, 4), lr=0.1, steps=2, rounds=2))
    expected = [(1.19, (0.95, -2.85), -0.95), (1.3439, (1.2255, -2.7645), -0.7695)]
    for state, (x, own, common) in zip(states, expected, strict=True):
        assert state.params.values[0] == pytest.approx(x, rel=1e-5)
        assert [state.client_states[k]["control"][0] for k in range(2)] == pytest.approx(own, rel=1e-5)
        assert state.server["control"][0] == pytest.approx(common, rel=1e-5)


def test_scaf_2():
    (state,) = play(Scaffold(), (1, 1), (0, 4), lr=0.1, steps=2, selector=Scripted(((1,),)))
    assert state.params.values[0] == pytest.approx(1.57, rel=1e-6)
    assert state.client_states[1]["control"][0] == pytest.approx(-2.85, rel=1e-5)
    assert 0 not in state.client_states
    assert state.server["control"][0] == pytest.approx(-1.425, rel=1e-5)


TABLE = [  # momentum, steps, FedAvg, inside with A = steps, corrected, niid_bench
    (0.0, 20, 2.858885, 3.000000, 3.000000, 3.000000),
    (0.9, 5, 2.963682, None, 2.99999994, 3.021490),
    (0.9, 20, 2.423760, None, 3.000000, 3.308529),
    (0.9, 50, 1.973610, 3.000000, 2.999982, 2.873886),
]


def plain_twin(momentum, steps, length, *, outside=False, controlled=True):
    """The same in double precision, written down; ``length`` is A."""
    x, common, own = 1.0, 0.0, [0.0, 0.0]
    for _ in range(60):
        ends, new = [], []
        for k, (h, b) in enumerate(((1, 0), (3, 4))):
            y, velocity = x, 0.0
            for _ in range(steps):
                shift = common - own[k] if controlled else 0.0
                velocity = momentum * velocity + h * (y - b) + (0.0 if outside else shift)
                y -= 0.01 * (velocity + (shift if outside else 0.0))
            ends.append(y)
            new.append(own[k] - common + (x - y) / (0.01 * length))
        x = sum(ends) / 2
        common += sum(new[k] - own[k] for k in range(2)) / 2
        own = new
        if abs(x) > 1e6:
            return None
    return x


@pytest.mark.parametrize(("momentum", "steps", "plain", "naive", "corrected", "niid"), TABLE)
def test_the_table_of_quadratics(momentum, steps, plain, naive, corrected, niid):
    a = accumulated(steps, momentum)
    twins = [
        plain_twin(momentum, steps, steps, controlled=False),
        plain_twin(momentum, steps, steps),
        plain_twin(momentum, steps, a),
        plain_twin(momentum, steps, steps, outside=True),
    ]
    digits = [expected if expected is None else pytest.approx(expected, abs=5.1e-7) for expected in (plain, naive)]
    assert twins == [*digits, pytest.approx(corrected, abs=5.1e-7), pytest.approx(niid, abs=5.1e-7)]
    rules = (Average(), twins[0]), (Scaffold(), twins[2]), (Scaffold(variant="niid_bench"), twins[3])
    for rule, expected in rules:  # in single precision a step below 1e-7 of the model is lost
        *_, last = play(rule, (1, 3), (0, 4), lr=0.01, steps=steps, momentum=momentum, rounds=60)
        assert last.params.values[0] == pytest.approx(expected, abs=1e-5)


def test_the_common_control_is_the_mean_of_all_clients_own():
    cohorts = ((0, 2), (1,), (3, 0), (2, 1))
    states = play(
        Scaffold(), (1, 2, 3, 4), (0, 4, -1, 2), lr=0.05, steps=3, momentum=0.5, rounds=4, selector=Scripted(cohorts)
    )
    for state in states:
        own = [state.client_states[k]["control"][0] if k in state.client_states else 0.0 for k in range(4)]
        assert state.server["control"][0] == pytest.approx(np.mean(own), rel=1e-5)


def test_equal_controls_correct_nothing():
    """With c = c_k the correction vanishes: the first round is FedAvg's, bit for bit."""
    (plain,), (corrected,) = (
        play(rule, (1, 3), (0, 4), lr=0.1, steps=4, momentum=0.9, weigher=DataSize())
        for rule in (Average(), Scaffold())
    )
    np.testing.assert_array_equal(plain.params.values, corrected.params.values)


def test_the_servers_rate_stretches_the_step():
    (plain,), (half,) = (play(rule, (1, 3), (0, 4), lr=0.1, steps=4) for rule in (Scaffold(), Scaffold(server_lr=0.5)))
    assert half.params.values[0] - 1 == pytest.approx((plain.params.values[0] - 1) / 2, rel=1e-5)


def test_momentum_by_hand():
    """m = beta m + Delta: with the same Delta twice, the second step is (1 + beta) times as long."""
    rule, start = Scaffold(beta=0.5), params(1.0)
    facts = {"control_change": np.zeros(1, np.float32)}
    updates = [Update(k, params(end), 1, 1, 0.0, 0.0, facts=facts) for k, end in enumerate((1.5, 2.5))]
    before = rule.init(start, context(start).clients, np.arange(2))
    first, state = rule.apply(updates, [0.5, 0.5], context(start), before)
    second, _ = rule.apply(updates, [0.5, 0.5], context(start), state)
    assert (first.values.tolist(), second.values.tolist()) == ([2.0], [2.5])


def test_what_clients_do_for_the_rules():
    assert Average().client is None
    assert Normalized().client == AccumulatedSteps()
    assert Scaffold().client == ControlVariate("corrected")
    assert Scaffold(variant="niid_bench").client == ControlVariate("niid_bench")


@pytest.mark.parametrize(("variant", "outside"), [("corrected", False), ("niid_bench", True)])
def test_a_correction_by_hand(variant, outside):
    """c - c_k, where a client without a control variate has zero."""
    rule, training = ControlVariate(variant), MethodSection().training()
    broadcast = {"control": np.array([3.0, -1.0], np.float32)}
    task = TrainTask(0, 0, 0, params(0, 0), CrossEntropy(), training, rule=rule, broadcast=broadcast)
    first = rule.correction(task)
    later = rule.correction(replace(task, client_state={"control": np.array([1.0, 1.0], np.float32)}))
    assert (first.values.tolist(), later.values.tolist()) == ([3, -1], [2, -2])
    assert first.outside is later.outside is outside


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"name": "fednova", "optimizer": "adam"}, "counts the steps of SGD"),
        ({"name": "fednova", "persist_optimizer": True}, "momentum that starts at zero"),
        ({"name": "fednova", "objective": "proximal", "momentum": 0.9}, "no form for momentum and a proximal"),
        ({"name": "fednova", "objective": {"name": "proximal", "mu": 300.0}}, "lr \\* mu = 3 is above 1"),
        ({"name": "scaffold", "optimizer": "adam"}, "counts the steps of SGD"),
        ({"name": "scaffold", "persist_optimizer": True}, "momentum that starts at zero"),
        ({"name": "scaffold", "server": {"name": "scaffold", "server_lr": 0.0}}, "server_lr = 0.0"),
        ({"name": "scaffold", "server": {"name": "scaffold", "beta": 1.0}}, "beta = 1.0"),
    ],
)
def test_what_does_not_go_together_is_refused(method, words):
    with pytest.raises(ConfigError, match=words):
        parse({"method": method})
