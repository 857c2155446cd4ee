"""Models that come late: used in the next round if that is allowed, once, and never waited for without end."""

import random
import threading

import pytest
from tests.peer.hostile import Hostile
from tests.peer.processes import SLACK
from tests.peer.trial import experiment, together, trial

from entrofed.experiment.run_folder import RunFolder
from entrofed.peer.link import Link, UnreachableError
from entrofed.peer.service import MODEL


def a_round_late(peer, ask):
    """Nothing for the round that is asked for; the model of the round before, if that will do."""
    return peer.model(ask, kind="later") if ask.oldest == ask.round else peer.model(ask, round=ask.round - 1)


def first_again(peer, ask):
    return peer.model(ask, kind="later") if ask.oldest else peer.model(ask, round=0)


def play(folder, behaviour, staleness, rounds=3):
    chosen = experiment(rounds, 2, {"name": "fedavg"})
    paths = trial(folder / "trial", chosen, deadline=1.5, start=1.5, staleness=staleness)
    with Hostile(paths[1], behaviour):
        together(paths[:1])
    return RunFolder(paths[0] / "run").records()


def test_a_late_model_is_used_in_the_next_round(tmp_path):
    records = play(tmp_path, a_round_late, staleness=1)
    assert [record.cohort for record in records] == [[0], [0, 1], [0, 1]]
    assert all(record.seconds["wait"] < 1.5 + SLACK for record in records)


def test_or_dropped(tmp_path):
    records = play(tmp_path, a_round_late, staleness=0)
    assert [record.cohort for record in records] == [[0]] * 3
    assert all(record.seconds["wait"] < 1.5 + SLACK for record in records)


def test_who_is_alone_does_not_run_away(tmp_path):
    paths = trial(tmp_path / "trial", experiment(3, 2, {"name": "fedavg"}), deadline=0.5, start=1.0)
    together(paths[:1])
    waits = [record.seconds["wait"] for record in RunFolder(paths[0] / "run").records()]
    assert all(0.45 < wait < 1.0 + SLACK for wait in waits), waits


def test_the_same_model_is_not_used_twice(tmp_path):
    records = play(tmp_path, first_again, staleness=3)
    assert [record.cohort for record in records] == [[0, 1]] + [[0]] * 2
    reasons = [refusal.reason for record in records for refusal in record.refused]
    assert any("the model of round 1 again" in reason for reason in reasons), reasons


def test_who_is_ahead_is_pooled_and_followed(tmp_path):
    """The neighbour is in round 4 (from 1 on) from the start: its model is new, and all neighbours are ahead."""

    def ahead(peer, ask):
        return peer.model(ask, round=max(ask.round, 3))

    records = play(tmp_path, ahead, staleness=0, rounds=5)
    assert [record.round for record in records] == [0, 1, 2, 3, 4]
    assert [record.skipped for record in records] == [False, True, True, False, False]
    assert [record.cohort for record in records] == [[0, 1], [], [], [0, 1], [0, 1]]


def test_lost_messages_of_the_first_round_are_asked_for_again_as_soon_as_later_ones(tmp_path, monkeypatch):
    """The first round waits long for peers that are still being started, and no longer for each message."""
    calls, call = [], Link.call

    def lossy(link, method, payload, seconds, stop=None):
        calls.append(method)
        if calls.count(MODEL) <= 4 and method == MODEL:
            (stop or threading.Event()).wait(seconds)
            raise UnreachableError("lost on the way")
        return call(link, method, payload, seconds, stop)

    monkeypatch.setattr(Link, "call", lossy)
    paths = trial(tmp_path / "trial", experiment(1, 2, {"name": "fedavg"}), deadline=1.5)
    with Hostile(paths[1], lambda peer, ask: peer.model(ask)):
        together(paths[:1])
    (record,) = RunFolder(paths[0] / "run").records()
    assert record.cohort == [0, 1]
    assert record.seconds["wait"] < 4 * (0.25 + 1.5) + SLACK


@pytest.mark.slow
def test_lost_messages_are_asked_for_again_and_peers_stay_in_step(tmp_path, monkeypatch):
    """30 % of all calls vanish without a word; far fewer models do, and nobody skips a round to catch up."""
    rng, call = random.Random(0), Link.call

    def lossy(link, method, payload, seconds, stop=None):
        if rng.random() < 0.3:
            (stop or threading.Event()).wait(seconds)
            raise UnreachableError("lost on the way")
        return call(link, method, payload, seconds, stop)

    monkeypatch.setattr(Link, "call", lossy)
    paths = trial(tmp_path / "trial", experiment(6, 4, {"name": "fedavg"}), deadline=6.0)
    together(paths)
    records = [record for path in paths for record in RunFolder(path / "run").records()]
    assert not any(record.skipped for record in records)
    assert sum(len(record.cohort) - 1 for record in records) > 0.7 * 2 * 4 * 6
