"""Peers that are killed: with patient neighbours nothing is lost; else they are left out, and come back."""

import time
from contextlib import contextmanager

import pytest
from tests.peer.processes import SLACK, ended, kill, launch, played, records, until
from tests.peer.trial import assert_equal, experiment, trial

pytestmark = pytest.mark.slow

ENDLESS = 100_000
"""Rounds that no test waits for."""


@contextmanager
def running(paths):
    """Peers by number; those that still run at the end are killed."""
    processes = {}
    try:
        for number, path in enumerate(paths):
            processes[number] = launch(path)
        yield processes
    finally:
        for process in processes.values():
            kill(process)


def test_killed_and_started_again_nothing_is_lost(tmp_path):
    chosen = experiment(40, 3, {"name": "fedep", "momentum": 0.9, "persist_optimizer": True})
    paths = trial(tmp_path / "trial", chosen)
    with running(paths) as processes:
        for number, pause in ((0, 0.0), (1, 0.05), (2, 0.15)):
            until(lambda rounds=3 * number: min(map(played, paths)) >= rounds)
            time.sleep(pause)
            kill(processes[number])
            processes[number] = launch(paths[number])
        ended(processes.values())
    assert_equal(paths, chosen, tmp_path / "simulation")


def test_who_vanishes_is_left_out_and_taken_in_again(tmp_path):
    chosen = experiment(ENDLESS, 3, {"name": "fedavg"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=1.5)
    with running(paths) as processes:
        until(lambda: min(map(played, paths)) >= 3)
        kill(processes[2])
        gone, left = played(paths[0]), played(paths[2])
        until(lambda: played(paths[0]) >= gone + 20)
        processes[2] = launch(paths[2])
        until(lambda: played(paths[2]) > played(paths[0]) - 5 > left)
        now = played(paths[0])
        until(lambda: [0, 1, 2] in [record.cohort for record in records(paths[0])[now:]])
    heard = records(paths[0])
    assert [0, 1] in [record.cohort for record in heard[gone:]]
    assert all(record.seconds["wait"] < 1.5 + SLACK for record in heard[1:])
    late = records(paths[2])
    assert any(record.skipped for record in late[left:]), "it went on where the others were"
    assert [record.round for record in late] == list(range(len(late)))


def test_a_newcomer_goes_on_where_the_others_are(tmp_path):
    chosen = experiment(ENDLESS, 3, {"name": "fedep"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=2.0, start=2.0)
    with running(paths[:2]) as processes:
        until(lambda: min(map(played, paths[:2])) >= 20)
        processes[2] = launch(paths[2])
        until(lambda: [0, 1, 2] in [record.cohort for record in records(paths[2])])
        until(lambda: [0, 1, 2] in [record.cohort for record in records(paths[0])])
    late = records(paths[2])
    first = next(record.round for record in late if not record.skipped)
    assert first >= 17
    assert late[first].test.accuracy > 0.5, "it began with the model of a neighbour"
