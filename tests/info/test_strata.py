"""Divisions into groups: their imbalance by hand, and against all divisions of small federations."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.info.entropy import entropy_of_counts
from entrofed.info.strata import deal, imbalance


def grouped(groups):
    """The group of each client."""
    found = np.empty(sum(map(len, groups)), np.int64)
    for number, group in enumerate(groups):
        found[group] = number
    return found


def test_imbalance_by_hand():
    """Groups (3, 1) and (1, 3): q = 3/8 or 1/8 where 1/4 would be fair; and sizes 1 to 3 with like labels."""
    assert imbalance([[3, 1], [1, 3]], [0, 1]) == pytest.approx(0.75 * np.log(1.5) + 0.25 * np.log(0.5))
    assert imbalance([[1, 1], [3, 3]], [0, 1]) == pytest.approx(0.25 * np.log(0.5) + 0.75 * np.log(1.5))
    assert imbalance([[0, 0], [0, 0]], [0, 1]) == 0


@given(arrays(np.int64, (6, 3), elements=st.integers(0, 20)), st.integers(0, 99))
def test_imbalance_is_mutual_information_and_unequal_sizes(counts, seed):
    group = np.random.default_rng(seed).permutation([0, 0, 1, 1, 2, 2])
    if not counts.sum():
        return
    pooled = np.array([counts[group == g].sum(axis=0) for g in range(3)])
    share = pooled.sum(axis=1) / counts.sum()
    told = entropy_of_counts(counts.sum(axis=0)) - share @ [
        entropy_of_counts(row) if row.any() else 0 for row in pooled
    ]
    sizes = sum(s * np.log(3 * s) for s in share if s)
    assert imbalance(counts, group) == pytest.approx(told + sizes, abs=1e-12)


@given(
    arrays(np.int64, st.tuples(st.integers(1, 12), st.integers(1, 4)), elements=st.integers(0, 50)),
    st.integers(1, 6),
    st.integers(0, 99),
)
def test_everybody_is_in_one_group_and_no_swap_helps(counts, size, seed):
    groups = deal(counts, size, np.random.default_rng(seed))
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(counts)))
    assert [len(group) for group in groups[:-1]] == [size] * (len(groups) - 1)
    assert 1 <= len(groups[-1]) <= size
    group = grouped(groups)
    value = imbalance(counts, group)
    for a, b in combinations(range(len(counts)), 2):
        swapped = group.copy()
        swapped[[a, b]] = group[[b, a]]
        assert imbalance(counts, swapped) > value - 1e-9


def test_close_to_the_best_of_all_divisions():
    """Nine clients in threes, 280 divisions: mean excess over the best one, and how often it is found."""
    rng, excess = np.random.default_rng(0), []
    for _ in range(40):
        counts = rng.integers(0, 40, (9, 4)) * (rng.random((9, 4)) < 0.5)
        best = np.inf
        for first in combinations(range(1, 9), 2):
            rest = [k for k in range(1, 9) if k not in first]
            for second in combinations(rest[1:], 2):
                group = np.full(9, 2)
                group[[0, *first]], group[[rest[0], *second]] = 0, 1
                best = min(best, imbalance(counts, group))
        excess.append(imbalance(counts, grouped(deal(counts, 3, rng))) - best)
    assert min(excess) > -1e-12
    assert np.mean(excess) < 0.02
    assert np.mean(np.array(excess) < 1e-9) > 0.25


def test_clients_without_samples():
    assert [len(group) for group in deal(np.zeros((5, 3)), 2, np.random.default_rng(0))] == [2, 2, 1]
