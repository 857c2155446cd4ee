"""The client side: what leaves it, and apps of others that answer our questions."""

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import json
import logging

import numpy as np
import torch
from flwr.app import ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from tests.flower.fake import FakeGrid, Federation, iris

from entrofed.core.tasks import TrainTask
from entrofed.core.types import Training
from entrofed.errors import ConfigError, DataError
from entrofed.facts import LabelMixture
from entrofed.flower import LocalData, Task, answering, client_app
from entrofed.flower.answers import client_name, default_store
from entrofed.flower.arrays import Format
from entrofed.flower.client import released_counts
from entrofed.flower.wire import write_task
from entrofed.methods import METHODS

LABELS = [0, 0, 1, 2, 2, 2]
COUNTS = {"what": "fact", "fact": {"name": "label_counts"}}
MIXTURE = {"what": "fact", "fact": {"name": "label_mixture"}}


def put(app, question, **config):
    """Ask an app something; its answer."""
    grid = FakeGrid()
    node = grid.join(app, 5, **config)
    record = RecordDict({"config": ConfigRecord({"ask": json.dumps(question)})})
    message = Message(record, dst_node_id=5, message_type="query.entrofed")
    return json.loads(node.app(message, node.context).content["config"]["answer"])


def decorated():
    app = ClientApp()

    @app.train()
    def train(message, context):
        return Message(RecordDict({"by": ConfigRecord({"who": "theirs"})}), reply_to=message)

    @app.query("label_counts")
    def query(message, context):
        return Message(RecordDict({"by": ConfigRecord({"who": "theirs"})}), reply_to=message)

    return app


def legacy():
    class Client(NumPyClient):
        def get_properties(self, config):
            return {"who": "theirs"}

    return ClientApp(client_fn=lambda context: Client().to_client())


def test_a_device_that_is_not_here_is_refused_when_the_app_is_made():
    task = Task(build=lambda: torch.nn.Linear(4, 3), load=lambda context: None)
    with pytest.raises(ConfigError, match="there is none on this machine"):
        client_app(task, device="cuda:99")


# ----- label counts


def test_counts_without_noise_leave_no_trace(tmp_path):
    assert released_counts(LABELS, 4, "a", None, tmp_path / "store") == {"counts": [2, 1, 3, 0], "spent": None}
    assert not (tmp_path / "store").exists()


def test_noise_is_drawn_once(tmp_path):
    first = released_counts(LABELS, 4, "a", 0.5, tmp_path)
    assert first["counts"] != [2, 1, 3, 0]
    assert all(count >= 0 for count in first["counts"])
    assert (first["spent"]["epsilon"], first["spent"]["mechanism"]) == (0.5, "Laplace (OpenDP)")
    assert released_counts(LABELS, 4, "a", 0.5, tmp_path) == first
    assert released_counts(LABELS, 4, "b", 0.5, tmp_path)["counts"] != first["counts"]


def test_names_that_look_alike_have_files_of_their_own(tmp_path):
    assert len({str(released_counts(LABELS, 4, name, 0.5, tmp_path)) for name in ("a/b", "a b", "../a-b")}) == 3
    assert len(list(tmp_path.glob("*.json"))) == 3


@pytest.mark.parametrize(("labels", "epsilon"), [([0, 1], 0.5), (LABELS, 5.0)])
def test_what_was_released_stays(labels, epsilon, tmp_path, caplog):
    """More data, or a larger budget: to draw again would spend again."""
    first = released_counts(LABELS, 4, "a", 0.5, tmp_path)
    with caplog.at_level(logging.WARNING, logger="entrofed"):
        assert released_counts(labels, 4, "a", epsilon, tmp_path) == first
    assert "what was released stays" in caplog.text


def test_other_classes_need_another_store(tmp_path):
    released_counts(LABELS, 4, "a", 0.5, tmp_path)
    with pytest.raises(DataError, match="take another store"):
        released_counts(LABELS, 3, "a", 0.5, tmp_path)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"counts": 3, "digest": "", "spent": {}}', "\xff"])
def test_a_damaged_store_is_not_drawn_over(content, tmp_path):
    released_counts(LABELS, 4, "a", 0.5, tmp_path)
    (path,) = tmp_path.glob("*.json")
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(DataError, match="spends again"):
        released_counts(LABELS, 4, "a", 0.5, tmp_path)


@pytest.mark.parametrize("labels", [[0, 4], [-1], [0.5], [[0, 1]], ["a"]])
@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_labels_that_cannot_be(labels, epsilon, tmp_path):
    with pytest.raises(DataError, match="from 0 to 3"):
        released_counts(labels, 4, "a", epsilon, tmp_path)


def test_no_labels_at_all(tmp_path):
    assert released_counts([], 3, "a", None, tmp_path)["counts"] == [0, 0, 0]


def test_where_it_is_remembered(monkeypatch, tmp_path):
    monkeypatch.setenv("ENTROFED_CLIENT_STORE", str(tmp_path / "own"))
    assert default_store() == tmp_path / "own"
    monkeypatch.delenv("ENTROFED_CLIENT_STORE")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_store() == tmp_path / "entrofed" / "clients"


@pytest.mark.parametrize(
    ("config", "name"),
    [({"name": "ward", "partition-id": 3}, "ward"), ({"partition-id": 3}, "3"), ({}, "node-5")],
)
def test_names(config, name):
    assert client_name(FakeGrid().join(decorated(), 5, **config).context) == name


# ----- apps of others


