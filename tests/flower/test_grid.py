"""Messages and replies, and who is who among the nodes."""

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import json
import time
from dataclasses import replace

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, RecordDict
from flwr.clientapp import ClientApp
from tests.flower.fake import FakeGrid, Federation, digits, iris, mute

from entrofed.backends.inline import InlineBackend
from entrofed.core.tasks import EvaluateTask, FactTask
from entrofed.core.types import Failure
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.facts import Loss
from entrofed.flower.answers import answered
from entrofed.flower.grid import GridBackend, Question, Roster, Silence, content_of, exchange, message


def hello(name):
    """An app that says only who it is."""
    return answered(ClientApp(), lambda question, message, context: {"name": name})


def grid_of(**names):
    """Nodes by the names they give themselves: ``n5="a"`` is node 5."""
    grid = FakeGrid()
    for node, name in names.items():
        grid.join(hello(name), int(node[1:]))
    return grid


def questions(grid, nodes, timeout=0.05):
    record = RecordDict({"config": ConfigRecord({"ask": json.dumps({"what": "hello"})})})
    return [message(record, node, "query.entrofed", timeout) for node in nodes]


def test_a_reply_counts_for_whom_was_asked():
    """Errors of the SuperLink name node 1 as the sender."""
    grid = grid_of(n5="a", n6="b")

    def lost(request, reply):
        error = Message(Error(5, "Node Unavailable"), reply_to=request)
        error.metadata.__dict__["_src_node_id"] = 1
        return [error]

    grid.nodes[6].tamper["query"] = lost
    found = exchange(grid, questions(grid, [5, 6]), 0.05)
    assert set(found) == {5, 6}
    assert found[6].has_error()
    assert found[6].metadata.src_node_id == 1


def test_the_deadline_is_kept():
    grid = grid_of(n5="a", n6="b")
    grid.nodes[6].tamper["query"] = mute
    began = time.monotonic()
    assert set(exchange(grid, questions(grid, [5, 6]), 0.2)) == {5}
    assert 0.2 <= time.monotonic() - began < 2


def test_a_reply_that_takes_a_while():
    grid = grid_of(n5="a")
    pull, looks = grid.pull_messages, []

    def slowly(keys):
        looks.append(1)
        return pull(keys) if len(looks) > 5 else []

    grid.pull_messages = slowly
    assert set(exchange(grid, questions(grid, [5]), 5.0)) == {5}
    assert len(looks) == 6


def test_the_longer_it_takes_the_seldomer_is_looked(monkeypatch):
    """By a clock that only the pauses move: soon at first, then every three seconds, and once more at the deadline."""
    grid, now, pauses = grid_of(n5="a"), [100.0], []
    grid.nodes[5].tamper["query"] = mute

    def sleep(seconds):
        pauses.append(seconds)
        now[0] += seconds

    monkeypatch.setattr("entrofed.flower.grid.POLL", 0.2)
    monkeypatch.setattr("entrofed.flower.grid.time.sleep", sleep)
    monkeypatch.setattr("entrofed.flower.grid.time.monotonic", lambda: now[0])
    assert exchange(grid, questions(grid, [5]), 100.0) == {}
    assert pauses[:5] == [0.2] * 5
    assert pauses[:-1] == sorted(pauses[:-1])
    assert max(pauses) == 3.0
    assert 50 < len(pauses) < 80
    assert now[0] == pytest.approx(200.0)


def test_the_first_of_two_replies_counts():
    grid = grid_of(n5="a")
    grid.nodes[5].tamper["query"] = lambda request, reply: [reply, Message(RecordDict(), reply_to=request)]
    assert "config" in exchange(grid, questions(grid, [5]), 0.05)[5].content


@pytest.mark.parametrize("pushed", [lambda keys: [], lambda keys: keys[:1], lambda keys: [None, keys[1]]])
def test_messages_that_cannot_be_sent(pushed):
    """Flower gives fewer ids, or None for some."""
    grid = grid_of(n5="a", n6="b")
    push = grid.push_messages
    grid.push_messages = lambda messages: pushed(push(messages))
    assert set(exchange(grid, questions(grid, [5, 6]), 0.05)) <= {5, 6}


