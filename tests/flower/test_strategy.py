"""Our methods as a Flower strategy: as in the simulator, whatever clients do."""

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import json

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, Message, MetricRecord, RecordDict
from flwr.client import NumPyClient
from flwr.clientapp import ClientApp
from flwr.serverapp.strategy.strategy_utils import aggregate_arrayrecords
from tests.core.test_rules import Bright, Brightness
from tests.flower.fake import TRAINING, FakeGrid, Federation, bits, digits, iris, mute, start

from entrofed.backends.inline import InlineBackend
from entrofed.errors import CheckpointError, ConfigError, QuorumError
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import ClientStateStore
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.flower import EntroStrategy, answering
from entrofed.registry import OURS, known

# ----- the same as in the simulator

METHODS = [
    "fedavg",
    "fedentopt",
    "fedprox",
    "moon",
    "fedrs",
    "fedlc",
    "scaffold",
    "fednova",
    "fedep",
    "power_of_choice",
    "convex_hull",
    "minimax_sim",
    "fedadam",
    "median",
    "inv_entropy",
    "kl",
    "max_entropy",
    "reselection",
    "fedasl",
    "fedentopt_estimated",
    "divfl",
    "fedcor",
]


@pytest.mark.parametrize("method", METHODS)
def test_as_in_the_simulator(method, tmp_path):
    options = {"cohort": 6} if method == "fedep" else {}
    experiment = digits(method, **options)
    run(experiment, RunFolder(tmp_path), backend=InlineBackend())
    here = [record.to_json() for record in RunFolder(tmp_path).records()]
    federation = Federation.of(experiment)
    strategy, result = start(
        federation, method, rounds=3, seed=5, cohort=experiment.method.cohort, predict=federation.predict
    )
    there = [json.loads(json.dumps(record)) for record in strategy.records]
    for one, two in zip(here, there, strict=True):
        for key in ("round", "lr", "available", "cohort", "reasons", "clients", "refused", "skipped", "bytes_up"):
            assert one[key] == two[key], key
        assert two["names"] == [str(client) for client in one["cohort"]]
    store = ClientStateStore(tmp_path / "memory", 0)
    state, _ = Checkpoints(tmp_path / "checkpoints", federation.setup.layout, store).last()
    for name, tensor in federation.setup.layout.split(state.params).items():
        np.testing.assert_array_equal(tensor, result.arrays[name].numpy())


def test_the_average_is_flowers():
    """The same replies, averaged by Flower's own function."""
    federation, contents = Federation.of(iris()), []
    for node in federation.grid.nodes.values():
        node.tamper["train"] = lambda request, reply: contents.append(reply.content) or [reply]
    _, result = start(federation, rounds=1)
    for content in contents:  # Flower takes replies with one record of arrays and one of metrics
        for name in [name for name in content if name.startswith("entrofed.")]:
            del content[name]
    theirs = aggregate_arrayrecords(contents, "num-examples")
    assert len(contents) == 5
    for name, array in theirs.items():
        np.testing.assert_allclose(result.arrays[name].numpy(), array.numpy(), rtol=1e-6, atol=1e-7)


# ----- deadlines, quorum, who is there


def test_below_the_quorum_the_model_stays_until_patience_ends():
    federation = Federation.of(iris())
    for node in federation.grid.nodes.values():
        node.tamper["train"] = mute
    words = r"2 rounds in a row had fewer than 1 usable updates \(method.quorum\); in the last: "
    with pytest.raises(QuorumError, match=words):
        start(federation, rounds=9, max_skipped=2)
    strategy, result = start(federation, rounds=2, max_skipped=3)
    assert bits(result.arrays) == bits(federation.arrays)
    assert [record["skipped"] for record in strategy.records] == [True, True]
    assert {entry["reason"] for entry in strategy.records[0]["refused"]} == {"no reply before the deadline"}


