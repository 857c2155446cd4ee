"""A graph that is cut in two, and healed."""

import threading
import time

import pytest
from tests.peer.processes import SLACK, played, until
from tests.peer.trial import experiment, start, trial

from entrofed.experiment.run_folder import RunFolder
from entrofed.peer.config import PeerFolder
from entrofed.peer.link import Link, UnreachableError
from entrofed.peer.round import PeerRounds


@pytest.mark.slow
def test_halves_that_drifted_apart_find_together_again(tmp_path, monkeypatch):
    """A ring of four, in which one half is slower while it is by itself: it catches up, and skips nothing."""
    cut, deadline, rounds = threading.Event(), 3.0, 60
    paths = trial(tmp_path / "trial", experiment(rounds, 4, {"name": "fedavg"}), deadline=deadline)
    halves = {PeerFolder(path).certificate: number < 2 for number, path in enumerate(paths)}
    began, called, trained = Link.__init__, Link.call, PeerRounds._own_update

    def begin(link, neighbour, key, certificate, *rest):
        began(link, neighbour, key, certificate, *rest)
        link.crosses = halves[neighbour.certificate] != halves[certificate]

    def call(link, *rest):
        if cut.is_set() and link.crosses:
            raise UnreachableError("cut")
        return called(link, *rest)

    def train(rounds, *rest):
        time.sleep(0.3 if cut.is_set() and rounds._node < 2 else 0.02)
        return trained(rounds, *rest)

    monkeypatch.setattr(Link, "__init__", begin)
    monkeypatch.setattr(Link, "call", call)
    monkeypatch.setattr(PeerRounds, "_own_update", train)
    results = {}
    threads = [start(path, results) for path in paths]
    until(lambda: min(map(played, paths)) >= 3)
    cut.set()
    until(lambda: max(map(played, paths)) >= rounds / 2)
    assert played(paths[0]) < played(paths[3])
    cut.clear()
    for thread in threads:
        thread.join(120)
    assert all(isinstance(result, dict) for result in results.values()), results
    records = [RunFolder(path / "run").records() for path in paths]
    assert {len(record.cohort) for record in records[0][:-10]} >= {2, 3}
    assert [record.cohort for record in (one[-1] for one in records)] == [[0, 1, 3], [0, 1, 2], [1, 2, 3], [0, 2, 3]]
    assert not any(record.skipped for one in records for record in one)
    assert all(record.seconds["wait"] < deadline + SLACK for one in records for record in one[1:])
