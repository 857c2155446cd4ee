"""Soft-label re-selection, held to a plain search."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.core.params import Layout, Params
from entrofed.core.types import ClientTable, Context, Update
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.weighers.reselection import SoftLabelReselection

PARAMS = Params(np.zeros(1, np.float32), np.zeros(0, np.int64))
CONTEXT = Context(PARAMS, 0, ClientTable(sizes=np.ones(9, np.int64)), Layout((), 1, 1, 0), seed=0, predict=None)


def update(client, soft, size=10):
    return Update(client, PARAMS, size, 1, 1.0, 1.0, facts={MeanPrediction.name: np.array(soft, np.float64)})


def bits(p):
    p = np.asarray(p) / np.sum(p)
    return -sum(x * np.log2(x) for x in p if x > 0)


def plain(updates):
    """The same, as one would write it down."""
    kept = sorted(updates, key=lambda u: u.client)
    pool = lambda group: sum(u.num_examples * u.facts[MeanPrediction.name] for u in group)  # noqa: E731
    while len(kept) > 1:
        now = bits(pool(kept))
        options = [[u for u in kept if u is not out] for out in kept]
        best = max(options, key=lambda group: round(bits(pool(group)), 11))
        if bits(pool(best)) <= now + 1e-12:
            break
        kept = best
    total = sum(u.num_examples for u in kept)
    return [u.num_examples / total if any(u is k for k in kept) else 0.0 for u in updates]


def test_the_one_that_unbalances_goes():
    updates = [update(0, [1, 0]), update(1, [0, 1]), update(2, [1, 0])]
    assert SoftLabelReselection().weigh(updates, CONTEXT).weights.tolist() == [
        0.0,
        0.5,
        0.5,
    ]  # of two alike the first goes


def test_balanced_cohorts_stay():
    updates = [update(0, [1, 0], 10), update(1, [0, 1], 10)]
    assert SoftLabelReselection().weigh(updates, CONTEXT).weights.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("total", [0.9991, 1.0005, 1.0009])
def test_what_just_passes_as_a_distribution_weighs_like_one(total):
    """A fact is admitted if it sums to 1 within 1e-3; no part may then stumble over it, or gain by it."""
    assert MeanPrediction().problem(np.array([total, 0.0]), 2) is None
    updates = [update(0, [total, 0]), update(1, [0, 1]), update(2, [0.5, 0.5])]
    exact = [update(0, [1, 0]), update(1, [0, 1]), update(2, [0.5, 0.5])]
    found, expected = (SoftLabelReselection().weigh(each, CONTEXT) for each in (updates, exact))
    assert found.weights.tolist() == expected.weights.tolist()


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 7), st.integers(0, 10**6))
def test_equals_the_plain_search(n, seed):
    rng = np.random.default_rng(seed)
    updates = [update(int(c), rng.dirichlet(np.full(4, 0.3)), int(rng.integers(1, 50))) for c in rng.permutation(9)[:n]]
    assert SoftLabelReselection().weigh(updates, CONTEXT).weights.tolist() == pytest.approx(plain(updates))


@pytest.mark.parametrize("sizes", [[716461, 9], [9, 716461], [1, 10**7, 3]])
def test_clients_that_say_the_same_stay_however_unequal_their_sizes(sizes):
    said = [0.0001462343040518133, 0.5284564232726938, 0.1878321811609638, 0.21284576263274746, 0.07071939862954328]
    updates = [update(client, said, size) for client, size in enumerate(sizes)]
    weights = SoftLabelReselection().weigh(updates, CONTEXT).weights
    np.testing.assert_allclose(weights, np.array(sizes) / sum(sizes), rtol=1e-12)