def test_nobody_there_at_all():
    federation = Federation.of(iris())
    federation.grid.nodes.clear()
    with pytest.raises(QuorumError, match="5 rounds in a row"):
        start(federation, rounds=9)


@pytest.mark.parametrize("method", ["fedavg", "scaffold", "convex_hull", "fedentopt"])
def test_nobody_there_at_first(method, tmp_path):
    """They come in the second round, which is then played as the first."""
    federation, seen = Federation.of(iris()), []
    late, federation.grid.nodes = federation.grid.nodes, {}

    def evaluate(number, arrays):
        seen.append(number)
        federation.grid.nodes = {} if number == 0 else late

    strategy, _ = start(federation, method, rounds=3, evaluate_fn=evaluate, folder=tmp_path)
    assert [record["skipped"] for record in strategy.records] == [True, False, False]
    assert [set(record) for record in strategy.records[1:]] == [set(strategy.records[0])] * 2
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [{key: value for key, value in line.items() if key != "digest"} for line in lines] == strategy.records
    assert seen == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "method",
    [
        "scaffold",
        "convex_hull",
        "minimax_sim",
        "fedentopt",
        "fedep",
        "moon",
        "fedadam",
        "fedentopt_estimated",
        "hics",
        "fedcor",
        "clustered_similarity",
        "fedcbs",
        "oort",
        "stratified",
    ],
)
def test_somebody_comes_late_and_somebody_goes(method):
    federation = Federation.of(iris())
    grid, everybody = federation.grid, dict(federation.grid.nodes)
    first, *_, last = everybody
    del grid.nodes[last]

    def evaluate(number, arrays):
        grid.nodes = {node: here for node, here in everybody.items() if number < 1 or node != first}

    strategy, _ = start(federation, method, rounds=3, evaluate_fn=evaluate)
    assert [sorted(record["names"]) for record in strategy.records] == [
        ["0", "1", "2", "3", "4"],
        ["1", "2", "3", "4"],
        ["1", "2", "3", "4"],
    ] or method in ("convex_hull", "minimax_sim")
    assert all(not record["refused"] for record in strategy.records)


def test_who_comes_late_does_not_change_the_numbers_of_others():
    federation = Federation.of(iris())
    grid, everybody = federation.grid, dict(federation.grid.nodes)
    del grid.nodes[1000]  # client 0

    def evaluate(number, arrays):
        grid.nodes = everybody if number else grid.nodes

    strategy, _ = start(federation, evaluate_fn=evaluate)
    assert strategy.play.roster.names == ["1", "2", "3", "4", "0"]
    assert [sorted(record["cohort"]) for record in strategy.records] == [[0, 1, 2, 3], [0, 1, 2, 3, 4]]


def test_fewer_than_wanted_are_played_with_after_a_while():
    federation = Federation.of(iris())
    strategy, _ = start(federation, nodes=50, wait=0.03)
    assert [len(record["clients"]) for record in strategy.records] == [5, 5]


def test_it_waits_for_as_many_as_wanted():
    federation = Federation.of(iris())
    grid, everybody = federation.grid, list(federation.grid.nodes.items())
    grid.nodes = {}
    ids = grid.get_node_ids

    def one_more():
        if everybody:
            grid.nodes.update([everybody.pop()])
        return ids()

    grid.get_node_ids = one_more
    strategy, result = start(federation, nodes=5, wait=0.5, rounds=1)
    assert [len(record["clients"]) for record in strategy.records] == [5]
    assert strategy.records[0]["names"] == start(Federation.of(iris()), rounds=1)[0].records[0]["names"]
    assert bits(result.arrays) == bits(start(Federation.of(iris()), rounds=1)[1].arrays)


def test_a_node_that_goes_after_it_was_chosen():
    federation = Federation.of(iris())
    federation.grid.before_train = lambda grid: grid.nodes.pop(1000, None)  # client 0
    strategy, _ = start(federation)
    assert strategy.records[0]["refused"] == [{"client": 0, "reason": "error 3: Unknown node"}]
    assert strategy.records[1]["available"] == 4


