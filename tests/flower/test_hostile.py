"""Hostile clients: whatever they send, the model is as if they had not replied."""

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import json
from copy import deepcopy
from functools import cache
from io import BytesIO

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from tests.flower.fake import Federation, bits, iris, mute, start

from entrofed.facts import LabelCounts


def change(**parts):
    """A reply with other contents: ``arrays`` and ``metrics`` are functions of what was there."""

    def tamper(request, reply):
        content = reply.content
        if "arrays" in parts:
            held = {key: array.numpy() for key, array in content["arrays"].items()}
            content["arrays"] = ArrayRecord({key: as_array(v) for key, v in parts["arrays"](held).items()})
        if "metrics" in parts:
            content["metrics"] = parts["metrics"](dict(content["metrics"]))
        return [Message(content, reply_to=request)]

    return tamper


def as_array(values):
    return values if isinstance(values, Array) else Array(values)


def first(held, value):
    name = next(iter(held))
    return {**held, name: value(held[name])}


def raw(data, like):
    return Array(dtype="float32", shape=tuple(like.shape), stype="numpy.ndarray", data=data)


def npy(values):
    file = BytesIO()
    np.save(file, values, allow_pickle=True)
    return file.getvalue()


def promising(shape):
    """The header of an array that is not there."""
    file = BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return file.getvalue()


def zipped(values):
    file = BytesIO()
    np.savez(file, values)
    return file.getvalue()


def metrics(**numbers):
    return change(metrics=lambda old: MetricRecord({**old, **{key.replace("_", "-"): v for key, v in numbers.items()}}))


def no_metric(request, reply):
    del reply.content["metrics"]["num-examples"]
    return [reply]


def text_for_a_number(request, reply):
    content = reply.content
    del content["metrics"]
    content["metrics"] = ConfigRecord({"num-examples": "1000"})
    return [reply]


def in_anothers_name(request, reply):
    reply.content["entrofed.update"]["client"] = 0
    return [reply]


def renamed(request, reply):
    del reply.content["entrofed.update"]["client"]
    return [reply]


def terms(text):
    def tamper(request, reply):
        reply.content["entrofed.update"]["terms"] = text
        return [reply]

    return tamper


def extra(record, values):
    def tamper(request, reply):
        reply.content[record] = ArrayRecord({name: Array(value) for name, value in values.items()})
        return [reply]

    return tamper


def garbage(request, reply):
    return [Message(RecordDict(), reply_to=request)]


def large(request, reply):
    reply.content["more"] = ConfigRecord({"bytes": b"0" * 3_000_000})
    return [reply]


def failing(request, reply):
    return [Message(Error(2, "boom"), reply_to=request)]


