"""Cohorts of every size: by hand, and against plain ways to the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import hypergeom

from entrofed.info.coverage import absence, greedy_cohorts, random_cohorts
from entrofed.info.entropy import entropy_of_counts

THREE = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
"""Of cohorts of one, one in three holds both classes; of cohorts of two, all do."""


def test_absence_by_hand():
    assert absence([2, 2], 3, [1, 2]) == pytest.approx(np.array([[1 / 3, 1 / 3], [0, 0]]))
    assert absence([0, 3], 3, [1, 3]) == pytest.approx(np.array([[1, 0], [1, 0]]))


@settings(deadline=None)
@given(st.integers(1, 300), st.data())
def test_absence_is_hypergeometric(clients, data):
    holders, size = data.draw(st.integers(0, clients)), data.draw(st.integers(1, clients))
    assert absence([holders], clients, [size])[0, 0] == pytest.approx(
        hypergeom.pmf(0, clients, holders, size), abs=1e-9
    )


def test_absence_among_very_many():
    """(99,999 choose 10) / (100,000 choose 10) = 99,990 / 100,000."""
    assert absence([1], 100_000, [10])[0, 0] == pytest.approx(0.9999, abs=1e-9)


def test_random_cohorts_by_hand():
    draws = 2000
    entropies, covered = random_cohorts(THREE, [1, 2, 3], draws, np.random.default_rng(0))
    assert entropies.shape == covered.shape == (draws, 3)
    assert covered[:, 0].mean() == pytest.approx(1 / 3, abs=4 * (2 / 9 / draws) ** 0.5)
    np.testing.assert_array_equal(entropies[:, 0], covered[:, 0])  # bits: 1 of the client with both, else 0
    assert covered[:, 1:].all()
    np.testing.assert_allclose(entropies[:, 2], 1)
    third = entropy_of_counts([2, 1], base="bits")  # two of the three cohorts of two
    assert entropies[:, 1].mean() == pytest.approx((1 + 2 * third) / 3, abs=0.01)
    again, _ = random_cohorts(THREE, [1, 2, 3], draws, np.random.default_rng(0))
    np.testing.assert_array_equal(again, entropies)


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 999), st.booleans())
def test_greedy_cohorts_against_a_plain_loop(seed, whole):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 30, (9, 4)).astype(np.float64) + (0 if whole else 0.25)
    counts[:, 0] += 1
    chains = []
    for start in (3, 8):
        pooled, left, chain = counts[start], [k for k in range(9) if k != start], []
        while True:
            chain.append(float(entropy_of_counts(pooled, base="bits")))
            if not left:
                break
            bits = np.array([float(entropy_of_counts(pooled + counts[k], base="bits")) for k in left])
            pooled = pooled + counts[left.pop(int(np.argmax(bits >= bits.max() - 1e-12)))]
        chains.append(chain)
    expected = np.max(chains, axis=0)
    assert greedy_cohorts(counts, list(range(1, 10)), [3, 8]) == pytest.approx(expected, abs=1e-9)
    assert greedy_cohorts(counts, [2, 5], [8]).tolist() == pytest.approx([chains[1][1], chains[1][4]], abs=1e-9)
