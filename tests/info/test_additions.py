"""Whom to add: the shortlist against solving every problem."""

from functools import partial

import numpy as np
import pytest

from entrofed.info import additions
from entrofed.info.additions import Additions
from entrofed.info.maxent import label_rows, maxent_weights


def value(rows, target, strength):
    """V by definition, one problem."""
    weights, _ = maxent_weights(rows, target, np.ones(len(rows)), strength=strength)
    mixed, equal = weights @ rows, np.full(len(rows), 1 / len(rows))
    far = sum(y * np.log(y / q) for y, q in zip(mixed, target, strict=True) if y > 0)
    return -(far + strength * (weights * np.log(weights / equal)).sum())


def draw(seed, clients, classes=4, alpha=0.2):
    rng = np.random.default_rng(seed)
    return label_rows(np.round(50 * rng.dirichlet(np.full(classes, alpha), clients)), np.ones(clients))


@pytest.mark.parametrize("strength", [0.01, 0.1, 1.0])
def test_every_value_is_that_of_its_own_problem(strength):
    rows, target = draw(3, 30), np.array([0.4, 0.3, 0.2, 0.1])
    candidates = Additions(rows, target, strength)
    candidates.remove(0)
    places, values = candidates.leaders(rows[:1])
    assert places.tolist() == list(range(1, 30))
    expected = [value(rows[[0, j]], target, strength) for j in range(1, 30)]
    np.testing.assert_allclose(values, expected, atol=1e-12)


@pytest.mark.parametrize("alpha", [0.05, 0.3, 2.0])
def test_the_best_is_on_the_shortlist(monkeypatch, alpha):
    """Of 400 candidates 40 are looked at; over a whole cohort nothing is lost, or next to nothing."""
    rows, target = draw(5, 400, 10, alpha), np.full(10, 0.1)
    for size in range(1, 8):
        cohort = rows[np.random.default_rng(size).integers(0, 400, size)]
        monkeypatch.setattr(additions, "SHORTLIST", 400)
        _, everybody = Additions(rows, target, 0.1).leaders(cohort)
        monkeypatch.setattr(additions, "SHORTLIST", 40)
        places, values = Additions(rows, target, 0.1).leaders(cohort)
        np.testing.assert_allclose(values, everybody[places], atol=1e-12)
        assert values.max() >= everybody.max() - 2e-3


def test_of_equals_the_first_are_on_the_shortlist(monkeypatch):
    monkeypatch.setattr(additions, "SHORTLIST", 3)
    rows = np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 20)
    places, values = Additions(rows, np.full(2, 0.5), 0.1).leaders(rows[:1])
    assert places.tolist() == [5, 6, 7]
    assert values == pytest.approx(0, abs=1e-12)


def test_lower_bounds_are_below():
    rows, target = draw(1, 60, 6), np.full(6, 1 / 6)
    solved = partial(value, target=target, strength=0.1)
    bounds = Additions(rows, target, 0.1)._along_lines(rows[:3])
    values = np.array([solved(np.concatenate([rows[:3], row[None]])) for row in rows])
    assert (bounds <= values + 1e-5).all()
    assert np.median(values - bounds) < 0.05
