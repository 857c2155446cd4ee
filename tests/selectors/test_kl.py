"""The KL selection of Seol and Kim."""

from math import log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError, DataError
from entrofed.facts.label_counts import LabelCounts
from entrofed.selectors.kl import KLSelection

KLS_1 = [[6, 2, 0], [0, 4, 4], [1, 1, 1], [0, 0, 2]]


def select(counts, size, among=None, seed=0, **options):
    counts = np.array(counts, np.float64)
    counts.flags.writeable = False
    known = ClientTable(sizes=np.ones(len(counts), np.int64), facts={LabelCounts.name: counts})
    part = KLSelection(**options)
    state = part.init(known, np.arange(len(counts)))
    among = np.arange(len(counts)) if among is None else np.array(among, np.int64)
    return part.select(state, known, among, size, np.random.default_rng(seed))


def divergence(counts):
    total = sum(counts)
    return sum(c / total * log(c / total * len(counts)) for c in counts if c)


def by_the_book(counts, size, theta=0.0):
    """Pass after pass over the clients, as it is written down; whom it takes, and how much of each label."""
    order = sorted(range(len(counts)), key=lambda client: (-sum(counts[client]), client))
    v = list(counts[order[0]])
    m, taken = max(v), {order[0]: list(v)}
    added = m > 0
    while added:
        added = False
        for client in order:
            if len(taken) == size or divergence(v) < theta:
                return taken
            a = [min(m - have, more) for have, more in zip(v, counts[client], strict=True)]
            if client not in taken and counts[client][v.index(min(v))] > 0 and sum(a) > 0:
                v = [have + more for have, more in zip(v, a, strict=True)]
                taken[client] = a
                added = True
    return taken if m else {}


def test_kls_1():
    selection = select(KLS_1, 4)
    assert selection.clients == [0, 1, 2, 3]
    assert [selection.limits[client].tolist() for client in range(4)] == [[6, 2, 0], [0, 4, 4], [0, 0, 1], [0, 0, 1]]
    assert all(limit.dtype == np.int64 for limit in selection.limits.values())
    expected = [0.536277144049301, 0.0164167586293424, 0.00353442654760902, 0]
    assert [reason["score"] for reason in selection.reasons] == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert [reason["client"] for reason in selection.reasons] == [0, 1, 2, 3]
    assert [reason["used"] for reason in selection.reasons] == [8, 8, 1, 1]
    assert [reason["pool"] for reason in selection.reasons] == [4, 3, 2, 1]


@pytest.mark.parametrize(("theta", "cohort"), [(0.6, 1), (0.5, 2), (0.017, 2), (0.0164, 3), (0.001, 4), (0.0, 4)])
def test_close_enough(theta, cohort):
    assert select(KLS_1, 4, theta=theta).clients == [0, 1, 2, 3][:cohort]


def test_no_more_than_wanted():
    for size in range(1, 5):
        assert select(KLS_1, size).clients == [0, 1, 2, 3][:size]


def test_unclipped():
    selection = select(KLS_1, 4, clip=False)
    assert selection.clients == [0, 1, 2, 3]
    assert selection.limits == {}


def test_whoever_is_there():
    selection = select(KLS_1, 4, among=[1, 2, 3])
    assert selection.clients == [1, 2]
    assert [limit.tolist() for limit in selection.limits.values()] == [[0, 4, 4], [1, 0, 0]]
    assert select(KLS_1, 4, among=[]).clients == []
    assert select(KLS_1, 1, among=[3]).clients == [3]


def test_a_second_pass():
    """Client 1 lacks the label that is scarce when it is its turn, and is asked again when another one is."""
    counts = [[9, 0, 1], [0, 0, 8], [0, 5, 0], [0, 4, 0]]
    selection = select(counts, 4)
    assert selection.clients == [0, 2, 1, 3]
    assert [limit.tolist() for limit in selection.limits.values()] == [[9, 0, 1], [0, 5, 0], [0, 0, 8], [0, 4, 0]]


def test_largest_first_and_ties_by_number():
    assert select([[1, 1], [5, 0], [0, 5]], 3).clients == [1, 2]
    assert select([[0, 4], [4, 0], [2, 2]], 3).clients == [0, 1]


def test_nobody_has_the_scarcest_label():
    assert select([[5, 3, 0], [1, 1, 0], [2, 2, 0]], 3).clients == [0]


def test_noised_counts_are_rounded_down():
    selection = select([[3.9, 1.2], [0.7, 2.99], [0.9, 0.9]], 3)
    assert selection.clients == [0, 1]
    assert [limit.tolist() for limit in selection.limits.values()] == [[3, 1], [0, 2]]


def test_no_counts_nobody():
    assert select(np.zeros((3, 2)), 2).clients == []
    assert select([[0.9, 0.9]], 1).clients == []


def test_one_class():
    assert select([[3], [7], [7]], 3).clients == [1]


@pytest.mark.parametrize("theta", [-0.1, float("nan"), float("inf")])
def test_impossible_theta(theta):
    with pytest.raises(ConfigError, match="theta"):
        KLSelection(theta=theta)


def test_no_label_counts():
    with pytest.raises(DataError, match="selector 'kl' needs the clients' label counts, and none were released"):
        KLSelection().select({}, ClientTable(sizes=np.ones(3, np.int64)), np.arange(3), 2, np.random.default_rng(0))
    assert KLSelection().facts == (LabelCounts(),)
    assert not KLSelection().needs


tables = st.tuples(st.integers(1, 7), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(0, 12))
)


@settings(deadline=None, max_examples=200)
@given(tables, st.integers(1, 8), st.sampled_from([0.0, 0.01, 0.1, 0.5]), st.integers(0, 99))
def test_by_the_book(counts, size, theta, seed):
    selection = select(counts, size, theta=theta, seed=seed)
    expected = by_the_book(counts.tolist(), size, theta)
    assert selection.clients == list(expected)
    assert [limit.tolist() for limit in selection.limits.values()] == list(expected.values())
    pooled = np.zeros(counts.shape[1], np.int64)
    for client, reason in zip(selection.clients, selection.reasons, strict=True):
        limit = selection.limits[client]
        assert (limit <= counts[client]).all()
        assert limit.sum() == reason["used"] > 0
        pooled += limit
        assert reason["score"] == pytest.approx(divergence(pooled.tolist()), abs=1e-12)
    if selection.clients:
        assert pooled.max() == selection.limits[selection.clients[0]].max()
