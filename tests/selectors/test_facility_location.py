"""DivFL: greedy facility location by hand, against all subsets, and against a plain twin."""

from itertools import combinations
from math import e

import numpy as np
import pytest
from tests.selectors.gradients import select

from entrofed.errors import ConfigError
from entrofed.info.similarity import euclidean
from entrofed.selectors.facility_location import FacilityLocation


def left_over(distances, chosen):
    return distances[:, list(chosen)].min(axis=1).sum()


def test_by_hand():
    """Points 0, 1, 2, 10 on a line: the sums of distances are 13, 11, 11, 27, so 1; then 10 leaves 1 + 0 + 1 + 0."""
    found = select(FacilityLocation(), [[0.0], [1.0], [2.0], [10.0]], 3)
    assert found.clients == [1, 3, 0]
    assert [reason["score"] for reason in found.reasons] == pytest.approx([11, 2, 1])
    assert found.reasons[0]["runner_up"] == 2


@pytest.mark.parametrize("seed", range(20))
def test_against_all_subsets(seed):
    """What greedy picks take off the sum of a far point's distances is 1 - 1/e of the best at least."""
    rng = np.random.default_rng(seed)
    rows, size = rng.normal(size=(9, 3)), 3
    distances = euclidean(rows)
    found = select(FacilityLocation(), rows, size)
    ours = left_over(distances, found.clients)
    best = min(left_over(distances, chosen) for chosen in combinations(range(9), size))
    far = 9 * distances.max()
    assert ours == pytest.approx(found.reasons[-1]["score"], rel=1e-5)
    assert far - ours >= (1 - 1 / e) * (far - best)
    assert ours <= 1.35 * best


@pytest.mark.parametrize("seed", range(5))
def test_plain_twin(seed):
    rows = np.random.default_rng(seed).normal(size=(12, 4)).astype(np.float32)
    distances, picked = euclidean(rows), []
    for _ in range(5):
        others = [k for k in range(12) if k not in picked]
        picked.append(min(others, key=lambda k: left_over(distances, [*picked, k])))
    assert select(FacilityLocation(), rows, 5).clients == picked


def test_stochastic_greedy():
    """With all clients it is greedy; with a fifth, picks are the best of those drawn, and better than random ones."""
    rows = np.random.default_rng(0).normal(size=(40, 3))
    whole = select(FacilityLocation(), rows, 4)
    assert select(FacilityLocation(subsample=1.0), rows, 4).clients == whole.clients
    drawn = [select(FacilityLocation(subsample=0.2), rows, 4, seed=seed) for seed in range(8)]
    assert len({tuple(one.clients) for one in drawn}) > 1
    assert all(one.reasons[0]["score"] >= whole.reasons[0]["score"] for one in drawn)
    distances = euclidean(rows)
    chance = np.mean([left_over(distances, np.random.default_rng(s).permutation(40)[:4]) for s in range(200)])
    assert np.mean([one.reasons[-1]["score"] for one in drawn]) < chance


def test_ties_duplicates_and_who_has_no_row():
    assert select(FacilityLocation(), np.zeros((3, 2)), 2).clients == [0, 1]
    rows = {0: np.zeros(2), 1: np.ones(2), 4: np.array([np.nan, 0.0])}
    assert select(FacilityLocation(), rows, 4, among=[0, 1, 3, 4]).clients == [0, 1, 3, 4]


def test_bad_options():
    with pytest.raises(ConfigError, match=r"subsample = 0.0 must be above 0"):
        FacilityLocation(subsample=0.0)