@pytest.mark.parametrize("make", [decorated, legacy])
def test_an_app_of_anybody_answers(make, tmp_path):
    app = answering(make(), labels=lambda context: LABELS, classes=4)
    assert put(app, {"what": "hello"}, name="ward") == {"name": "ward"}
    assert put(app, COUNTS) == {"value": [2, 1, 3, 0], "spent": None}
    mixture = put(app, MIXTURE)["value"]
    assert mixture == LabelMixture().of_counts(np.array([2.0, 1.0, 3.0, 0.0])).tolist()
    assert mixture[0] == 6
    with pytest.raises(ConfigError, match=r"does not tell 'loss'; build it with entrofed\.flower\.client_app"):
        put(app, {"what": "fact", "fact": {"name": "loss"}})
    with pytest.raises(ConfigError, match="does not answer 'counts'"):
        put(app, {"what": "counts"})


def test_noise_is_the_same_whatever_is_asked_and_after_a_restart(tmp_path):
    def fresh():
        return answering(decorated(), labels=lambda context: LABELS, classes=4, epsilon=0.5, store=tmp_path)

    noised = put(fresh(), COUNTS)
    assert noised["spent"]["epsilon"] == 0.5
    mixture = {"value": LabelMixture().of_counts(np.array(noised["value"])).tolist(), "spent": noised["spent"]}
    assert put(fresh(), MIXTURE) == mixture
    assert put(fresh(), COUNTS) == noised


def test_what_is_theirs_stays_theirs():
    app = answering(decorated(), labels=lambda context: LABELS, classes=4)
    grid = FakeGrid()
    node = grid.join(app, 5)
    for kind in ("train", "query.label_counts"):
        reply = node.app(Message(RecordDict(), dst_node_id=5, message_type=kind), node.context)
        assert reply.content["by"]["who"] == "theirs"
    with pytest.raises(ValueError, match="No evaluate function"):
        node.app(Message(RecordDict(), dst_node_id=5, message_type="evaluate"), node.context)


def test_functions_may_be_added_before_and_after():
    app = answering(ClientApp(), labels=lambda context: LABELS, classes=4)

    @app.train()
    def train(message, context):
        return Message(RecordDict({"by": ConfigRecord({"who": "theirs"})}), reply_to=message)

    node = FakeGrid().join(app, 5)
    assert "by" in node.app(Message(RecordDict(), dst_node_id=5, message_type="train"), node.context).content
    assert put(app, COUNTS)["value"] == [2, 1, 3, 0]


@pytest.mark.parametrize("epsilon", [0, -1.0, float("inf"), float("nan")])
def test_a_budget_that_cannot_be_is_refused_at_once(epsilon):
    with pytest.raises(ConfigError, match="epsilon"):
        answering(decorated(), labels=lambda context: LABELS, classes=4, epsilon=epsilon)


# ----- our app


def test_who_it_is_can_be_said_without_loading_data():
    def load(context):
        raise AssertionError("loaded")

    app = client_app(Task(lambda: torch.nn.Linear(2, 2), load))
    assert put(app, {"what": "hello"}, **{"partition-id": 4}) == {"name": "4"}


def test_our_app_noises_its_counts(tmp_path):
    federation = Federation.of(iris(), epsilon=1.0, store=tmp_path)
    app = federation.grid.named(0).app
    noised = put(app, COUNTS, **{"partition-id": 0})
    assert noised == put(app, COUNTS, **{"partition-id": 0})
    assert noised["value"] != federation.setup.federation.label_counts[0].tolist()


def train(app, content):
    node = FakeGrid().join(app, 5, **{"partition-id": 0})
    return node.app(Message(content, dst_node_id=5, message_type="train"), node.context)


def test_it_trains_for_our_strategy_only():
    federation = Federation.of(iris())
    content = RecordDict({"arrays": federation.arrays, "config": ConfigRecord({"lr": 0.1})})
    with pytest.raises(ConfigError, match="EntroStrategy"):
        train(federation.grid.named(0).app, content)


def task_for(method, params):
    training = Training(1, 16, "sgd", 0.1, 0.0, 0.0, False, ())
    return TrainTask(client=0, round=0, seed=0, params=params, objective=METHODS[method]().objective, training=training)


def test_a_model_that_the_objective_cannot_train():
    module = torch.nn.Linear(4, 3)
    data = LocalData(
        np.zeros((4, 4), np.float32), np.zeros(4, np.int64), np.zeros((0, 4), np.float32), np.zeros(0, np.int64), 3
    )
    app = client_app(Task(lambda: module, lambda context: data))
    form = Format.of(ArrayRecord(module.state_dict()))
    task = task_for("moon", form.read(ArrayRecord(module.state_dict())))
    with pytest.raises(ConfigError, match="represent"):
        train(app, write_task(task, form, ConfigRecord()))
    node = FakeGrid().join(app, 5)
    content = RecordDict({"arrays": ArrayRecord(module.state_dict()), "config": ConfigRecord()})
    with pytest.raises(DataError, match="no test data"):
        node.app(Message(content, dst_node_id=5, message_type="evaluate"), node.context)


def test_a_model_of_another_shape_is_refused():
    federation, other = Federation.of(iris()), torch.nn.Linear(2, 2)
    arrays = ArrayRecord(other.state_dict())
    form = Format.of(arrays)
    task = task_for("fedavg", form.read(arrays))
    with pytest.raises(DataError, match="other arrays than the model's"):
        train(federation.grid.named(0).app, write_task(task, form, ConfigRecord()))
