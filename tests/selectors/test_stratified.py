"""Sweeps: everybody once, like cohorts, and those who are away."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core.types import ClientTable
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.entropy import entropy_of_counts
from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.selectors.stratified import TOGETHER, Stratified


def table(counts):
    counts = np.asarray(counts, np.float64)
    sizes = np.maximum(counts.sum(axis=1), 1).astype(np.int64)
    return ClientTable(sizes, counts.shape[1], partition="dirichlet_balanced", facts={LabelCounts.name: counts})


def play(part, counts, size, rounds, away=lambda number: ()):
    """Cohorts of so many rounds, of those who are not away."""
    clients, everybody = table(counts), np.arange(len(counts))
    state, found = part.init(clients, everybody), []
    for number in range(rounds):
        among = np.setdiff1d(everybody, np.array(away(number), np.int64))
        selection = part.select(state, clients, among, size, np.random.default_rng(number))
        assert len(set(selection.clients)) == min(size, len(among))
        assert set(selection.clients) <= set(among.tolist())
        state = selection.state
        found.append(selection.clients)
    return found


def skewed(clients, classes=10, seed=0):
    rng = np.random.default_rng(seed)
    return rng.multinomial(100, np.ones(classes) / classes, clients) * (rng.random((clients, classes)) < 0.2) + 1


@given(st.integers(1, 40), st.integers(1, 12), st.integers(0, 9))
def test_everybody_once_per_sweep(clients, size, seed):
    """After any number of rounds nobody has taken part more than once more often than anybody else."""
    times = np.zeros(clients, np.int64)
    for cohort in play(Stratified(), skewed(clients, seed=seed), size, 12):
        times[cohort] += 1
        assert np.ptp(times) <= 1


def test_a_sweep_of_like_cohorts_by_hand():
    """Two clients of each class: each cohort of two holds both classes, in any order."""
    counts = [[8, 0], [8, 0], [0, 8], [0, 8]]
    for cohort in play(Stratified(), counts, 2, 20):
        assert sorted(client >= 2 for client in cohort) == [False, True]


def test_more_even_than_chance_and_fairer_than_greed():
    """Labels of the cohorts: less diverse than FedEntOpt's, but everybody's, and far from those of chance."""
    counts, rounds = skewed(60) ** 2, 60
    played = {
        name: play(part, counts, 6, rounds) for name, part in (("own", Stratified()), ("fe", LabelEntropyGreedy()))
    }
    rng = np.random.default_rng(0)
    played["chance"] = [rng.choice(60, 6, replace=False).tolist() for _ in range(rounds)]
    bits = {
        name: np.mean([entropy_of_counts(counts[cohort].sum(axis=0)) for cohort in cohorts])
        for name, cohorts in played.items()
    }
    assert bits["own"] > bits["chance"] + 0.5 * (bits["fe"] - bits["chance"])
    times = {name: np.bincount(np.concatenate(cohorts), minlength=60) for name, cohorts in played.items()}
    assert (times["own"] == rounds * 6 // 60).all()
    assert times["fe"].std() > 1


def test_who_is_away_waits_and_takes_part_on_return():
    """Client 0 is away for the first sweep: it is in the first cohort after that sweep."""
    cohorts = play(Stratified(), skewed(9), 4, 4, away=lambda number: (0,) if number < 2 else ())
    assert sorted(cohorts[0] + cohorts[1]) == list(range(1, 9))
    assert 0 in cohorts[2]


def test_all_who_are_there_have_had_their_turn():
    """Four clients, two of them away for good: the others take part in every round."""
    cohorts = play(Stratified(), skewed(4), 2, 5, away=lambda number: (2, 3))
    assert [sorted(cohort) for cohort in cohorts] == [[0, 1]] * 5


def test_the_last_round_of_a_sweep_is_filled_by_who_suits():
    """Three of one class and three of another, cohorts of four: the last of a sweep are two, and two are added."""
    counts = [[6, 0]] * 3 + [[0, 6]] * 3
    first, second, third = play(Stratified(), counts, 4, 3)
    assert sum(client < 3 for client in first) == 2
    assert set(range(6)) - set(first) <= set(second)
    assert sum(client < 3 for client in second) == 2
    times = np.bincount(first + second + third, minlength=6)
    assert times.tolist() == [2] * 6


def test_of_many_clients_some_are_dealt_at_a_time():
    counts = skewed(3 * TOGETHER)
    cohorts = play(Stratified(), counts, 10, 3 * TOGETHER // 10)
    assert sorted(np.concatenate(cohorts).tolist()) == list(range(3 * TOGETHER))


def test_more_are_missing_than_are_dealt_at_a_time():
    """A sweep's last 50 clients in a cohort of 650: 600 of the next sweep join them."""
    first, second = play(Stratified(), skewed(700), 650, 2)
    assert len(set(second)) == 650
    assert set(range(700)) - set(first) <= set(second)


@pytest.mark.parametrize("seed", range(5))
def test_who_is_away_as_a_sweep_begins_has_a_turn_in_it(seed):
    """Sweeps of three rounds; a client of the first cohort is away in the fourth round only."""
    counts = skewed(12, seed=seed)
    gone = play(Stratified(), counts, 4, 1)[0][0]
    cohorts = play(Stratified(), counts, 4, 6, away=lambda number: (gone,) if number == 3 else ())
    assert gone in cohorts[0]
    assert sorted(cohorts[3] + cohorts[4] + cohorts[5]) == list(range(12))


@given(st.integers(1, 20), st.integers(0, 20), st.integers(1, 8), st.integers(0, 99))
def test_who_is_always_there_takes_part_alike_whoever_comes_and_goes(steady, others, size, seed):
    rng, times = np.random.default_rng(seed), np.zeros(steady + others, np.int64)
    gone = rng.random((15, others)) < rng.random(others)
    cohorts = play(
        Stratified(), skewed(steady + others), size, 15, away=lambda number: steady + np.flatnonzero(gone[number])
    )
    for cohort in cohorts:
        times[cohort] += 1
        assert np.ptp(times[:steady]) <= 1


def test_nothing_is_known_of_anybody():
    assert sorted(np.concatenate(play(Stratified(), np.zeros((6, 3)), 2, 3)).tolist()) == list(range(6))