def test_who_tells_nothing_of_its_labels_is_never_chosen():
    federation = Federation.of(iris())
    app = ClientApp()

    @app.train()
    def train(message, context):
        raise AssertionError("never asked")

    federation.grid.join(app, 5)
    strategy, _ = start(federation, "fedentopt")
    assert [sorted(record["names"]) for record in strategy.records] == [["0", "1", "2", "3", "4"]] * 2
    assert strategy.play.roster.names == ["0", "1", "2", "3", "4", "node-5"]


def test_node_ids_do_not_matter():
    one, two = start(Federation.of(iris()), cohort=2)[0], start(Federation.of(iris(), shift=12345), cohort=2)[0]
    assert [record["names"] for record in one.records] == [record["names"] for record in two.records]
    assert bits(one.play.form.write(one.play.state.params)) == bits(two.play.form.write(two.play.state.params))


# ----- resuming


@pytest.mark.parametrize(
    "method", ["fedavg", "scaffold", "fedentopt", "moon", "fedadam", "minimax_sim", "fedep", "stratified"]
)
def test_resumed_is_as_unbroken(method, tmp_path):
    """The ServerApp stops after two rounds and starts again; the nodes have other ids."""
    options = {"cohort": 3, "persist_optimizer": method == "fedavg"}
    whole, unbroken = start(Federation.of(iris()), method, rounds=4, **options)
    start(Federation.of(iris()), method, rounds=2, folder=tmp_path, **options)
    evaluated = []
    again, resumed = start(
        Federation.of(iris(), shift=500),
        method,
        rounds=4,
        folder=str(tmp_path),
        evaluate_fn=lambda number, arrays: evaluated.append(number),
        **options,
    )
    assert bits(resumed.arrays) == bits(unbroken.arrays)
    assert sorted(resumed.train_metrics_clientapp) == [3, 4]
    assert evaluated == [2, 3, 4]
    for one, two in zip(whole.records, again.records, strict=True):
        assert {**json.loads(json.dumps(one)), "seconds": 0} == {**json.loads(json.dumps(two)), "seconds": 0}
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["round"] for line in lines] == [0, 1, 2, 3]


def test_killed_within_a_round(tmp_path):
    """Half a line of records is there, and the checkpoint of the round is not."""
    _, unbroken = start(Federation.of(iris()), rounds=3)
    start(Federation.of(iris()), rounds=2, folder=tmp_path)
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"round": 2, "coh')
    (tmp_path / "checkpoints" / "round-000002.json").write_text("{}")
    strategy, resumed = start(Federation.of(iris()), rounds=3, folder=tmp_path)
    assert bits(resumed.arrays) == bits(unbroken.arrays)
    assert [record["round"] for record in strategy.records] == [0, 1, 2]


OLD_CLIENTS = {
    "counts": ("fedentopt", {}, []),
    "mixtures": ("fedep", {}, []),
    "both": ("fedentopt", {"weigher": "pooled_kl"}, ["label_mixture"] * 5),
}


@pytest.mark.parametrize("case", OLD_CLIENTS)
def test_a_folder_of_version_0_1(case, tmp_path):
    """What clients told was kept without the name of the fact: the counts, if the method works with them."""
    method, options, asked_again = OLD_CLIENTS[case]
    _, unbroken = start(Federation.of(iris()), method, rounds=4, cohort=3, **options)
    start(Federation.of(iris()), method, rounds=2, cohort=3, folder=tmp_path, **options)
    kept = json.loads((tmp_path / "clients.json").read_text())
    old = {"names": kept["names"], "told": next(iter(kept["told"].values()))}
    assert old["told"].keys() == {"0", "1", "2", "3", "4"}
    (tmp_path / "clients.json").write_text(json.dumps(old))
    (tmp_path / "manifest.json").unlink()
    federation = Federation.of(iris())
    _, resumed = start(federation, method, rounds=4, cohort=3, folder=tmp_path, **options)
    assert bits(resumed.arrays) == bits(unbroken.arrays)
    questions = [json.loads(message.content["config"]["ask"]) for _, message in federation.grid.sent("query")]
    assert [question["fact"]["name"] for question in questions if question["what"] == "fact"] == asked_again
    assert json.loads((tmp_path / "clients.json").read_text()) == kept


