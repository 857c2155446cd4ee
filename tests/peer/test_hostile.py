"""Whatever a neighbour sends, the others' models are those without it, and no round outlasts its deadline."""

import re
import resource
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from tests.peer.endless import Endless
from tests.peer.hostile import Hostile
from tests.peer.processes import LONG, SLACK
from tests.peer.trial import assert_equal, experiment, together, trial

from entrofed.experiment.run_folder import RunFolder
from entrofed.peer.agreement import agreed_on
from entrofed.peer.config import PeerFolder
from entrofed.peer.limits import BURST, RATE
from entrofed.peer.node import setup_of
from entrofed.peer.wire import Ask, Hello, frame


def without_the_third(folder, chosen):
    """The same experiment without the edges to node 2."""
    path = folder / "edges.txt"
    path.write_text("0 1\n")
    return chosen.model_copy(
        update={"topology": chosen.topology.model_copy(update={"kind": "file", "path": str(path)})}
    )


def nan(peer, ask):
    values = np.zeros(peer.setup.layout.floats, np.float32)
    values[3] = np.nan
    return peer.model(ask, values)


def huge(peer, ask):
    return peer.model(ask, np.zeros(2_000_000, np.float32))


BEHAVIOURS = {
    "nan": (nan, "1 non-finite"),
    "layout": (lambda peer, ask: peer.model(ask, np.zeros(7, np.float32)), "shape (7,)"),
    "type": (lambda peer, ask: peer.model(ask, np.zeros(peer.setup.layout.floats, np.float64)), "float64"),
    "huge": (huge, "larger than max"),
    "other run": (lambda peer, ask: peer.model(ask, run="yesterday"), "another run"),
    "yesterday": (lambda peer, ask: peer.model(ask, round=ask.round - 1) if ask.round else nan(peer, ask), "of round"),
    "end": (lambda peer, ask: peer.model(ask, round=10**6), "and there are 4"),
    "garbage": (lambda peer, ask: b"\x80\x04K*.", "not a message"),
    "header": (lambda peer, ask: peer.model(ask, steps="many"), "steps"),
    "far": (lambda peer, ask: peer.model(ask, np.full(peer.setup.layout.floats, 1e6, np.float32)), "far; beside"),
    "steps": (lambda peer, ask: peer.model(ask, steps=50), "at most 2 were ordered"),
    "examples": (lambda peer, ask: peer.model(ask, examples=10**12), "absurd number of examples"),
    "more": (
        lambda peer, ask: frame(Ask(run=ask.run, round=0, oldest=0, wait=0.0), {"a": np.zeros(3)}),
        "header",
    ),
}


