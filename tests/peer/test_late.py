"""Models that come late: used in the next round if that is allowed, once, and never waited for without end."""

from tests.peer.hostile import Hostile
from tests.peer.trial import experiment, together, trial

from entrofed.experiment.run_folder import RunFolder


def a_round_late(peer, ask):
    """Nothing for the round that is asked for; the model of the round before, if that will do."""
    return peer.model(ask, kind="later") if ask.oldest == ask.round else peer.model(ask, round=ask.round - 1)


def first_again(peer, ask):
    return peer.model(ask, kind="later") if ask.oldest else peer.model(ask, round=0)


def play(folder, behaviour, staleness):
    chosen = experiment(5, 2, {"name": "fedavg"})
    paths = trial(folder / "trial", chosen, deadline=1.5, start=1.5, staleness=staleness)
    with Hostile(paths[1], behaviour):
        together(paths[:1])
    return RunFolder(paths[0] / "run").records()


def test_a_late_model_is_used_in_the_next_round(tmp_path):
    records = play(tmp_path, a_round_late, staleness=1)
    assert [record.cohort for record in records] == [[0], [0, 1], [0, 1], [0, 1], [0, 1]]
    assert all(record.seconds["wait"] < 4 for record in records)


def test_or_dropped(tmp_path):
    records = play(tmp_path, a_round_late, staleness=0)
    assert [record.cohort for record in records] == [[0]] * 5
    assert all(record.seconds["wait"] < 4 for record in records)


def test_who_is_alone_does_not_run_away(tmp_path):
    paths = trial(tmp_path / "trial", experiment(5, 2, {"name": "fedavg"}), deadline=0.5, start=1.0)
    together(paths[:1])
    waits = [record.seconds["wait"] for record in RunFolder(paths[0] / "run").records()]
    assert all(0.45 < wait < 2.5 for wait in waits), waits


def test_the_same_model_is_not_used_twice(tmp_path):
    records = play(tmp_path, first_again, staleness=3)
    assert [record.cohort for record in records] == [[0, 1]] + [[0]] * 4
    reasons = [refusal.reason for record in records for refusal in record.refused]
    assert any("the model of round 1 again" in reason for reason in reasons), reasons


def test_who_is_ahead_is_pooled_and_followed(tmp_path):
    """The neighbour is in round 4 (from 1 on) from the start: its model is new, and all neighbours are ahead."""

    def ahead(peer, ask):
        return peer.model(ask, round=max(ask.round, 3))

    records = play(tmp_path, ahead, staleness=0)
    assert [record.round for record in records] == [0, 1, 2, 3, 4]
    assert [record.skipped for record in records] == [False, True, True, False, False]
    assert [record.cohort for record in records] == [[0, 1], [], [], [0, 1], [0, 1]]