def test_a_finished_run_is_not_played_again(tmp_path):
    federation = Federation.of(iris())
    _, result = start(federation, folder=tmp_path)
    before = len(federation.grid.log)
    _, again = start(federation, folder=tmp_path)
    assert bits(again.arrays) == bits(result.arrays)
    assert len(federation.grid.log) == before


def test_a_folder_of_an_earlier_version_is_known_again(tmp_path):
    """It knows nothing of options that came later."""
    _, unbroken = start(Federation.of(iris()), rounds=2)
    start(Federation.of(iris()), folder=tmp_path, rounds=1)
    path = tmp_path / "strategy.json"
    kept = json.loads(path.read_text())
    for option in ("nesterov", "schedule", "clip_gradients"):
        del kept["method"][option]
    path.write_text(json.dumps(kept))
    (tmp_path / "manifest.json").unlink()
    _, resumed = start(Federation.of(iris()), folder=tmp_path, rounds=2)
    assert bits(resumed.arrays) == bits(unbroken.arrays)


@pytest.mark.parametrize(("option", "value"), [("seed", 1), ("lr", 0.2), ("method", "fedprox"), ("classes", 4)])
def test_another_run_in_the_same_folder_is_refused(option, value, tmp_path):
    start(Federation.of(iris()), folder=tmp_path, rounds=1)
    with pytest.raises(ConfigError, match=r"another run lies here; changed: .*Take another folder"):
        start(Federation.of(iris()), **{"folder": tmp_path, option: value})


def test_another_model_in_the_same_folder_is_refused(tmp_path):
    start(Federation.of(iris()), folder=tmp_path, rounds=1)
    with pytest.raises(ConfigError, match="changed: model"):
        start(Federation.of(digits("fedavg")), folder=tmp_path, classes=3)


def test_two_at_once_in_a_folder(tmp_path):
    with RunFolder(tmp_path).claimed(), pytest.raises(ConfigError, match="another process"):
        start(Federation.of(iris()), folder=tmp_path)


@pytest.mark.parametrize("damage", ["clients.json", "checkpoints", "strategy.json"])
def test_a_damaged_folder(damage, tmp_path):
    start(Federation.of(iris()), folder=tmp_path, rounds=3)
    for path in [tmp_path / damage] if damage.endswith("json") else (tmp_path / damage).glob("*.safetensors"):
        path.write_bytes(b"nothing")
    records = (tmp_path / "metrics.jsonl").read_text()
    with pytest.raises(CheckpointError, match="take another folder"):
        start(Federation.of(iris()), folder=tmp_path, rounds=4)
    assert (tmp_path / "metrics.jsonl").read_text() == records
    assert len(records.splitlines()) == 3


def test_one_flipped_digit_in_what_clients_told(tmp_path):
    """Another count was believed, and other clients were chosen."""
    start(Federation.of(iris()), "fedentopt", folder=tmp_path, rounds=1)
    path = tmp_path / "clients.json"
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b".0,", b".5,", 1))
    with pytest.raises(CheckpointError, match=r"clients.json: damaged or edited.*take another folder"):
        start(Federation.of(iris()), "fedentopt", folder=tmp_path, rounds=2)


# ----- clients of others


