"""The fast entropies, held to the plain formula."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.info import greedy
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.greedy import TIE, Candidates

small = st.integers(0, 4).map(float)
whole = st.one_of(small, st.integers(0, 70_000).map(float), st.integers(0, 2**40).map(float))
noised = st.one_of(st.just(0.0), st.floats(1e-3, 1e4))


def plain_leaders(counts, rows, pooled):
    """What :meth:`Candidates.leaders` promises, from the definition."""
    bits = entropy_of_counts(pooled + counts[rows], base="bits")
    if len(bits) > 1:
        kept = bits >= np.sort(bits)[-2] - TIE
        rows, bits = rows[kept], bits[kept]
    return rows, bits


def first_two(rows, bits):
    """The best and the second best, of those that tie the first."""
    picks = []
    while len(rows) and len(picks) < 2:
        best = np.flatnonzero(bits >= bits.max() - TIE)[0]
        picks.append(int(rows[best]))
        rows, bits = np.delete(rows, best), np.delete(bits, best)
    return picks


def check(counts, rows, pooled, gone=(), kind=Candidates):
    candidates = kind(counts, rows)
    for row in gone:
        candidates.remove(row)
    found, bits = candidates.leaders(pooled, all_ties=True)
    expected, scores = plain_leaders(counts, np.setdiff1d(rows, gone), pooled)
    assert found.tolist() == expected.tolist()
    np.testing.assert_allclose(bits, scores, rtol=0, atol=2e-13)
    assert (bits >= 0).all()
    assert (bits <= np.log2(counts.shape[1])).all()
    assert first_two(*candidates.leaders(pooled)) == first_two(expected, scores)


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from([small, whole, noised]), st.sampled_from([1, 3, 2**15]))
def test_leaders(data, values, block):
    n, classes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 5))
    counts = data.draw(arrays(np.float64, (n, classes), elements=values))
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    gone = data.draw(st.sets(st.sampled_from(rows.tolist())))
    pooled = data.draw(arrays(np.float64, classes, elements=values))
    counts.flags.writeable = pooled.flags.writeable = rows.flags.writeable = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(greedy, "BLOCK", block)
        check(counts, rows, pooled, sorted(gone))


@pytest.mark.parametrize(("most", "classes", "shared"), [(1, 30, [15, 15]), (39, 10, [3, 3, 3, 1]), (300, 4, [1] * 4)])
def test_tables_of_many_clients(most, classes, shared):
    """Few different counts, so that there are many ties; pick after pick the same as by the plain formula."""
    rng = np.random.default_rng(most)
    counts = rng.integers(0, most, (70_000, classes), endpoint=True).astype(np.float64)
    rows = np.arange(1, len(counts), 2) if most == 1 else np.arange(len(counts))
    candidates = Candidates(counts, rows)
    assert [len(lookup.classes) for lookup in candidates._lookups] == shared
    pooled, gone = counts[7].copy(), [7]
    candidates.remove(7)
    for _ in range(5):
        found, bits = candidates.leaders(pooled, all_ties=True)
        expected, scores = plain_leaders(counts, np.setdiff1d(rows, gone), pooled)
        assert found.tolist() == expected.tolist()
        np.testing.assert_allclose(bits, scores, rtol=0, atol=2e-13)
        pick, runner_up = first_two(*candidates.leaders(pooled))
        assert [pick, runner_up] == first_two(expected, scores)
        candidates.remove(pick)
        gone.append(pick)
        pooled += counts[pick]


@pytest.mark.parametrize("largest", [65533, 65534, 65535, 65536, 2**53])
def test_at_the_limits_of_a_table(largest):
    rng = np.random.default_rng(0)
    counts = np.zeros((66_000, 3))  # the first class is empty: its table has one entry
    counts[:, 1:] = rng.integers(0, 3, (66_000, 2))
    counts[65_999, 1] = largest
    check(counts, np.arange(66_000), np.array([5.0, 1.0, 0.0]))
    check(counts, np.arange(66_000), np.array([1.0, largest, largest]))


def test_one_fraction_among_many_whole_counts():
    counts = np.tile([2.0, 1.0], (70_000, 1))
    counts[69_999] = 2.0, 1.5
    rows, bits = Candidates(counts, np.arange(70_000)).leaders(np.array([2.0, 1.0]), all_ties=True)
    assert rows[-1] == 69_999
    assert bits.argmax() == 69_999


def test_near_ties_are_kept_apart():
    """Of entropies 1.6e-12 and 1.6e-14 bits below the largest, only the second is the same."""
    counts = np.array([[0.0, 1e6], [0.0, 1e6 + 3.0], [0.0, 1e6 - 0.3]])
    rows, bits = Candidates(counts, np.arange(3)).leaders(np.array([1e6, 0.0]))
    assert rows.tolist() == [0, 2]
    assert bits[0] == 1
    assert 0 < bits[0] - bits[1] < TIE


def test_nothing_counted_is_entropy_zero():
    counts = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 0.0], [1.0, 1.0]])
    for rows, leaders, bits in [([0, 1, 2], [0, 1, 2], [0, 0, 0]), ([0, 3], [0, 3], [0, 1]), ([0], [0], [0])]:
        found, entropies = Candidates(counts, np.array(rows)).leaders(np.zeros(2))
        assert found.tolist() == leaders
        assert entropies.tolist() == bits


def test_nobody_left():
    counts = np.ones((1, 3))
    for candidates in (Candidates(counts, np.zeros(0, np.int64)), Candidates(counts, np.zeros(1, np.int64))):
        if len(candidates._rows):
            candidates.remove(0)
        rows, bits = candidates.leaders(np.ones(3))
        assert len(rows) == len(bits) == 0
