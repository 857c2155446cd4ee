"""Maximum-entropy weights: closed forms, other solvers, and what the certificate promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize
from scipy.special import rel_entr

from entrofed.errors import ConfigError, DataError
from entrofed.info.divergence import kl
from entrofed.info.maxent import CERTIFIED, check_target, label_rows, maxent_weights, solve, target_distribution


def objective(weights, rows, target, prior, strength):
    prior = prior / prior.sum()
    return rel_entr(weights @ rows, target).sum() + strength * rel_entr(weights, prior).sum()


def draw(seed, n, classes, alpha=0.3):
    rng = np.random.default_rng(seed)
    rows = label_rows(np.round(100 * rng.dirichlet(np.full(classes, alpha), n)), np.ones(n))
    return rows, rng.dirichlet(np.full(classes, 5.0)), rng.integers(1, 50, n).astype(float)


OUTSIDE = pytest.mark.filterwarnings("ignore:Values in x were outside bounds")
"""SLSQP of earlier versions of SciPy (1.13) says so of its own steps."""


@OUTSIDE
@pytest.mark.parametrize("strength", [0.01, 0.1, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_another_solver_finds_the_same(seed, strength):
    """SLSQP stops about 1e-8 from the minimum: never below ours, and near it."""
    rows, target, prior = draw(seed, 5, 4)
    weights, gap = maxent_weights(rows, target, prior, strength=strength)
    found = minimize(
        objective,
        np.full(5, 0.2),
        args=(rows, target, prior, strength),
        bounds=[(1e-15, 1)] * 5,
        constraints={"type": "eq", "fun": lambda a: a.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    ours = objective(weights, rows, target, prior, strength)
    assert ours <= objective(found.x / found.x.sum(), rows, target, prior, strength) + 1e-12
    assert ours == pytest.approx(found.fun, abs=1e-8)
    assert weights == pytest.approx(found.x, abs=1e-3)
    assert gap <= 1e-12


@pytest.mark.parametrize("strength", [0.01, 0.1, 2.0])
@pytest.mark.parametrize("seed", range(4))
def test_the_weights_themselves_where_one_number_decides(seed, strength):
    """With two clients the slope is zero at a = (x, 1 - x): a root of one function."""
    rows, target, prior = draw(seed, 2, 3)

    def slope(x):
        ratio = np.log((x * rows[0] + (1 - x) * rows[1]) / target, where=rows.any(axis=0), out=np.zeros(3))
        return (rows[0] - rows[1]) @ ratio + strength * (np.log(x / prior[0]) - np.log((1 - x) / prior[1]))

    expected = brentq(slope, 1e-300, 1 - 1e-16, xtol=1e-16, rtol=1e-15)
    assert maxent_weights(rows, target, prior, strength=strength)[0][0] == pytest.approx(expected, abs=1e-10)


@OUTSIDE
@pytest.mark.parametrize("least", [2.0, 3.5, 4.9])
def test_another_solver_finds_the_same_with_a_floor(least):
    rows, target, prior = draw(7, 5, 4)
    weights, gap = maxent_weights(rows, target, prior, strength=0.05, least=least)
    assert gap <= CERTIFIED
    assert 1 / (weights @ weights) >= least - 1e-9
    found = minimize(
        objective,
        np.full(5, 0.2),
        args=(rows, target, prior, 0.05),
        bounds=[(1e-15, 1)] * 5,
        constraints=[
            {"type": "eq", "fun": lambda a: a.sum() - 1},
            {"type": "ineq", "fun": lambda a: 1 / least - a @ a},
        ],
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 1000},
    )
    assert objective(weights, rows, target, prior, 0.05) == pytest.approx(found.fun, abs=1e-8)
    free = maxent_weights(rows, target, prior, strength=0.05)[0]
    assert 1 / (free @ free) < least  # the floor is felt


def test_a_floor_as_high_as_the_cohort_is_equality():
    rows, target, prior = draw(1, 4, 3)
    for least in (4, 9):
        assert maxent_weights(rows, target, prior, strength=0.1, least=least)[0].tolist() == [0.25] * 4


def test_disjoint_labels_have_a_closed_form():
    """``a_k ~ q_k^(1 / (1 + s)) pi_k^(s / (1 + s))``."""
    target, prior, strength = np.array([0.5, 0.3, 0.2]), np.array([1.0, 5.0, 2.0]), 0.25
    expected = target**0.8 * prior**0.2
    weights, _ = maxent_weights(np.eye(3), target, prior, strength=strength)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=0, atol=1e-13)


def test_by_hand():
    """Clients with classes {0}, {0}, {1}: y = (2a, 1 - 2a); by symmetry 0 = ln(2a / (1 - 2a)) + s ln(a / (1 - 2a)).

    For s = 1: 2 a^2 = (1 - 2a)^2, so that a = 1 / (2 + sqrt 2).
    """
    weights, _ = maxent_weights([[1, 0], [1, 0], [0, 1]], [0.5, 0.5], [1, 1, 1], strength=1.0)
    a = 1 / (2 + 2**0.5)
    assert weights == pytest.approx([a, a, 1 - 2 * a], abs=1e-14)


def test_one_client_and_identical_clients():
    assert maxent_weights([[0.3, 0.7]], [0.5, 0.5], [3], strength=0.1)[0].tolist() == [1.0]
    weights, gap = maxent_weights([[0.3, 0.7, 0.0]] * 3, [0.2, 0.2, 0.6], [1, 2, 5], strength=0.1)
    assert weights == pytest.approx([0.125, 0.25, 0.625], rel=1e-14)
    assert gap == pytest.approx(0, abs=1e-15)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 12), st.sampled_from([1e-3, 0.01, 0.1, 1, 1e3]))
def test_the_certificate(seed, n, classes, strength):
    """Whatever the cohort: certified, no other weights are better by more, and the bounds of strength hold."""
    rows, target, prior = draw(seed, n, classes, 0.1)
    least = 1 + (seed % 3) / 3 * (n - 1)
    weights, gap = maxent_weights(rows, target, prior, strength=strength, least=least)
    assert (weights > 0).all()
    assert weights.sum() == pytest.approx(1, abs=1e-12)
    assert -1e-15 <= gap <= CERTIFIED
    ours = objective(weights, rows, target, prior, strength)
    for other in np.random.default_rng(seed).dirichlet(np.ones(n), 20):
        if 1 / (other @ other) >= least:
            assert ours <= objective(other, rows, target, prior, strength) + gap + 1e-12 * (1 + strength)
    if least == 1:
        assert kl(weights @ rows, target) <= kl(prior / prior.sum() @ rows, target) + 1e-9
        np.testing.assert_allclose(weights, prior / prior.sum(), atol=10 / strength + 1e-12)


def test_many_problems_at_once_are_the_same_problems():
    target = np.full(4, 0.25)
    problems = [draw(seed, 3, 4)[0] for seed in range(20)]
    together, _, gap = solve(np.array(problems), target, np.zeros((20, 3)), 0.1)
    assert (gap <= CERTIFIED).all()
    for rows, logs in zip(problems, together, strict=True):
        alone, _ = maxent_weights(rows, target, np.ones(3), strength=0.1)
        np.testing.assert_allclose(np.exp(logs), alone, atol=1e-12)


def test_rows_of_noised_counts():
    """Negative counts are none; who has none counts as the others together, and so changes nothing among them."""
    rows = label_rows([[4.0, -1.0], [0.0, 0.0], [1.0, 3.0]], np.array([1.0, 5.0, 3.0]))
    np.testing.assert_allclose(rows, [[1, 0], [(1 + 0.75) / 4, (0 + 2.25) / 4], [0.25, 0.75]])
    assert label_rows(np.zeros((2, 4)), np.ones(2)).tolist() == [[0.0] * 4] * 2


def test_targets():
    counts = np.array([[3.0, 1.0, 0.0], [1.0, 3.0, 0.0]])
    assert target_distribution("uniform", counts, "").tolist() == [1 / 3] * 3
    assert target_distribution("pooled", counts, "").tolist() == [0.5, 0.5, 0.0]
    assert target_distribution((2.0, 1.0, 1.0), counts, "").tolist() == [0.5, 0.25, 0.25]
    with pytest.raises(ConfigError, match="target has 2 numbers, and there are 3 classes"):
        target_distribution((0.5, 0.5), counts, "weigher 'maxent'")
    for wrong in ((), (0.5, 0.0), (1.0, -1.0), (1.0, float("nan"))):
        with pytest.raises(ConfigError, match="one finite number above 0 is needed for each class"):
            check_target("weigher 'maxent'", wrong)


@pytest.mark.parametrize(
    ("target", "prior", "strength", "words"),
    [
        ([0.5, 0.5], [1, 1], 0.0, "strength = 0.0 must be above 0"),
        ([0.5, 0.5], [1, 0], 0.1, "prior must be finite and above 0"),
        ([1.0, 0.0], [1, 1], 0.1, "a class that the target lacks"),
    ],
)
def test_what_cannot_be_solved(target, prior, strength, words):
    with pytest.raises(DataError, match=words):
        maxent_weights([[0.5, 0.5], [1, 0]], target, prior, strength=strength)