def plain_app(setup, seen=None, **numbers):
    """A Flower app as anybody writes it: one that adds 1, on ten examples."""
    app = ClientApp()

    @app.train()
    def train(message, context):
        if seen is not None:
            seen.append(message.content["config"])
        held = {key: array.numpy() for key, array in message.content["arrays"].items()}
        arrays = {key: Array(np.array(values + 1, values.dtype)) for key, values in held.items()}
        numbers_sent = MetricRecord({"num-examples": 10, **numbers})
        return Message(RecordDict({"model": ArrayRecord(arrays), "numbers": numbers_sent}), reply_to=message)

    return app


def federation_of_others(wrap=lambda app: app, **options):
    federation = Federation.of(iris())
    app = wrap(plain_app(federation.setup, **options))
    for node in federation.grid.nodes.values():
        node.app = app
    return federation


def labelled(app):
    return answering(app, labels=lambda context: [0, 0, int(context.node_config["partition-id"]) % 3], classes=3)


@pytest.mark.parametrize("method", ["fedavg", "fedentopt", "fedep", "convex_hull", "fedadam", "median", "krum"])
def test_any_client_that_tells_its_labels_will_do(method):
    strategy, result = start(federation_of_others(labelled), method, cohort=3)
    assert all(not record["refused"] for record in strategy.records)
    assert len(result.train_metrics_clientapp) == 2


@pytest.mark.parametrize("fit", ["fine", "short", "raises"])
def test_clients_of_the_older_style(fit):
    """NumPyClients that add 1, on ten examples; they see the model's arrays in their order."""

    class Client(NumPyClient):
        def fit(self, parameters, config):
            if fit == "raises":
                raise ValueError("boom")
            assert config["temperature"] == 0.5
            return [values + 1 for values in parameters][fit == "short" :], 10, {"train_loss": 0.25, "note": "text"}

        def evaluate(self, parameters, config):
            return 0.5, 4, {"accuracy": 0.75}

    app = ClientApp(client_fn=lambda context: Client().to_client())
    federation = federation_of_others(lambda _: labelled(app))
    config = ConfigRecord({"temperature": 0.5})
    strategy, result = start(federation, "fedentopt", train_config=config, fraction_evaluate=1.0)
    if fit != "fine":
        words = "arrays, the model has" if fit == "short" else "boom"
        assert all(words in entry["reason"] for record in strategy.records for entry in record["refused"])
        assert bits(result.arrays) == bits(federation.arrays)
        return
    for name, array in federation.arrays.items():
        np.testing.assert_allclose(result.arrays[name].numpy(), array.numpy() + 2, rtol=1e-6)
    assert result.train_metrics_clientapp[1]["train-loss"] == 0.25
    assert dict(result.evaluate_metrics_clientapp[1]) == {"accuracy": 0.75, "loss": 0.5}


@pytest.mark.parametrize("method", ["fedprox", "moon", "fedrs", "fedlc", "scaffold", "fednova", "reselection", "kl"])
def test_a_method_that_needs_our_clients_says_so_at_once(method):
    federation = federation_of_others(labelled)
    with pytest.raises(ConfigError, match=f"method '{method}' asks more of clients .* none of \\d+ can do it"):
        start(federation, method, rounds=9)
    assert len(federation.grid.sent("train")) <= 10


def test_where_some_clients_can_do_it_the_others_are_refused():
    federation, others = Federation.of(iris()), federation_of_others(labelled)
    for node, other in zip(list(federation.grid.nodes.values())[:2], others.grid.nodes.values(), strict=False):
        node.app = other.app
    strategy, _ = start(federation, "scaffold", rounds=1)
    assert len(strategy.records[0]["clients"]) == 3
    assert {entry["reason"] for entry in strategy.records[0]["refused"]} == {
        "this method needs clients that are built with entrofed.flower.client_app"
    }


def test_clients_that_tell_nothing_where_labels_are_needed():
    with pytest.raises(ConfigError, match=r"none of 5 clients tells .* entrofed.flower.answering"):
        start(federation_of_others(), "fedentopt")