HOSTILE = {
    "nan": change(arrays=lambda held: first(held, lambda a: np.full_like(a, np.nan))),
    "infinite": change(arrays=lambda held: first(held, lambda a: np.full_like(a, np.inf))),
    "shape": change(arrays=lambda held: first(held, lambda a: a.reshape(-1))),
    "dtype": change(arrays=lambda held: first(held, lambda a: a.astype(np.float64))),
    "byte order": change(arrays=lambda held: first(held, lambda a: a.astype(">f4"))),
    "missing key": change(arrays=lambda held: dict(list(held.items())[1:])),
    "extra key": change(arrays=lambda held: {**held, "more": np.zeros(3, np.float32)}),
    "no array": change(arrays=lambda held: first(held, lambda a: raw(b"nonsense", a))),
    "no bytes": change(arrays=lambda held: first(held, lambda a: raw(b"", a))),
    "cut off": change(arrays=lambda held: first(held, lambda a: raw(npy(a)[:-1], a))),
    "pickle": change(arrays=lambda held: first(held, lambda a: raw(npy(np.array([{}], object)), a))),
    "zip": change(arrays=lambda held: first(held, lambda a: raw(zipped(a), a))),
    "promise": change(arrays=lambda held: first(held, lambda a: raw(promising((10**12,)), a))),
    "promise below zero": change(arrays=lambda held: first(held, lambda a: raw(promising((-1, -4)), a))),
    "examples -1000": metrics(num_examples=-1000),
    "examples 0": metrics(num_examples=0),
    "examples 1e18": metrics(num_examples=10**18),
    "examples half": metrics(num_examples=10.5),
    "examples nan": metrics(num_examples=float("nan")),
    "examples list": metrics(num_examples=[10, 10]),
    "examples text": text_for_a_number,
    "examples missing": no_metric,
    "steps": metrics(num_steps=10**8),
    "steps below zero": metrics(num_steps=-1),
    "loss list": metrics(train_loss=[1.0]),
    "another's name": in_anothers_name,
    "no name": renamed,
    "terms no table": terms("[1, 2]"),
    "terms deep": terms("[" * 100_000),
    "terms huge": terms('{"a": 1' + "0" * 400 + "}"),
    "terms unknown": terms('{"a": 1.0}'),
    "memory of text": extra("entrofed.memory", {"a": np.array(["text"])}),
    "memory of long floats": extra("entrofed.memory", {"a": np.zeros(2, np.longdouble)}),
    "memory with a bad name": extra("entrofed.memory", {"__metadata__": np.zeros(2)}),
    "facts nobody asked for": extra("entrofed.facts", {"control_change": np.zeros(3)}),
    "empty": garbage,
    "large": large,
    "error": failing,
}


def outcome(hostile, method="fedavg", rounds=2, **options):
    """The final model where client 2 does as told when it trains."""
    federation = Federation.of(iris())
    if hostile is not None:
        federation.grid.named(2).tamper["train"] = hostile
    strategy, result = start(federation, method, rounds=rounds, **options)
    return strategy, bits(result.arrays)


@cache
def without(method):
    """The final model where client 2 never replies."""
    return outcome(mute, method)[1]


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "fednova"])
def test_it_matters_whether_client_2_replies(method):
    assert outcome(None, method)[1] != without(method)


@pytest.mark.parametrize("attack", HOSTILE)
def test_a_hostile_reply_changes_nothing(attack, tmp_path):
    strategy, found = outcome(HOSTILE[attack], folder=tmp_path)
    assert found == without("fedavg")
    assert [[entry["client"] for entry in record["refused"]] for record in strategy.records] == [[2], [2]]


def not_a_number(request, reply):
    facts = reply.content["entrofed.facts"]
    reply.content["entrofed.facts"] = ArrayRecord({key: Array(a.numpy() * np.nan) for key, a in facts.items()})
    return [reply]


@pytest.mark.parametrize("method", ["convex_hull", "minimax_sim"])
@pytest.mark.parametrize("attack", ["nan", "shape", "examples 1e18", "another's name"])
def test_a_hostile_first_update_changes_nothing(method, attack):
    """Everybody trains once before the first round, for the table of the selector."""
    strategy, found = outcome(HOSTILE[attack], method, cohort=3)
    assert (strategy.records[0]["cohort"], found) == seldom(method)


@cache
def seldom(method):
    strategy, found = outcome(mute, method, cohort=3)
    return strategy.records[0]["cohort"], found


FACTS = {
    ("scaffold", "missing"): extra("entrofed.facts", {}),
    ("scaffold", "shape"): extra("entrofed.facts", {"control_change": np.zeros(3, np.float32)}),
    ("scaffold", "nan"): not_a_number,
    ("fednova", "missing"): extra("entrofed.facts", {}),
    ("fednova", "shape"): extra("entrofed.facts", {"accumulated": np.ones(3)}),
    ("fednova", "huge"): extra("entrofed.facts", {"accumulated": np.array([1.0, 1e300])}),
    ("fednova", "text"): extra("entrofed.facts", {"accumulated": np.array(["a", "b"])}),
    ("reselection", "missing"): extra("entrofed.facts", {}),
    ("reselection", "shape"): extra("entrofed.facts", {"mean_prediction": np.ones(1)}),
    ("reselection", "negative"): extra("entrofed.facts", {"mean_prediction": np.array([-1.0, 1.0, 1.0])}),
    ("reselection", "nan"): extra("entrofed.facts", {"mean_prediction": np.full(3, np.nan)}),
}


