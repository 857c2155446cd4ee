"""How unlike clients' labels are: cases by hand, and what chance does."""

import numpy as np
import pytest

from entrofed.info import skew as module
from entrofed.info.skew import divergences, gini, label_entropies, skew


def test_two_clients_by_hand():
    """Entropies 1 and 0; the pool is 3/4, 1/4; divergences from it with m = (5/8, 3/8) and (7/8, 1/8)."""
    found = skew(np.array([[4, 4], [8, 0]]), np.random.default_rng(0))
    assert (found.entropy.mean, found.entropy.least, found.entropy.most) == (0.5, 0, 1)
    assert (found.effective.mean, found.held.mean) == (1.5, 1.5)
    assert found.divergence.least == pytest.approx(0.04879, abs=1e-5)
    assert found.divergence.most == pytest.approx(0.13793, abs=1e-5)
    assert found.pool_entropy == pytest.approx(0.811278, abs=1e-6)
    assert found.pool_effective == pytest.approx(2**0.811278, abs=1e-5)
    assert (found.sizes.mean, found.gini, found.largest) == (8, 0, 0.5)


def test_what_chance_alone_would_do():
    """Large clients would have the pool's entropy; small ones less, and that is not skew."""
    rng = np.random.default_rng(1)
    large = skew(np.array([[4000, 4000], [8000, 0]]), rng)
    assert large.chance_entropy == pytest.approx(0.8113, abs=0.02)
    assert large.missing == pytest.approx(1 - 0.5 / large.chance_entropy)
    dealt_by_chance = rng.multinomial(np.full(3000, 4), np.full(10, 0.1))
    small = skew(dealt_by_chance, rng)
    assert small.entropy.mean < 2 < small.pool_entropy
    assert small.missing < 0.02
    assert small.divergence.mean == pytest.approx(small.chance_divergence, abs=0.01)


def test_alike_clients_are_not_skewed():
    found = skew(np.tile([[500, 500]], (20, 1)), np.random.default_rng(0))
    assert found.missing == 0
    assert found.divergence.most == 0
    assert skew(np.array([[3, 0], [5, 0]]), np.random.default_rng(0)).missing == 0  # one class: nothing can be missing


@pytest.mark.parametrize(("sizes", "expected"), [([5, 5, 5], 0), ([1, 3], 0.25), ([0, 0, 0, 8], 0.75), ([7], 0)])
def test_gini(sizes, expected):
    assert gini(sizes) == pytest.approx(expected)


def test_blocks_change_nothing(monkeypatch):
    counts = np.random.default_rng(0).integers(0, 9, (50, 4)) + 1
    shares = counts.sum(axis=0) / counts.sum()
    whole = label_entropies(counts), divergences(counts, shares)
    monkeypatch.setattr(module, "BLOCK", 7)
    np.testing.assert_array_equal(label_entropies(counts), whole[0])
    np.testing.assert_array_equal(divergences(counts, shares), whole[1])