def test_clients_that_are_only_slow_to_tell_are_waited_for():
    federation = Federation.of(iris())
    for node in federation.grid.nodes.values():
        node.tamper["query"] = lambda request, reply: (
            [] if "label_counts" in request.content["config"]["ask"] else [reply]
        )
    with pytest.raises(QuorumError):
        start(federation, "fedentopt", rounds=9)


def test_without_names_clients_are_called_by_their_nodes():
    strategy, _ = start(federation_of_others())
    assert strategy.play.roster.names == [f"node-{node}" for node in (1000, 972, 979, 986, 993)]


def test_the_configuration_reaches_the_clients():
    seen = []
    start(federation_of_others(seen=seen), train_config=ConfigRecord({"temperature": 0.5}), rounds=2)
    assert {(config["temperature"], config["server-round"]) for config in seen} == {(0.5, 1), (0.5, 2)}


def test_their_losses_are_shown_if_they_send_any():
    _, result = start(federation_of_others(train_loss=0.25))
    assert result.train_metrics_clientapp[1]["train-loss"] == 0.25
    _, result = start(federation_of_others())
    assert dict(result.train_metrics_clientapp[1]) == {"clients": 5, "refused": 0}


def test_a_model_with_batch_norm_that_is_known_by_its_arrays():
    """Counters take the maximum, the rest is averaged."""
    federation = federation_of_others()
    federation.arrays = ArrayRecord(
        {
            "0.weight": Array(np.ones((2, 2), np.float32)),
            "1.running_mean": Array(np.zeros(2, np.float32)),
            "1.num_batches_tracked": Array(np.array(7)),
        }
    )
    _, result = start(federation)
    assert list(result.arrays) == list(federation.arrays)
    assert result.arrays["1.num_batches_tracked"].numpy() == 9
    np.testing.assert_array_equal(result.arrays["0.weight"].numpy(), np.full((2, 2), 3, np.float32))
    layout = start(federation)[0].play.form.layout
    assert (layout.trainable, layout.floats, layout.counters) == (4, 6, 1)


# ----- evaluation


def test_evaluated_at_the_server_and_by_the_clients():
    federation = Federation.of(iris())
    _, result = start(
        federation, fraction_evaluate=0.5, evaluate_fn=lambda number, arrays: MetricRecord({"number": number})
    )
    assert {number: record["number"] for number, record in result.evaluate_metrics_serverapp.items()} == {
        0: 0,
        1: 1,
        2: 2,
    }
    assert sorted(result.evaluate_metrics_clientapp) == [1, 2]
    assert set(result.evaluate_metrics_clientapp[2]) == {"loss", "accuracy", "macro_f1"}
    asked = federation.grid.sent("evaluate")
    assert len(asked) == 4
    assert [message.content["config"]["server-round"] for _, message in asked] == [1, 1, 2, 2]


def test_who_evaluates_is_drawn_anew_each_round_by_the_seed():
    def asked(seed):
        federation = Federation.of(iris())
        start(federation, fraction_evaluate=0.2, rounds=6, seed=seed, cohort=1)
        return [node for node, _ in federation.grid.sent("evaluate")]

    first = asked(0)
    assert len(first) == 6
    assert asked(0) == first
    assert len(set(first)) > 1
    assert asked(1) != first


FIGURES = {
    "nan": {"num-examples": 10, "loss": float("nan")},
    "negative": {"num-examples": -10, "loss": 1e9},
    "absurd": {"num-examples": 10**18, "loss": 1e9},
    "none": {"loss": 1e9},
    "list": {"num-examples": 10, "loss": [1e9]},
    "stranger": {"num-examples": 10, "other": 1.0},
}


