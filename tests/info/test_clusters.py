"""Urns of clustered sampling, and Ward's method."""

import time
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.info.clusters import angles, urns_by_similarity, urns_by_size, ward_clusters
from entrofed.info.similarity import cosines, euclidean

sizes_of_clients = st.lists(st.integers(1, 60), min_size=1, max_size=15)


def test_by_size_by_hand():
    """Sizes 5, 3, 2, 2 and m = 3: slots 15, 9, 6, 6 in urns of 12."""
    found = urns_by_size(np.array([2, 5, 3, 2]), 3)
    assert found.tolist() == [[0, 12, 0, 0], [0, 3, 9, 0], [6, 0, 0, 6]]


def test_by_similarity_by_hand():
    """Clients 0, 2 and 1, 3 are alike; sizes 1, so that m = 2 urns of 4 slots hold a pair each."""
    distances = np.array([[0, 9, 1, 9], [9, 0, 9, 1], [1, 9, 0, 9], [9, 1, 9, 0.0]])
    found = urns_by_similarity(np.ones(4, np.int64), 2, distances)
    assert sorted(map(tuple, (found > 0).tolist())) == [(False, True, False, True), (True, False, True, False)]
    assert found.max() == 2


def test_a_group_too_large_for_an_urn_is_cut_and_a_large_client_has_urns_of_its_own():
    alike = np.zeros((5, 5))
    found = urns_by_similarity(np.array([1, 1, 1, 1, 8]), 3, alike)
    assert found.tolist()[:2] == [[0, 0, 0, 0, 12], [0, 0, 0, 0, 12]]
    assert found[2].tolist() == [3, 3, 3, 3, 0]


@settings(deadline=None)
@given(sizes_of_clients, st.integers(1, 15), st.integers(0, 9))
def test_every_urn_is_full_and_every_client_has_its_slots(sizes, number, seed):
    """Unbiased, exactly: the draws of a client are m n_k / n in expectation."""
    sizes, number = np.array(sizes), min(number, len(sizes))
    points = np.random.default_rng(seed).random((len(sizes), 3))
    for urns in (urns_by_size(sizes, number), urns_by_similarity(sizes, number, euclidean(points))):
        assert (urns >= 0).all()
        assert (urns.sum(axis=1) == sizes.sum()).all()
        expected = [sum(Fraction(int(slots), int(sizes.sum())) for slots in column) for column in urns.T]
        assert expected == [Fraction(number * int(size), int(sizes.sum())) for size in sizes]


@settings(deadline=None)
@given(sizes_of_clients, st.integers(1, 15))
def test_by_size_a_client_lies_in_neighbouring_urns(sizes, number):
    """The paper's point: a client's draws vary less than with m independent draws by size."""
    sizes, number = np.array(sizes), min(number, len(sizes))
    shares = urns_by_size(sizes, number) / sizes.sum()
    variance = (shares * (1 - shares)).sum(axis=0)
    p = sizes / sizes.sum()
    assert (variance <= number * p * (1 - p) + 1e-12).all()


def test_angles_and_clusters():
    rows = np.array([[1.0, 0.0], [1.0, 1.0], [-1.0, 0.0], [0.0, 0.0]])
    assert angles(rows)[0] == pytest.approx([0, np.pi / 4, np.pi, 0])
    assert np.allclose(np.cos(angles(rows[:3])), cosines(list(rows[:3])))
    far = np.array([[0, 1, 9, 9], [1, 0, 9, 9], [9, 9, 0, 1], [9, 9, 1, 0.0]])
    assert ward_clusters(far, 2).tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])
    assert ward_clusters(far, 9).tolist() != [0] * 4
    assert ward_clusters(np.zeros((1, 1)), 3).tolist() == [0]
    assert ward_clusters(np.zeros((0, 0)), 3).tolist() == []


def test_many_clients():
    sizes = np.random.default_rng(0).integers(1, 500, 100_000)
    begin = time.process_time()
    urns = urns_by_size(sizes, 10)
    assert time.process_time() - begin < 2
    assert (urns.sum(axis=0) == 10 * sizes).all()
