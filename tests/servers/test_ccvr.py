"""CCVR: only the output layer changes, at the end, by what was declared; the rounds are those of the other rule."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file
from torch import nn

from entrofed.core.types import ClientData
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder, method_facts
from entrofed.experiment.runner import run
from entrofed.facts.feature_sums import FeatureSums, output_layer
from entrofed.servers.ccvr import CCVR


def experiment(**changes):
    data = {"name": "digits", "partition": "dirichlet_balanced", "clients": 10, "alpha": 0.1, "min_size": 5}
    method = {"name": "ccvr", "cohort": 3, "epochs": 2, "batch_size": 16, "lr": 0.1, **changes.pop("method", {})}
    return parse({"rounds": 4, "data": data, "method": method, "engine": {"backend": "inline"}, **changes})


def test_the_end_and_the_rounds(tmp_path):
    folders = {name: RunFolder(tmp_path / name) for name in ("ccvr", "again", "fedavg")}
    found = {
        name: run(experiment(method={"name": name.replace("again", "ccvr")}), folder)
        for name, folder in folders.items()
    }
    assert "at_end" not in found["fedavg"]
    ended = found["ccvr"]["at_end"]
    assert ended["accuracy"] > found["ccvr"]["accuracy"] + 0.05
    assert ended == found["again"]["at_end"]
    sums = 10 * 8 * 10 * (1 + 64 + 64**2)  # ten clients, ten classes, 64 features
    assert ended["bytes"] == 10 * 4 * 4810 + sums
    for one, other in zip(folders["ccvr"].records(), folders["fedavg"].records(), strict=True):
        assert one.test == other.test
        assert (one.bytes_up, one.bytes_down) == (other.bytes_up, other.bytes_down)
    last, calibrated = (load_file(folders["ccvr"].path / f"model{end}.safetensors") for end in ("", "-at-end"))
    changed = {name for name in last if not np.array_equal(last[name], calibrated[name])}
    assert changed == {"output.weight", "output.bias"}
    summary = json.loads((folders["ccvr"].path / "summary.json").read_text())
    assert summary["at_end"]["accuracy"] == ended["accuracy"]


def test_what_leaves_the_clients_is_declared():
    once = method_facts(experiment().method.recipe)["reveals"]["once"]
    assert any("mean and covariance of their features" in words for words in once)


def test_it_goes_around_another_rule(tmp_path):
    chosen = experiment(method={"server": {"name": "ccvr", "samples": 50, "server": {"name": "momentum", "beta": 0.5}}})
    assert chosen.method.recipe.server.server.beta == 0.5
    assert run(chosen, RunFolder(tmp_path / "run"))["at_end"]["accuracy"] > 0.3


def test_it_is_refused_where_it_cannot_act():
    with pytest.raises(ConfigError, match="needs a server that sees all clients"):
        experiment(topology={"kind": "full"})
    with pytest.raises(ConfigError, match="calibrated twice"):
        CCVR(server=CCVR())
    with pytest.raises(ConfigError, match="no linear output layer"):
        CCVR().network(lambda: nn.Conv2d(1, 2, 3))
    pytest.importorskip("flwr")
    from entrofed.flower import EntroStrategy

    with pytest.raises(ConfigError, match="asks clients for 'feature_sums' at the end"):
        EntroStrategy("ccvr", cohort=2, classes=10)


def test_features_are_what_enters_the_output_layer():
    """By hand: two samples of class 1 with the features (1, 2) and (3, 4)."""
    import torch

    class Model:
        module = nn.Sequential(nn.Identity(), nn.Linear(2, 3))

        def predictions(self, data):
            for x, y in zip(data.x.split(1), data.y.split(1), strict=True):
                yield self.module(x), y

    found = FeatureSums().measure(ClientData(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([1, 1]), 3), Model())
    np.testing.assert_array_equal(found, [[0] * 7, [2, 4, 6, 10, 14, 14, 20], [0] * 7])
    assert not Model.module[1]._forward_pre_hooks
    assert FeatureSums().problem(found, 3) is None


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda rows: rows[:, :-1], "no sums"),
        (lambda rows: rows[:2], "no sums"),
        (lambda rows: rows * np.nan, "not finite"),
        (lambda rows: rows - 3, "numbers of samples"),
        (lambda rows: rows + 0.5, "numbers of samples"),
        (lambda rows: rows + np.arange(7) * (np.arange(7) == 4), "second moments"),
    ],
)
def test_sums_that_cannot_be(change, reason):
    rows = np.array([[0] * 7, [2, 4, 6, 10, 14, 14, 20], [0] * 7], float)
    assert reason in FeatureSums().problem(change(rows), 3)


def test_which_layer_is_the_output_layer():
    named = nn.ModuleDict({"output": nn.Linear(2, 3), "projection": nn.Linear(2, 256)})
    assert output_layer(named) is named["output"]
    assert output_layer(nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.Linear(3, 3)), 3).in_features == 3
    with pytest.raises(ConfigError, match="choose another model"):
        output_layer(nn.Sequential(nn.Linear(4, 3, bias=False)))
