"""Fed-CBS: imbalances and probabilities by hand."""

import numpy as np
import pytest

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.selectors.class_balanced import ClassBalanced, imbalance


def drawn(part, counts, size, times, state=None):
    """So many cohorts, all drawn in the same round."""
    counts = np.array(counts, np.float64)
    table = ClientTable(np.ones(len(counts), np.int64), counts.shape[1], facts={LabelCounts.name: counts})
    everybody, rng = np.arange(len(counts)), np.random.default_rng(0)
    state = state or part.init(table, everybody)
    return [part.select(state, table, everybody, size, rng) for _ in range(times)]


def test_first_picks_by_hand():
    """Imbalances 1/8, 1/8, 1/2: odds 8, 8, 2."""
    firsts = [found.clients[0] for found in drawn(ClassBalanced(explore=0), [[3, 1], [1, 3], [4, 0]], 1, 3000)]
    shares = np.bincount(firsts, minlength=3) / 3000
    assert shares == pytest.approx([8 / 18, 8 / 18, 2 / 18], abs=5 * (0.25 / 3000) ** 0.5)


def test_second_picks_by_hand():
    """After (4, 0), with (3, 1) or (0, 2): shares (7/8, 1/8) or (2/3, 1/3), Q = 9/32 or 1/18; odds Q^-2."""
    found = drawn(ClassBalanced(explore=0), [[4, 0], [3, 1], [0, 2]], 2, 6000)
    after = [selection.clients[1] for selection in found if selection.clients[0] == 0]
    share = (32 / 9) ** 2 / ((32 / 9) ** 2 + 18**2)
    assert len(after) > 300
    assert np.mean(np.array(after) == 1) == pytest.approx(share, abs=5 * (share / len(after)) ** 0.5)


def test_the_papers_example():
    """Of four clients, three: the first, third and fourth together are balanced, and greedy picks may miss them."""
    counts = [[5] * 6, [6, 6, 6, 6, 6, 0], [0, 0, 0, 10, 10, 10], [10, 10, 10, 0, 0, 0]]
    assert imbalance(np.array(counts, np.float64)) == pytest.approx([0, 1 / 30, 1 / 6, 1 / 6])
    found = drawn(ClassBalanced(explore=0), counts, 3, 300)
    best = [sorted(selection.clients) == [0, 2, 3] for selection in found]
    assert any(best)
    for selection in found:
        pooled = np.array(counts, np.float64)[selection.clients].sum(axis=0)
        assert selection.reasons[-1]["score"] == pytest.approx(float(imbalance(pooled[None])[0]))


def test_those_seldom_chosen_are_explored():
    """In a later round with much exploration, odds go with 1 / sqrt(T): 1 and 1 / sqrt(9)."""
    state = {"times": np.array([0, 8]), "round": np.array(99)}
    found = drawn(ClassBalanced(explore=1e9), [[1, 0], [0, 1]], 1, 4000, state)
    share = np.mean([selection.clients[0] == 0 for selection in found])
    assert share == pytest.approx(0.75, abs=5 * (0.25 / 4000) ** 0.5)
    assert found[0].state["round"] == 100
    assert found[0].state["times"].sum() == 9
    assert state["times"].tolist() == [0, 8]


def test_bad_options():
    with pytest.raises(ConfigError, match="explore = -1 must be finite"):
        ClassBalanced(-1)
