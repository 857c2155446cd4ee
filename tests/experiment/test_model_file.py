"""The model of a run loads into the plain network, and says what it says in the run."""

import json

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save
from safetensors.torch import load_file

from entrofed.backends.inline import InlineBackend
from entrofed.core.params import Layout
from entrofed.core.types import State
from entrofed.data.catalog import load
from entrofed.errors import CheckpointError
from entrofed.experiment.config import parse
from entrofed.experiment.judge import Best
from entrofed.experiment.model_file import KEY, ModelFile, model_facts, state_names
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.models.networks import build

DIGITS = {"name": "digits", "partition": "dirichlet_balanced", "clients": 8, "alpha": 1.0}


def play(path, **changes):
    table = {
        "rounds": 5,
        "seed": 1,
        "model": "digits_mlp",
        "data": DIGITS,
        "method": {"lr": 0.2, "cohort": 0.5},
        "engine": {"backend": "inline"},
        **changes,
    }
    folder = RunFolder(path / "x" / "seed-1")
    run(parse(table), folder, backend=InlineBackend())
    return folder


@pytest.mark.parametrize(
    ("data", "model"),
    [
        (DIGITS, "digits_mlp"),
        ({**DIGITS, "holdout": 0.1}, "cnn"),
        ({**DIGITS, "validation": 0.1, "normalize": "half"}, "digits_mlp"),
        ({"name": "iris", "clients": 3, "holdout": 0.2}, "iris_mlp"),
    ],
    ids=["last", "held-out", "validation", "table"],
)
def test_it_loads_into_the_plain_network(tmp_path, data, model):
    """With plain torch and what the file says, the accuracy that was recorded."""
    folder = play(tmp_path, data=data, model=model)
    path = folder.path / "model.safetensors"
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()["entrofed"])
    dataset = load(data["name"])
    network = build(model, dataset.test_x.shape[1:], len(facts["classes"]))
    network.load_state_dict(load_file(path))  # every name, and no other
    x = torch.from_numpy(dataset.test_x).float()
    shape = (-1, 1, 1) if facts["kind"] == "image" else (-1,)
    x = x / facts["full_scale"] if facts["kind"] == "image" else x
    x = (x - torch.tensor(facts["shift"]).view(shape)) / torch.tensor(facts["scale"]).view(shape)
    with torch.no_grad():
        right = network.eval()(x).argmax(1).numpy() == dataset.test_y
    assert right.mean() == folder.records()[facts["round"] - 1].test.accuracy
    assert facts["classes"] == list(dataset.classes)
    assert (facts["shape"], facts["dtype"]) == (list(dataset.test_x.shape[1:]), str(dataset.test_x.dtype))


def test_without_data_to_choose_by_it_is_the_last(tmp_path):
    folder = play(tmp_path, method={"lr": 1.0, "cohort": 2}, rounds=2)
    accuracies = [record.test.accuracy for record in folder.records()]
    facts = model_facts(folder.path / "model.safetensors")
    assert accuracies[-1] < max(accuracies)  # the test set would have chosen another
    assert (facts["round"], facts["accuracy"]) == (2, None)
    assert facts["reason"].startswith("the last")


@pytest.mark.parametrize(("key", "words"), [("holdout", "held-out data of all"), ("validation", "validation set")])
def test_it_is_the_best_by_data_that_nobody_trains_on(tmp_path, key, words):
    changes = {"data": {**DIGITS, key: 0.1}, "method": {"lr": 1.0, "cohort": 2}, "rounds": 7}
    folder = play(tmp_path, **changes, stop={"patience": 100, "on": key})
    judged = [record.judged for record in folder.records()]
    facts = model_facts(folder.path / "model.safetensors")
    assert facts["round"] == 1 + int(np.argmax(judged)) != 7
    assert facts["accuracy"] == max(judged)
    assert words in facts["reason"]
    without = play(tmp_path / "without", **changes)
    assert (without.path / "model.safetensors").read_bytes() == (folder.path / "model.safetensors").read_bytes()
    assert {record.judged for record in without.records()} == {None}
    assert all("judged" not in record.to_json() for record in without.records())


def test_of_peers_it_is_their_mean(tmp_path):
    folder = play(tmp_path, data={**DIGITS, "holdout": 0.2}, topology={"kind": "ring"}, method={"lr": 0.2})
    records = folder.records()
    facts = model_facts(folder.path / "model.safetensors")
    assert facts["round"] == 1 + int(np.argmax([record.in_distribution.accuracy for record in records]))
    assert set(load_file(folder.path / "model.safetensors")) == set(build("digits_mlp", (1, 8, 8), 10).state_dict())


def test_resume_writes_it_for_runs_of_earlier_versions(tmp_path):
    folder = play(tmp_path)
    path = folder.path / "model.safetensors"
    before = load_file(path)
    path.unlink()
    run(folder.experiment(), folder, backend=InlineBackend(), resume=True)
    after = load_file(path)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert "earlier version" in model_facts(path)["reason"]


class Tied(torch.nn.Module):
    """Two names for one tensor, a counter, and a buffer that is not kept."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.norm = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)
        self.b.weight = self.a.weight
        self.register_buffer("scratch", torch.zeros(3), persistent=False)


def test_tied_tensors_have_all_their_names(tmp_path):
    model = Tied()
    layout = Layout.of(model)
    assert state_names(model)["b.weight"] == "a.weight"
    file = ModelFile(tmp_path / "model.safetensors", layout, state_names(model), {})
    file.write(State(3, layout.read(model), {}, {}), "because", 0.5)
    other = Tied()
    other.load_state_dict(load_file(tmp_path / "model.safetensors"))
    assert torch.equal(other.b.weight, model.a.weight)
    assert file.best() == Best(0.5, 3)


@pytest.mark.parametrize(
    "raw",
    [
        None,
        b"",
        b"no safetensors",
        save({"x": np.zeros(2)}),
        save({"x": np.zeros(2)}, {KEY: "{"}),
        save({"x": np.zeros(2)}, {KEY: "[]"}),
    ],
)
def test_what_is_no_model_is_no_best(tmp_path, raw):
    path = tmp_path / "model.safetensors"
    if raw is not None:
        path.write_bytes(raw)
    with pytest.raises(CheckpointError, match=r"model.safetensors: (there is no model yet|not a model of a run)"):
        model_facts(path)
    assert ModelFile(path, Layout.of(Tied()), {}, {}).best() == Best()