@pytest.mark.parametrize("name", BEHAVIOURS)
def test_what_cannot_be_used_is_refused_and_changes_nothing(tmp_path, name):
    behaviour, words = BEHAVIOURS[name]
    chosen = experiment(4, 3, {"name": "fedavg"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen)
    with Hostile(paths[2], behaviour) as third:
        together(paths[:2])
    assert {0, 1, 2, 3} <= set(third.asked)
    assert_equal(paths[:2], without_the_third(tmp_path, chosen), tmp_path / "simulation")
    for path in paths[:2]:
        reasons = [refusal.reason for record in RunFolder(path / "run").records() for refusal in record.refused]
        assert sum(words in reason for reason in reasons) == (3 if name == "yesterday" else 4), reasons


def test_one_of_two_neighbours_cannot_make_a_peer_skip_rounds(tmp_path):
    """It says that it is in the last round, and asks for it."""
    chosen = experiment(4, 3, {"name": "fedavg"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen)

    def hurries(peer, ask):
        peer.ask(10**6)
        return peer.model(ask, kind="none", round=3)

    with Hostile(paths[2], hurries):
        together(paths[:2])
    assert not any(record.skipped for path in paths[:2] for record in RunFolder(path / "run").records())
    assert_equal(paths[:2], without_the_third(tmp_path, chosen), tmp_path / "simulation")


def memory():
    """Bytes of this process that lie in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize(
    ("announced", "each", "words"),
    [(10 * 10**9, None, "larger than max"), (10 * 10**9, 10**6, None)],
    ids=["one message", "many messages"],
)
def test_ten_gigabytes_cost_no_memory(tmp_path, announced, each, words):
    """One message is refused by its announced length; of many as an answer, no more than the first is read."""
    chosen = experiment(3, 3, {"name": "fedavg"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=8.0, start=8.0)
    folder, most, done = PeerFolder(paths[2]), [memory()], threading.Event()
    before = most[0]
    said = Hello(run=folder.section.run, number=2, agreed=agreed_on(setup_of(folder), own_data=False), examples=9, at=0)

    def watch():
        while not done.wait(0.02):
            most.append(memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    with Endless(folder, frame(said), announced, each) as third:
        together(paths[:2])
    done.set()
    watcher.join()
    assert third.questions >= 6
    assert max(most) - before < 300e6
    refused = [refusal.reason for record in RunFolder(paths[0] / "run").records() for refusal in record.refused]
    assert sum(words in reason for reason in refused) == 3 if words else True, refused
    assert_equal(paths[:2], without_the_third(tmp_path, chosen), tmp_path / "simulation")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"run": "other"}, "it plays run"),
        ({"number": 1}, "it says that it is number 1"),
        ({"agreed": {"model": "0"}}, "do not agree on the network's tensors"),
        ({"examples": 10**12}, "absurd number"),
    ],
)
def test_somebody_with_another_run_is_not_talked_to(tmp_path, changes, words):
    chosen = experiment(2, 3, {"name": "fedavg"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen)
    said = {"run": PeerFolder(paths[2]).section.run, "number": 2, "agreed": {}, "examples": 9, "at": 0, **changes}
    if "agreed" not in changes:
        said["agreed"] = agreed_on(setup_of(PeerFolder(paths[2])), own_data=False)
    with Hostile(paths[2], lambda peer, ask: peer.model(ask), Hello(**said)) as third:
        together(paths[:2])
    assert set(third.asked) == {2}  # that it is through
    assert_equal(paths[:2], without_the_third(tmp_path, chosen), tmp_path / "simulation")
    refused = RunFolder(paths[0] / "run").records()[0].refused
    assert [(refusal.client, words in refusal.reason) for refusal in refused] == [(2, True)]


@pytest.mark.slow
def test_a_silent_neighbour_costs_deadlines_ever_more_rarely(tmp_path):
    chosen = experiment(8, 3, {"name": "fedavg"}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=2.5, start=2.5)
    with Hostile(paths[2], lambda peer, ask: peer.model(ask, kind="later")):
        together(paths[:2])
    waits = [record.seconds["wait"] for record in RunFolder(paths[0] / "run").records()]
    assert min(waits[:3]) > 2.4
    assert max(waits) < 2.5 + SLACK
    missed = re.findall(r"round (\d+): peer-2 did not answer", (paths[0] / "run" / "log.txt").read_text())
    assert set(missed) == {"1", "2", "3"}
    assert_equal(paths[:2], without_the_third(tmp_path, chosen), tmp_path / "simulation")


def test_a_flood_hinders_nobody(tmp_path):
    chosen = experiment(10, 3, {"name": "fedavg", "epochs": 10}, topology={"kind": "full"})
    paths = trial(tmp_path / "trial", chosen, deadline=15.0)  # as long do they wait for it in the end
    stop, sent, began = threading.Event(), {}, time.monotonic()
    with Hostile(paths[2], lambda peer, ask: peer.model(ask, kind="none")) as third:
        floods = [third.flood(victim, stop, sent) for victim in third.folder.neighbours]
        together(paths[:2])
        stop.set()
        for flood in floods:
            flood.join(LONG)
    assert_equal(paths[:2], without_the_third(tmp_path, chosen), tmp_path / "simulation")
    assert sent["RESOURCE_EXHAUSTED"] > 100
    assert sent.get("answered", 0) <= 2 * (BURST + RATE * (time.monotonic() - began))