@pytest.mark.parametrize("figures", [*FIGURES, "error", "empty"])
def test_an_evaluation_that_cannot_be_used_counts_for_nothing(figures):
    def found(tamper):
        federation = Federation.of(iris())
        federation.grid.named(2).tamper["evaluate"] = tamper
        return dict(start(federation, fraction_evaluate=1.0, rounds=1)[1].evaluate_metrics_clientapp[1])

    def lie(request, reply):
        if figures == "error":
            return [Message(Error(2, "boom"), reply_to=request)]
        records = {"metrics": MetricRecord(FIGURES[figures])} if figures in FIGURES else {}
        return [Message(RecordDict(records), reply_to=request)]

    assert found(lie) == found(mute)


# ----- what cannot be


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "fedentropy"}, "fedentopt"),
        ({"cohrt": 3}, "cohort"),
        ({"cohort": 0}, "cohort = 0"),
        ({"lr": -1}, "lr = -1"),
        ({"server": "medien"}, "median"),
        ({"method": "scaffold", "optimizer": "adam"}, "optimizer = 'sgd'"),
        ({"method": "inv_entropy"}, "predict="),
        ({"method": "fedconcat"}, "experiment file"),
        ({"augment": ("flip",)}, "augment"),
        ({"nodes": 0}, "nodes = 0"),
        ({"wait": -1}, "wait = -1"),
        ({"fraction_evaluate": 2}, "fraction_evaluate = 2"),
        ({"classes": "ten"}, "classes = 'ten' must be a whole number of labels"),
        ({"classes": 2.5}, "classes = 2.5"),
        ({"fraction_train": 0.5}, "fraction_train is called otherwise here: give cohort"),
    ],
)
def test_options_that_cannot_be(options, words):
    with pytest.raises(ConfigError, match=words):
        EntroStrategy(**{"method": "fedavg", **options})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"classes": None}, "classes=10"),
        ({"classes": 0}, "classes = 0"),
        ({"timeout": 0}, "timeout = 0"),
        ({"timeout": None}, "timeout = None"),
    ],
)
def test_a_start_that_cannot_be(changes, words):
    with pytest.raises(ConfigError, match=words):
        start(Federation.of(iris()), "fedentopt", **changes)


@pytest.mark.parametrize("arrays", [{}, {"w": Array(np.zeros(2))}], ids=["empty", "float64"])
def test_models_that_cannot_be(arrays):
    federation = Federation.of(iris())
    federation.arrays = ArrayRecord(arrays)
    with pytest.raises(ConfigError, match="initial_arrays"):
        start(federation)


def test_predictions_of_another_shape():
    federation = Federation.of(iris())
    with pytest.raises(ConfigError, match=r"predict gave shape \(5,\)"):
        start(federation, "inv_entropy", predict=lambda models: np.ones(5))


def test_it_starts_before_it_is_asked_for_more():
    with pytest.raises(ConfigError, match="comes first"):
        EntroStrategy("fedavg").configure_train(1, ArrayRecord(), ConfigRecord(), FakeGrid())


def test_what_it_is_made_of_is_logged(caplog):
    with caplog.at_level("INFO", logger="flwr"):
        EntroStrategy("fedadam", **TRAINING).summary()
    assert '"name": "fedadam"' in caplog.text


def test_a_fact_about_data_is_told_once(monkeypatch):
    """Not about labels: the client measures it on its data, with the first model."""
    monkeypatch.setitem(OURS["fact"], Brightness.name, Brightness)
    monkeypatch.setitem(OURS["weigher"], Bright.name, Bright)
    known.cache_clear()
    try:
        federation = Federation.of(digits("fedavg"))
        strategy, _ = start(federation, weigher="bright")
    finally:
        monkeypatch.undo()
        known.cache_clear()
    asked = [message for kind, _, message in federation.grid.log if kind == "query.entrofed"]
    with_model = [message for message in asked if "arrays" in message.content.array_records]
    assert len(with_model) == 6  # everybody, once
    for record in strategy.records:
        weights = {client["client"]: client["weight"] for client in record["clients"]}
        told = strategy.play.told.values["brightness"]
        expected = {client: told[str(client)] / sum(told.values()) for client in weights}
        assert weights == pytest.approx(expected)
