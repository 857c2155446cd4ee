"""FedConcat: clusters, branches, and the layer that joins them."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.facts.label_counts import LabelCounts
from entrofed.models.concatenated import Concatenated
from entrofed.objectives.branch import Branch
from entrofed.servers.concat import Concat, FewBatches, clustered

COUNTS = np.array([[9, 0, 0], [0, 8, 0], [7, 1, 0], [0, 0, 5], [0, 9, 1], [0, 0, 6]], np.float64)


def experiment(**method):
    server = {"name": "concat", "clusters": 2, "encoder_rounds": 3, **method.pop("server", {})}
    return parse(
        {
            "rounds": 6,
            "seed": 2,
            "data": {"name": "digits", "partition": "label_quantity", "clients": 10, "labels_per_client": 3},
            "method": {"name": "fedconcat", "server": server, "cohort": 4, "lr": 0.1, "epochs": 2, **method},
            "engine": {"backend": "inline"},
        }
    )


def test_clients_with_like_labels_share_a_cluster():
    found = clustered(COUNTS, 3, None)
    assert found[0] == found[2]
    assert found[1] == found[4]
    assert found[3] == found[5]
    assert len(set(found)) == 3


def test_no_cluster_above_its_limit():
    counts = np.array([[9.0, 0.0]] * 9 + [[0.0, 9.0]])
    assert np.bincount(clustered(counts, 2, None)).max() == 9
    assert np.bincount(clustered(counts, 2, 1.2), minlength=2).tolist() in ([6, 4], [4, 6])


@pytest.fixture
def setup():
    return prepare(experiment())


def updates_from(setup, scales):
    return [
        Update(k, replace(setup.params, values=setup.params.values * np.float32(s)), 10, 1, 1.0, 1.0)
        for k, s in enumerate(scales)
    ]


def context(setup):
    table = ClientTable(np.full(6, 9), classes=3, trainable=setup.layout.trainable, facts={LabelCounts.name: COUNTS})
    return Context(setup.params, 0, table, setup.layout, 0, None)


def test_a_branch_is_averaged_over_its_cluster_and_stays_without_members(setup):
    rule = Concat(clusters=2, encoder_rounds=3)
    state = {"clusters": np.array([0, 0, 1]), "played": np.array(0)}
    updates = updates_from(setup, [2, 4, 9])[:2]
    after, following = rule.apply(updates, np.array([0.25, 0.75]), context(setup), state)
    before, found = setup.layout.split(setup.params), setup.layout.split(after)
    np.testing.assert_allclose(found["branches.0.output.weight"], 3.5 * before["branches.0.output.weight"], rtol=1e-6)
    for name in ("branches.1.output.weight", "head.weight"):
        np.testing.assert_array_equal(found[name], before[name])
    assert following["played"] == 1
    assert not found["phase"]


@pytest.mark.parametrize("start", ["random", "outputs"])
def test_then_the_layer_that_joins_them(setup, start):
    rule = Concat(clusters=2, encoder_rounds=1, start=start)
    state = {"clusters": np.array([0, 1, 1]), "played": np.array(0)}
    after, state = rule.apply(updates_from(setup, [1, 1, 1]), np.array([0.8, 0.1, 0.1]), context(setup), state)
    tensors = setup.layout.split(after)
    assert tensors["phase"] == 1
    if start == "outputs":
        outputs = [tensors[f"branches.{j}.output.weight"] for j in range(2)]
        np.testing.assert_array_equal(tensors["head.weight"], np.concatenate(outputs, axis=1))
    assert int(rule.broadcast(state)["phase"]) == 1
    later, _ = rule.apply(updates_from(setup, [2, 4, 6]), np.array([0.8, 0.1, 0.1]), context(setup), state)
    found, before = setup.layout.split(later), setup.layout.split(setup.params)
    np.testing.assert_allclose(found["head.weight"], 4 * before["head.weight"], rtol=1e-6)  # equal weights
    np.testing.assert_array_equal(found["branches.0.output.weight"], before["branches.0.output.weight"])


def test_a_whole_run(tmp_path):
    chosen = experiment(server={"encoder_rounds": 10}).model_copy(update={"rounds": 30})
    run(chosen, RunFolder(tmp_path))
    records = RunFolder(tmp_path).records()
    assert all(client.steps == 3 for record in records[10:] for client in record.clients)
    assert all(client.steps > 3 for record in records[:10] for client in record.clients)
    assert records[-1].test.accuracy > 0.8


def test_the_second_phase_begins_with_the_whole_learning_rate(tmp_path):
    """It began with what the first phase had left: after 480 rounds at 0.98, with 6e-5 of it."""
    run(experiment(lr_decay=0.5), RunFolder(tmp_path / "decay"))
    found = [record.lr for record in RunFolder(tmp_path / "decay").records()]
    assert found == pytest.approx([0.1, 0.05, 0.025] * 2)
    chosen = experiment(schedule={"kind": "cosine", "warmup": 1}).model_copy(update={"rounds": 7})
    run(chosen, RunFolder(tmp_path / "cosine"))
    found = [record.lr for record in RunFolder(tmp_path / "cosine").records()]
    assert found == pytest.approx([0.01, 0.1, 0.05, 0.01, 0.1, 0.075, 0.025])


def test_the_phase_counts_what_was_aggregated():
    rule = Concat(clusters=2, encoder_rounds=3)
    state = {"clusters": np.array([0, 1]), "played": np.array(3)}
    assert rule.phase_round(5, 10, {**state, "played": np.array(2)}) == (5, 3)  # two rounds were skipped
    assert rule.phase_round(6, 10, state) == (0, 7)
    assert rule.phase_round(8, 10, {**state, "played": np.array(5)}) == (2, 7)


def test_frozen_encoders_do_not_change(setup):
    model = setup.build()
    x = torch.rand(5, 1, 8, 8)
    assert model(x).exp().sum(dim=1).tolist() == pytest.approx([1] * 5)  # a mean of probabilities
    model.phase.fill_(1)
    model.train()
    assert not model.branches.training
    assert model.head.training
    model(x).sum().backward()
    assert all(parameter.grad is None for parameter in model.branches.parameters())
    assert model.head.weight.grad is not None


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ({"objective": "proximal"}, "'concat' .FedConcat. trains branches, which objective 'proximal' cannot"),
        ({"server": {"clusters": 0}}, "clusters = 0 must be at least 1"),
        ({"server": {"most": 0.5}}, "most = 0.5"),
    ],
)
def test_what_does_not_go_together(method, words):
    with pytest.raises(ConfigError, match=words):
        experiment(**method)


def test_branches_need_the_rule():
    with pytest.raises(ConfigError, match="choose method 'fedconcat'"):
        prepare(parse({"method": {"objective": "branch"}, "data": {"clients": 3}}))


def test_more_clusters_than_clients(setup):
    with pytest.raises(ConfigError, match="clusters = 7 is more than the 6 clients"):
        Concat(clusters=7).init(setup.params, context(setup).clients, np.arange(6))


def test_clusters_need_label_counts(setup):
    table = ClientTable(np.full(6, 9), classes=3, trainable=setup.layout.trainable)
    with pytest.raises(DataError, match="server rule 'concat' needs the clients' label counts, and none were released"):
        Concat(clusters=2).init(setup.params, table, np.arange(6))


def test_clients_make_few_steps_in_the_second_phase(setup):
    rule = Concat(clusters=2, encoder_rounds=3, batches=5)
    assert rule.client == FewBatches(5)
    task = TrainTask(0, 0, 0, setup.params, Branch(), setup.experiment.method.training(), rule=rule.client)
    for played, most in [(0, None), (2, None), (3, 5), (9, 5)]:
        broadcast = rule.broadcast({"clusters": np.array([0, 1]), "played": np.array(played)})
        assert rule.client.max_steps(replace(task, broadcast=broadcast)) == most


def test_a_network_without_an_encoder():
    with pytest.raises(ConfigError, match="'encoder' and a linear 'output', and Linear has not both"):
        Concatenated(lambda: torch.nn.Linear(2, 2), 2)
