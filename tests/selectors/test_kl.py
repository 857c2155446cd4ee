"""The KL selection of Seol and Kim."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import ConfigError
from entrofed.selectors.kl import KLSelection
from entrofed.types import Ledger

COUNTS = np.array([(6, 2, 0), (0, 4, 4), (1, 1, 1), (0, 0, 2)])


def choose(counts, size, **options):
    counts = np.asarray(counts, np.float64)
    ledger = Ledger(sizes=counts.sum(axis=1).astype(int), label_counts=counts)
    return KLSelection(**options).select({}, ledger, np.arange(len(counts)), size, np.random.default_rng(0))


def test_kls_1():
    found = choose(COUNTS, 4)
    assert found.clients == [0, 1, 2, 3]
    taken = [found.limits[client].tolist() for client in found.clients]
    assert taken == [[6, 2, 0], [0, 4, 4], [0, 0, 1], [0, 0, 1]]
    expected = [0.536277144049301, 0.0164167586293424, 0.00353442654760902, 0]
    assert [reason["score"] for reason in found.reasons] == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_order_by_size_then_number():
    assert choose([[1, 1], [3, 3], [3, 3]], 1).clients == [1]


def test_theta_stops_early():
    assert choose(COUNTS, 4, theta=0.02).clients == [0, 1]
    assert choose(COUNTS, 4, theta=1.0).clients == [0]


def test_without_clipping_all_data_is_used():
    found = choose(COUNTS, 4, clip=False)
    assert found.clients == [0, 1, 2, 3]
    assert not found.limits


def test_passes_are_repeated_until_nobody_is_added():
    # Client 2 lacks the scarcest label at first (1), and has it (2) once client 1 was added.
    counts = [[9, 0, 1], [0, 4, 0], [0, 0, 3], [0, 3, 0]]
    found = choose(counts, 4)
    assert found.clients == [0, 1, 2, 3]
    assert choose([[5, 5], [3, 0], [0, 2]], 3).clients == [0]  # both labels are full


@settings(deadline=None, max_examples=100)
@given(
    st.integers(1, 9).flatmap(lambda n: arrays(np.int64, (n, 3), elements=st.integers(0, 20))),
    st.integers(1, 9),
)
def test_limits_fit(counts, size):
    found = choose(counts, size)
    assert 1 <= len(found.clients) == len(set(found.clients)) <= size
    assert found.clients == choose(counts, size).clients
    pooled = sum(found.limits.values())
    assert (pooled <= found.limits[found.clients[0]].max()).all()
    for client, limit in found.limits.items():
        assert (limit >= 0).all()
        assert (limit <= counts[client]).all()
    assert all(found.limits[client].any() for client in found.clients[1:])


@pytest.mark.parametrize("theta", [-1, float("nan"), float("inf")])
def test_bad_theta(theta):
    with pytest.raises(ConfigError, match="theta"):
        KLSelection(theta=theta)
