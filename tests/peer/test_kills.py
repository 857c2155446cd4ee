"""Peers that are killed: with patient neighbours nothing is lost; else they are left out, and come back."""

import time

import pytest
from tests.peer.processes import ended, kill, launch, played, records, until
from tests.peer.trial import assert_equal, experiment, trial

pytestmark = pytest.mark.slow


def test_killed_and_started_again_nothing_is_lost(tmp_path):
    chosen = experiment(9, 3, {"name": "fedep", "momentum": 0.9, "persist_optimizer": True})
    paths = trial(tmp_path / "trial", chosen, deadline=20.0)
    processes = [launch(path) for path in paths]
    for number, pause in ((0, 0.0), (1, 0.05), (2, 0.15)):
        until(lambda rounds=3 * number: min(map(played, paths)) >= rounds)
        time.sleep(pause)
        kill(processes[number])
        processes[number] = launch(paths[number])
    ended(processes)
    assert_equal(paths, chosen, tmp_path / "simulation")


def test_who_vanishes_is_left_out_and_taken_in_again(tmp_path):
    chosen = experiment(400, 3, {"name": "fedavg", "epochs": 10}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=1.5)
    processes = [launch(path) for path in paths]
    until(lambda: min(map(played, paths)) >= 3)
    kill(processes[2])
    gone = played(paths[0])
    until(lambda: played(paths[0]) >= gone + 8)
    assert all(record.seconds["wait"] < 3.5 for record in records(paths[0])[1:])
    processes[2] = launch(paths[2])
    ended(processes, 120)
    heard = [record.cohort for record in records(paths[0])]
    assert [0, 1] in heard[gone:]
    assert heard[-1] == [0, 1, 2], heard[-5:]
    skipped = [record.round for record in records(paths[2]) if record.skipped]
    assert skipped, "it went on where the others were"
    assert [record.round for record in records(paths[2])] == list(range(400))


def test_a_newcomer_goes_on_where_the_others_are(tmp_path):
    chosen = experiment(400, 3, {"name": "fedep", "epochs": 10}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=3.0, start=2.0)
    processes = [launch(path) for path in paths[:2]]
    until(lambda: min(map(played, paths[:2])) >= 8)
    processes.append(launch(paths[2]))
    ended(processes, 120)
    late = records(paths[2])
    first = next(record.round for record in late if not record.skipped)
    assert first >= 5
    assert [0, 1, 2] in [record.cohort for record in late]
    assert [0, 1, 2] in [record.cohort for record in records(paths[0])]
    assert late[first].test.accuracy > 0.5, "it began with the model of a neighbour"
