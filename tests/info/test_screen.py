"""Ruling candidates out, held to looking at all of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.info.test_greedy import check, first_two, noised, small, whole

from entrofed.info import screen
from entrofed.info.greedy import Candidates
from entrofed.info.screen import ScreenedCandidates, prepared


@settings(deadline=None, max_examples=150)
@given(st.data(), st.sampled_from([small, whole, noised]), st.sampled_from([1, 3, 2**15]))
def test_leaders(data, values, part):
    n, classes = data.draw(st.integers(1, 12)), data.draw(st.integers(1, 9))
    counts = data.draw(arrays(np.float64, (n, classes), elements=values))
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1), min_size=1))))
    gone = data.draw(st.sets(st.sampled_from(rows.tolist()), max_size=len(rows) - 1))
    pooled = data.draw(arrays(np.float64, classes, elements=values))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(screen, "PART", part)
        patch.setattr(screen, "SAMPLE", part)
        patch.setattr(screen, "FEW", data.draw(st.sampled_from([1, 2, 4, 2**15])))
        check(counts, rows, pooled, sorted(gone), ScreenedCandidates)


def skewed(kind, clients, classes, rng):
    counts = np.floor(rng.standard_gamma(0.3, (clients, classes)) * 20)
    return counts if kind == "whole" else np.maximum(counts + rng.laplace(scale=2, size=counts.shape), 0)


@pytest.mark.parametrize("kind", ["whole", "noised"])
@pytest.mark.parametrize("target", [None, "skewed"])
@pytest.mark.parametrize("classes", [2, 10, 31])
def test_picks_among_many(kind, target, classes, monkeypatch):
    """Pick after pick the same, with the same bits; and most candidates are never looked at in float64."""
    rng = np.random.default_rng(classes)
    counts = skewed(kind, 50_000, classes, rng)
    rows = np.arange(1, len(counts))
    target = None if target is None else rng.dirichlet(np.ones(classes))
    looked_at = []

    class Counted(Candidates):
        def __init__(self, counts, rows, target=None):
            looked_at.append(len(rows))
            super().__init__(counts, rows, target)

    monkeypatch.setattr(screen, "Candidates", Counted)
    monkeypatch.setattr(screen, "FEW", 2**12)
    many, all_of_them = ScreenedCandidates(counts, rows, target), Candidates(counts, rows, target)
    pooled = counts[0] + 1
    for _ in range(8):
        found, bits = many.leaders(pooled)
        expected, scores = all_of_them.leaders(pooled)
        picks = first_two(found, bits)
        assert picks == first_two(expected, scores)
        assert bits.max() == pytest.approx(scores.max(), abs=2e-13)
        pooled = pooled + counts[picks[0]]
        for candidates in (many, all_of_them):
            candidates.remove(picks[0])
    if classes > 2:  # else there are very many ties
        assert max(looked_at) < len(rows) / 10


@pytest.mark.parametrize("kind", ["even", "whole", "noised"])
@pytest.mark.parametrize("sizes", ["equal", "unequal"])
def test_balanced_pools_need_balanced_candidates_only(kind, sizes, monkeypatch):
    """The same picks, tied or not; once the pool is balanced, the bounds of all are not even computed."""
    rng = np.random.default_rng(5)
    most = 20 if sizes == "equal" else rng.integers(10, 60, 60_000)
    shares = np.full((60_000, 10), 0.1) if kind == "even" else rng.dirichlet(np.full(10, 0.5), 60_000)
    counts = rng.multinomial(most, shares).astype(np.float64)
    if kind == "noised":
        counts = np.maximum(counts + rng.laplace(scale=2, size=counts.shape), 0)
    monkeypatch.setattr(screen, "FEW", 2**13)
    scans, sums = [], ScreenedCandidates._sums
    monkeypatch.setattr(ScreenedCandidates, "_sums", lambda *args: (scans.append(0), sums(*args))[1])
    many, all_of_them = ScreenedCandidates(counts, np.arange(1, 60_000)), Candidates(counts, np.arange(1, 60_000))
    pooled = counts[0]
    for number in range(40):
        if number == 20:
            scans.clear()
        found, bits = many.leaders(pooled, all_ties=True)
        expected, scores = all_of_them.leaders(pooled, all_ties=True)
        assert found.tolist() == expected.tolist()
        assert bits == pytest.approx(scores, abs=2e-13)
        pick = first_two(*many.leaders(pooled))[0]
        pooled = pooled + counts[pick]
        many.remove(pick)
        all_of_them.remove(pick)
    assert not scans


def test_very_many_ties():
    """Two labels of fifty each: whoever has the two that are lacking ties."""
    rng = np.random.default_rng(0)
    counts = np.zeros((60_000, 4))
    counts[np.arange(len(counts)), rng.integers(2, size=len(counts))] = 50
    many = ScreenedCandidates(counts, np.arange(len(counts)))
    pooled = np.array([50.0, 0, 7, 7])
    for _ in range(3):
        rows, bits = many.leaders(pooled)
        assert first_two(rows, bits) == np.flatnonzero(counts[:, 1])[:2].tolist()
    many.remove(int(rows[0]))
    assert first_two(*many.leaders(pooled)) == np.flatnonzero(counts[:, 1])[1:3].tolist()


def test_few_are_all_looked_at():
    counts = np.eye(3)
    assert isinstance(prepared(counts, np.arange(3)), Candidates)
    assert isinstance(prepared(np.ones((screen.FEW + 1, 2)), np.arange(screen.FEW + 1)), ScreenedCandidates)