def test_nothing_to_send():
    assert exchange(FakeGrid(), [], 1e9) == {}


def test_a_message_does_not_live_on_for_long():
    grid = grid_of(n5="a")
    assert [m.metadata.ttl for m in questions(grid, [5], timeout=7.5)] == [307.5]
    assert questions(grid, [5], timeout=float("inf"))[0].metadata.ttl == 43200


def test_what_a_reply_holds():
    grid = grid_of(n5="a")
    (request,) = questions(grid, [5])
    record = RecordDict({"a": ArrayRecord({"w": Array(np.zeros(1000, np.float32))})})
    fine = Message(record, reply_to=request)
    assert content_of(fine, 5000) is fine.content
    assert content_of(fine, 4000) == Failure("a reply of 4,129 bytes; at most 4,000 are taken")
    assert content_of(None, 1) == Silence("no reply before the deadline")
    raised = content_of(Message(Error(2, "Traceback\n  ...\nValueError: boom\n"), reply_to=request), 1)
    assert raised == Failure("error 2: ValueError: boom")
    assert isinstance(content_of(Message(Error(5, ""), reply_to=request), 1), Silence)


def test_questions_and_answers():
    grid = grid_of(n5="a", n6="b")
    grid.nodes[6].tamper["query"] = lambda request, reply: [Message(RecordDict(), reply_to=request)]
    answers = Question({"what": "hello"}).ask(grid, [5, 6, 7], 0.05, patient=False)
    assert answers[5] == {"name": "a"}
    assert "cannot be read" in answers[6].reason
    assert isinstance(answers[7], Silence)


# ----- who is who


def test_numbers_follow_names_not_nodes():
    roster = Roster()
    roster.refresh(grid_of(n1="10", n2="b", n3="9", n4="a"), 0.05)
    assert roster.names == ["9", "10", "a", "b"]
    assert roster.node_of(1) == 1
    assert roster.present() == [0, 1, 2, 3]


def test_who_comes_later_is_appended_and_who_goes_keeps_its_number():
    grid, roster = grid_of(n5="b"), Roster()
    roster.refresh(grid, 0.05)
    grid.join(hello("a"), 1)
    roster.refresh(grid, 0.05)
    del grid.nodes[5]
    roster.refresh(grid, 0.05)
    assert roster.names == ["b", "a"]
    assert roster.present() == [1]
    assert roster.node_of(0) is None
    assert roster.node_of(99) is None
    roster.sort()
    assert roster.names == ["a", "b"]


def test_a_client_may_return_as_another_node():
    grid, roster = grid_of(n5="a"), Roster()
    roster.refresh(grid, 0.05)
    del grid.nodes[5]
    grid.join(hello("a"), 77)
    roster.refresh(grid, 0.05)
    assert roster.names == ["a"]
    assert roster.node_of(0) == 77


def test_two_nodes_with_one_name(caplog):
    grid, roster = grid_of(n5="a"), Roster()
    roster.refresh(grid, 0.05)
    grid.join(hello("a"), 2)
    for _ in range(2):
        roster.refresh(grid, 0.05)
        assert roster.node == {"a": 5}
    assert caplog.text.count("node 2 calls itself 'a', as node 5 does") == 1
    del grid.nodes[5]
    roster.refresh(grid, 0.05)
    assert roster.node == {"a": 2}
    grid.join(hello("a"), 5)  # and back
    roster.refresh(grid, 0.05)
    assert roster.node == {"a": 2}


def test_an_app_that_knows_no_questions_is_called_by_its_node():
    grid, roster = FakeGrid(), Roster()
    grid.join(ClientApp(), 5)
    roster.refresh(grid, 0.05)
    assert roster.names == ["node-5"]


