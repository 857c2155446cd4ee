"""Faults: the right shares, the same for every method, kept or redrawn as asked."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core import faults
from entrofed.core.faults import Faults
from entrofed.core.seeds import stream

cohorts = st.lists(st.integers(0, 99), min_size=1, max_size=30, unique=True)


@given(cohorts, st.integers(0, 50))
def test_no_faults_by_default(cohort, number):
    assert Faults().dropped(0, number, cohort) == set()
    assert Faults().epochs(0, number, cohort[0], 100, 5) == 5
    assert Faults().present(0, number, 60, 100).all()


@given(cohorts, st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.99]), st.integers(0, 9))
def test_a_fixed_share_drops_out(cohort, share, number):
    gone = Faults(dropout=share).dropped(1, number, cohort)
    assert gone <= set(cohort)
    assert len(gone) == int(share * len(cohort) + 0.5)
    assert gone == Faults(dropout=share).dropped(1, number, cohort)


def test_three_of_ten_drop_out_and_not_always_the_same():
    draws = [frozenset(Faults(dropout=0.3).dropped(0, number, list(range(10)))) for number in range(20)]
    assert all(len(gone) == 3 for gone in draws)
    assert len(set(draws)) > 10


def test_bernoulli_dropout_has_the_right_mean():
    faults = Faults(dropout=0.3, dropout_mode="bernoulli")
    sizes = [len(faults.dropped(0, number, list(range(10)))) for number in range(500)]
    assert len(set(sizes)) > 4
    assert sum(sizes) / 5000 == pytest.approx(0.3, abs=4 * (0.21 / 5000) ** 0.5)


def test_stragglers_are_half_of_the_pool_and_keep_their_epochs():
    faults = Faults(stragglers=0.5)
    first = [faults.epochs(0, 0, client, 100, 5) for client in range(100)]
    assert all(1 <= epochs <= 5 for epochs in first)
    # Fifty are marked; a fifth of those draw all five epochs, so about forty are seen to be slow.
    assert 28 <= sum(epochs < 5 for epochs in first) <= 50
    assert set(first) == {1, 2, 3, 4, 5}
    assert first == [faults.epochs(0, 7, client, 100, 5) for client in range(100)]


def test_redrawn_stragglers_are_the_same_clients_with_other_epochs():
    faults = Faults(stragglers=0.5, straggler_redraw=True)
    rounds = [[faults.epochs(0, number, client, 100, 5) for client in range(100)] for number in range(30)]
    slow = [{client for client in range(100) if epochs[client] < 5} for epochs in rounds]
    assert len(set().union(*slow)) == 50
    assert rounds[0] != rounds[1]


def test_clients_join_and_leave_once():
    faults = Faults(joining=0.4, leaving=0.3)
    there = [faults.present(3, number, 50, 20) for number in range(50)]
    joined = left = 0
    for client in range(20):
        course = [bool(row[client]) for row in there]
        changes = [(a, b) for a, b in pairwise(course) if a != b]
        assert len(changes) <= 2
        joined += not course[0]
        left += not course[-1]
    assert 0 < joined <= 8
    assert 0 < left <= 6


def test_who_comes_and_goes_is_drawn_once(monkeypatch):
    """Not for every round: a draw for each of many clients takes seconds."""
    drawn = []
    monkeypatch.setattr(faults, "stream", lambda *key: drawn.append(key) or stream(*key))
    world = Faults(joining=0.5, leaving=0.25, stragglers=0.5)
    before = world.present(987, 0, 10, 40)
    world.epochs(987, 0, 3, 40, 5)
    drawn.clear()
    after = [world.present(987, number, 10, 40) for number in range(10)]
    assert (after[0] == before).all()
    assert len({tuple(there) for there in after}) > 1
    world.epochs(987, 0, 3, 40, 5)
    assert [key[1] for key in drawn] in ([], ["straggler epochs"])


def test_nothing_is_drawn_for_faults_that_are_not_there(monkeypatch):
    """To name a stream takes as long as to choose a cohort."""
    drawn = []
    monkeypatch.setattr(faults, "stream", lambda *key: drawn.append(key) or stream(*key))
    world = Faults()
    assert world.dropped(3, 0, [5, 6, 7]) == set()
    assert world.epochs(3, 0, 5, 10, 4) == 4
    assert world.present(3, 0, 10, 4).all()
    assert [key for key in drawn if key[1] != "straggler"] == []  # who would be one is asked once per run
    assert Faults(dropout=0.5).dropped(3, 0, [5, 6, 7, 8]) < {5, 6, 7, 8}
    assert drawn[-1] == (3, "dropout", 0)