@pytest.mark.parametrize("attack", FACTS, ids=" ".join)
def test_hostile_facts_change_nothing(attack):
    strategy, found = outcome(FACTS[attack], attack[0])
    assert found == without(attack[0])
    assert [[entry["client"] for entry in record["refused"]] for record in strategy.records] == [[2], [2]]


def test_a_second_reply_changes_nothing():
    federation = Federation.of(iris())
    twist = change(arrays=lambda held: first(held, lambda a: a + 1))
    federation.grid.named(2).tamper["train"] = lambda request, reply: [
        reply,
        *twist(request, Message(deepcopy(reply.content), reply_to=request)),
    ]
    assert bits(start(federation)[1].arrays) == outcome(None)[1]


def test_a_reply_of_before_changes_nothing():
    """What was said in the first round is said again in the second, in place of a reply and besides it."""
    federation, said = Federation.of(iris()), []

    def again(request, reply):
        said.append(reply)
        federation.grid.strays = [said[0]]
        return [said[0]]

    federation.grid.named(2).tamper["train"] = again
    strategy, _ = start(federation)
    assert strategy.records[0]["refused"] == []
    assert [entry["client"] for entry in strategy.records[1]["refused"]] == [2]


def test_a_reply_of_nobody_asked_changes_nothing(caplog):
    """Node 9 was not asked, and says it was."""
    federation = Federation.of(iris())
    request = Message(RecordDict(), dst_node_id=9, message_type="train")
    request.metadata.__dict__["_message_id"] = "message-of-nobody"
    stray = Message(RecordDict({"arrays": federation.arrays}), reply_to=request)
    federation.grid.before_train = lambda grid: grid.strays.append(stray)
    assert bits(start(federation)[1].arrays) == outcome(None)[1]


def test_replies_that_a_caller_hands_over_are_sifted(caplog):
    """Flower's own loop, or another's, gives replies to aggregate_train as they are."""
    federation = Federation.of(iris())
    strategy, _ = start(federation, rounds=1)
    again, _ = start(federation, rounds=1)
    messages = list(strategy.configure_train(2, federation.arrays, ConfigRecord(), federation.grid))
    replies = list(federation.grid.send_and_receive(messages))
    list(again.configure_train(2, federation.arrays, ConfigRecord(), federation.grid))
    arrays, _ = strategy.aggregate_train(2, [*replies, *replies])
    assert strategy.records[-1]["refused"] == []
    assert "nobody asked for" in caplog.text
    assert bits(arrays) == outcome(None)[1]
    assert again.aggregate_train(2, replies) == (None, None)


COUNTS = {
    "negative": [-1, 5, 5],
    "huge": [1e18, 0, 0],
    "wrong length": [5, 5],
    "not a number": [float("nan"), 1, 1],
    "infinite": [float("inf"), 1, 1],
    "none": [0, 0, 0],
    "nested": [[1, 2, 3]],
    "ragged": [[1], 2, 3],
    "text": ["many", "few", "none"],
    "numbers as text": ["6", "7", "5"],
    "true and false": [True, False, True],
    "a sum beyond floats": [1e308, 1e308, 1e308],
    "no list": 7,
    "a table": {"0": 1},
    "beyond floats": [10**400, 1, 1],
}
MIXTURES = {
    **{name: row for name, row in COUNTS.items() if name != "huge"},
    "too short": [10.0, 1.0],
    "negative size": [-5.0, 1.0, 1.0, 1.0],
    "weights above one": [5.0, 3.0, 1.0, 1.0],
    "no variance": [5.0, 1.0, 1.0, 0.0],
    "mean of no label": [5.0, 1.0, 77.0, 1.0],
    "size": [1e12, 1.0, 1.0, 1.0],
}