@pytest.mark.parametrize("name", [7, None, "", "x" * 10_000, ["a"]])
def test_names_that_are_none(name):
    grid, roster = FakeGrid(), Roster()
    grid.join(hello(name), 5)
    roster.refresh(grid, 0.05)
    assert roster.names == ["node-5"]


def test_a_node_that_is_silent_is_waited_for_once(monkeypatch):
    """It cost ten seconds in every round, though it was never chosen."""
    waits = []
    monkeypatch.setattr("entrofed.flower.grid.time.sleep", waits.append)
    grid, roster = grid_of(n5="a", n6="b"), Roster()
    grid.nodes[6].tamper["query"] = mute
    roster.refresh(grid, 0.05)
    assert roster.names == ["a"]
    assert waits
    waits.clear()
    for _ in range(3):
        roster.refresh(grid, 60.0)
    assert not waits
    assert len(grid.sent("query")) == 2
    grid.nodes[6].tamper.clear()
    monkeypatch.setattr("entrofed.flower.grid.AGAIN", 0.0)
    roster.refresh(grid, 60.0)
    assert roster.names == ["a", "b"]
    assert not waits


def test_a_silent_node_is_named_once(caplog):
    """A simulation that took four minutes to start said it every second of each node."""
    grid, roster = grid_of(n5="a", n6="b"), Roster()
    grid.nodes[6].tamper["query"] = mute
    for _ in range(3):
        roster.refresh(grid, 0.05)
    assert [message for message in caplog.messages if "does not answer" in message] == [
        "node 6 does not answer, and is left out until it does: no reply before the deadline"
    ]


def test_an_answer_that_comes_late_is_taken(monkeypatch):
    grid, roster, late = grid_of(n5="a", n6="b"), Roster(), []
    grid.nodes[6].tamper["query"] = lambda request, reply: late.append(reply) or []
    roster.refresh(grid, 0.05)
    grid.strays = late
    roster.refresh(grid, 60.0)
    assert roster.names == ["a", "b"]
    assert len(grid.sent("query")) == 2


def test_a_large_federation_is_looked_through_in_no_time():
    """20,000 nodes took nine seconds in each round: the time was quadratic."""
    compared = 0

    class Name(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    nodes = 2000
    roster = Roster(known={node: Name(node) for node in range(nodes)})
    grid = FakeGrid()
    grid.nodes = dict.fromkeys(range(nodes))
    for _ in range(2):
        roster.refresh(grid, 0.0)
    assert len(roster.names) == nodes
    assert compared < 20 * nodes


# ----- the backend


def test_an_experiment_on_a_grid(tmp_path):
    experiment = digits("scaffold")
    federation = Federation.of(experiment)
    roster = Roster(names=[str(client) for client in range(6)])
    run(experiment, RunFolder(tmp_path / "there"), backend=GridBackend(federation.grid, roster, 0.05))
    run(experiment, RunFolder(tmp_path / "here"), backend=InlineBackend())
    here, there = RunFolder(tmp_path / "here").records(), RunFolder(tmp_path / "there").records()
    assert [replace(record, seconds={}) for record in here] == [replace(record, seconds={}) for record in there]


def test_what_a_client_does_and_what_is_done_here():
    federation = Federation.of(iris())
    setup, roster = federation.setup, Roster()
    backend = GridBackend(federation.grid, roster, 0.05)
    with pytest.raises(RuntimeError, match="open"):
        backend.run([FactTask(Loss(), 0, setup.params)])
    backend.open(setup.workload)
    del federation.grid.nodes[1000]  # client 0
    roster.names = ["0"]
    loss, gone, here = backend.run(
        [
            FactTask(Loss(), 1, setup.params),
            FactTask(Loss(), 0, setup.params),
            EvaluateTask(setup.params, "test", np.arange(5)),
        ]
    )
    inline = InlineBackend()
    inline.open(setup.workload)
    assert inline.run([FactTask(Loss(), 1, setup.params)]) == [loss]
    assert loss.shape == ()
    assert gone == Failure("not connected")
    assert here.confusion.sum() == 5
    backend.close()
