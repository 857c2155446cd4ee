"""HiCS-FL: heterogeneity, clusters and probabilities by hand."""

from math import log

import numpy as np
import pytest

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Update
from entrofed.errors import ConfigError
from entrofed.selectors.bias_table import NOT_ASKED
from entrofed.selectors.hics import HierarchicalClusters

EMPTY = np.zeros(0, np.int64)
START = Params(np.zeros(3, np.float32), EMPTY)


def table(sizes, rounds=0):
    return ClientTable(np.array(sizes), 3, trainable=3, output_bias=0, rounds=rounds)


def seen(part, moves, known_of):
    """The state once everybody was asked, and those with a move have answered."""
    everybody = np.arange(len(known_of.sizes))
    state = part.select(part.init(known_of, everybody), known_of, everybody, 99, np.random.default_rng(0)).state
    updates = [Update(k, Params(np.array(m, np.float32), EMPTY), 1, 1, 0.0, 0.0) for k, m in moves.items()]
    return part.observe(state, START, updates)


def test_heterogeneity_by_hand():
    """Moves (ln 2, 0, 0) at temperature 1: softmax (1/2, 1/4, 1/4), entropy 1.5 ln 2."""
    part = HierarchicalClusters(temperature=1.0)
    state = seen(part, {0: [log(2), 0, 0], 1: [50, 0, 0]}, table([1, 1]))
    groups, scores = part.groups(state, np.arange(2), 2)
    assert sorted(groups) == [0, 1]
    assert scores[groups] == pytest.approx([1.5 * log(2), 0], abs=1e-6)


def test_balanced_clients_are_one_cluster_and_skewed_ones_others():
    part = HierarchicalClusters(temperature=0.1)
    moves = {0: [1, 0, -1], 1: [0.01, 0, 0], 2: [0, 0.01, 0], 3: [-1, 0, 1], 4: [1.1, 0, -1]}
    groups, scores = part.groups(seen(part, moves, table([1] * 5)), np.arange(5), 3)
    assert groups[1] == groups[2]
    assert groups[0] == groups[4]
    assert len({groups[0], groups[1], groups[3]}) == 3
    assert scores[groups[1]] > 1
    assert max(scores[groups[0]], scores[groups[3]]) < 0.01


def test_probabilities_by_hand():
    """Two clusters with H 0 and ln 2, gamma 1: weights 1 and 2; sizes 1 and 3 in the first."""
    part = HierarchicalClusters(gamma=1.0)
    groups, scores, sizes = np.array([0, 0, 1]), np.array([0, log(2)]), np.array([1.0, 3.0, 7.0])
    assert part.odds(groups, scores, sizes, 1.0) == pytest.approx([1 / 12, 3 / 12, 2 / 3])
    assert part.odds(groups, scores, sizes, 0.0) == pytest.approx([1 / 8, 3 / 8, 1 / 2])


def test_the_preference_for_balance_falls_with_the_rounds():
    """With gamma_t = gamma (1 - t / T), all clusters are alike in the last round."""
    part, moves = HierarchicalClusters(temperature=0.1, gamma=30.0, clusters=2), {0: [1, 0, -1], 1: [0.001, 0, 0]}
    known_of = table([1, 1], rounds=100)
    state = seen(part, moves, known_of)

    def share(number):
        at = {**state, "round": np.array(number)}
        rng = np.random.default_rng(1)
        return np.mean([part.select(at, known_of, np.arange(2), 1, rng).clients[0] == 1 for _ in range(800)])

    assert share(0) == 1
    assert share(99) == pytest.approx(0.5, abs=5 * (0.25 / 800) ** 0.5)
    assert share(150) == pytest.approx(0.5, abs=5 * (0.25 / 800) ** 0.5)


def test_everybody_is_asked_once_before():
    part, known_of, everybody = HierarchicalClusters(), table([1] * 5), np.arange(5)
    state, cohorts = part.init(known_of, everybody), []
    for number in range(3):
        selection = part.select(state, known_of, everybody, 2, np.random.default_rng(number))
        updates = [Update(k, Params(np.array([1, k, 0], np.float32), EMPTY), 1, 1, 0, 0) for k in selection.clients]
        state = part.observe(selection.state, START, updates)
        cohorts.append(selection)
    assert sorted(cohorts[0].clients + cohorts[1].clients + cohorts[2].clients[:1]) == [0, 1, 2, 3, 4]
    assert cohorts[0].reasons[0]["how"] == NOT_ASKED
    assert "cluster" in cohorts[2].reasons[1]
    assert int(state["round"]) == 3


def test_who_never_answered_counts_as_the_mean():
    part = HierarchicalClusters(temperature=1.0)
    state = seen(part, {0: [log(2), 0, 0], 1: [50, 0, 0]}, table([1] * 3))
    groups, scores = part.groups(state, np.arange(3), 2)
    assert groups[2] == 2
    assert scores[2] == pytest.approx(0.75 * log(2), abs=1e-6)
    nobody = seen(part, {}, table([1] * 3))
    assert len(part.select(nobody, table([1] * 3), np.arange(3), 2, np.random.default_rng(0)).clients) == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"temperature": 0.0}, "temperature = 0.0 must be above 0"),
        ({"gamma": -1.0}, "gamma = -1.0 must not be negative"),
        ({"clusters": 0}, "clusters = 0: at least one"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        HierarchicalClusters(**options)