def says(answer):
    def tamper(request, reply):
        if json.loads(request.content["config"]["ask"])["what"] == "hello":
            return [reply]
        content = answer if isinstance(answer, RecordDict) else RecordDict({"config": ConfigRecord({"answer": answer})})
        return [Message(content, reply_to=request)]

    return tamper


def quiet(request, reply):
    return [reply] if json.loads(request.content["config"]["ask"])["what"] == "hello" else []


def told(tamper, method):
    federation = Federation.of(iris())
    federation.grid.named(2).tamper["query"] = tamper
    strategy, result = start(federation, method)
    assert all(2 not in record["cohort"] for record in strategy.records)
    return bits(result.arrays)


@cache
def untold(method):
    """The final model where client 2 tells nothing of its labels."""
    return told(quiet, method)


@pytest.mark.parametrize(
    ("method", "lie"),
    [("fedentopt", lie) for lie in COUNTS] + [("fedep", lie) for lie in MIXTURES],
)
def test_a_lie_about_labels_is_as_if_nothing_was_said(method, lie):
    lies = json.dumps({"value": (COUNTS if method == "fedentopt" else MIXTURES)[lie]})
    assert told(says(lies), method) == untold(method)


def test_a_fact_that_cannot_say_what_is_wrong_with_it(monkeypatch):
    """A check that fails on what one client tells hinders nobody else."""
    check = LabelCounts.problem

    def problem(self, value, classes):
        return check(self, value, classes) if value[0] else 1 / 0

    monkeypatch.setattr(LabelCounts, "problem", problem)
    assert told(says('{"value": [0, 5, 5]}'), "fedentopt") == untold("fedentopt")


@pytest.mark.parametrize("answer", ["no json", "[" * 100_000, "7", "{}", RecordDict()])
def test_an_answer_that_is_none_is_as_if_nothing_was_said(answer):
    assert told(says(answer), "fedentopt") == untold("fedentopt")


@pytest.mark.parametrize("loss", ["NaN", "Infinity", '"9"', "null", "[9]", "true", "1" + "0" * 400])
def test_a_loss_that_is_no_number_is_as_if_nothing_was_said(loss):
    def cohorts(tamper):
        federation = Federation.of(iris())
        federation.grid.named(2).tamper["query"] = tamper
        strategy, result = start(federation, "power_of_choice", cohort=2)
        return [record["cohort"] for record in strategy.records], bits(result.arrays)

    assert cohorts(says(f'{{"value": {loss}}}')) == cohorts(quiet)


@pytest.mark.parametrize("tamper", [quiet, says('{"value": [-1, 5, 5]}'), says("no json")])
def test_a_liar_that_is_alone_at_first_does_not_end_the_run(tamper):
    federation = Federation.of(iris())
    grid, everybody = federation.grid, dict(federation.grid.nodes)
    liar = grid.named(2)
    liar.tamper["query"] = tamper
    grid.nodes = {node: here for node, here in everybody.items() if here is liar}

    def evaluate(number, arrays):
        grid.nodes = everybody if number else grid.nodes

    strategy, _ = start(federation, "fedentopt", rounds=3, evaluate_fn=evaluate)
    assert [len(record["clients"]) for record in strategy.records] == [0, 4, 4]


def test_a_liar_among_the_slow_does_not_end_the_run():
    federation = Federation.of(iris())
    for node in federation.grid.nodes.values():
        node.tamper["query"] = quiet
    federation.grid.named(2).tamper["query"] = says("no json")
    strategy, _ = start(federation, "fedentopt")
    assert [record["skipped"] for record in strategy.records] == [True, True]
