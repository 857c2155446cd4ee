"""Models in other programs: the lines of the docs load them, and give the same predictions."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save

from entrofed.backends.inline import InlineBackend
from entrofed.data.catalog import load
from entrofed.data.federation import Federation
from entrofed.errors import CheckpointError, ConfigError, EntrofedError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.manifest import write_listed
from entrofed.experiment.model_file import model_facts
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.export.model import FromRaw, export_model
from entrofed.models.networks import build

DOCS = Path(__file__).parents[2] / "docs" / "export.md"
NETS = """
from entrofed.models.networks import build

def MyNet():
    return build("digits_mlp", (1, 8, 8), 10)
"""


def play(path, **changes):
    table = {
        "rounds": 3,
        "model": "digits_mlp",
        "data": {"name": "digits", "clients": 4, "holdout": 0.1},
        "method": {"lr": 0.2, "cohort": 1.0},
        "engine": {"backend": "inline"},
        **changes,
    }
    folder = RunFolder(path / "x" / "seed-0")
    run(parse(table), folder, backend=InlineBackend())
    return folder


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    return play(tmp_path_factory.mktemp("runs"))


def lines_of(heading):
    """The code below a heading of the docs."""
    text = DOCS.read_text(encoding="utf-8").split(f"\n## {heading}", 1)[1]
    return re.search(r"```python\n(.*?)```", text, re.DOTALL)[1]


def recorded(folder):
    """The accuracy of the stored model."""
    return folder.records()[model_facts(folder.path / "model.safetensors")["round"] - 1].test.accuracy


@pytest.mark.parametrize(
    ("heading", "suffix"),
    [
        ("Load the tensors into your own network", ".safetensors"),
        pytest.param("torch.export", ".pt2", marks=pytest.mark.slow),
        pytest.param("ONNX", ".onnx", marks=pytest.mark.slow),
    ],
)
def test_the_lines_of_the_docs(played, tmp_path, monkeypatch, capfd, heading, suffix):
    if suffix == ".onnx":
        pytest.importorskip("onnxscript", reason="needs the extra onnx")
        pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    lines = lines_of(heading)
    assert sum(bool(line.strip()) for line in lines.splitlines()) <= 12
    words = export_model(played, tmp_path / f"model{suffix}")
    assert words.startswith(f"{tmp_path / f'model{suffix}'}: the model after round")
    assert capfd.readouterr() == ("", "")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "nets", raising=False)
    Path("nets.py").write_text(NETS)
    data = load("digits")
    there = {"pixels": data.test_x}
    exec(lines, there)  # noqa: S102 (the lines of our own docs)
    right = [label == data.classes[y] for label, y in zip(there["labels"], data.test_y, strict=True)]
    assert np.mean(right) == recorded(played)
    if suffix != ".safetensors":
        network = build("digits_mlp", (1, 8, 8), 10)
        network.load_state_dict(load_file(played.path / "model.safetensors"))
        plain = FromRaw(network.eval(), model_facts(played.path / "model.safetensors"))
        with torch.no_grad():
            expected = plain(torch.from_numpy(data.test_x)).numpy()
        found = there["probabilities"]
        found = found.detach().numpy() if isinstance(found, torch.Tensor) else found
        np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"data": {"name": "iris", "clients": 3}, "model": "iris_mlp"},
        {"model": "cnn"},
        {
            "method": {
                "name": "fedconcat",
                "server": {"name": "concat", "clusters": 2, "encoder_rounds": 2},
                "cohort": 4,
            }
        },
    ],
    ids=["table", "convolutions", "concatenated"],
)
def test_whatever_the_network(tmp_path, changes):
    folder = play(tmp_path, **changes)
    export_model(folder, tmp_path / "model.pt2")
    extra = {"entrofed.json": ""}
    network = torch.export.load(tmp_path / "model.pt2", extra_files=extra).module()
    data = load(changes.get("data", {"name": "digits"})["name"])
    probabilities = network(torch.from_numpy(data.test_x)).detach().numpy()
    np.testing.assert_allclose(probabilities.sum(1), 1, atol=1e-5)
    assert (probabilities.argmax(1) == data.test_y).mean() == pytest.approx(recorded(folder), abs=1e-12)
    assert json.loads(extra["entrofed.json"])["classes"] == list(data.classes)


@pytest.mark.slow
def test_of_tokens(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.integers(1, 30, (60, 7))
    federation = Federation.from_clients(
        [(x[:20], x[:20, 0] % 2), (x[20:40], x[20:40, 0] % 2)], test=(x[40:], x[40:, 0] % 2), kind="text"
    )
    wanted = parse(
        {"rounds": 1, "model": "text", "engine": {"backend": "inline"}, "data": {"name": "digits", "clients": 2}}
    )
    folder = RunFolder(tmp_path / "x" / "seed-0")
    run(wanted, folder, backend=InlineBackend(), setup=prepare(wanted, federation=federation))
    export_model(folder, tmp_path / "model.pt2")
    network = torch.export.load(tmp_path / "model.pt2").module()
    found = network(torch.from_numpy(federation.data.test_x)).argmax(1).numpy()
    assert (found == federation.data.test_y).mean() == pytest.approx(recorded(folder))


OWN = """
import torch

class MyNet(torch.nn.Module):
    def __init__(self, features: int, classes: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.ReLU(), torch.nn.Linear(8, classes))

    def forward(self, x):
        return self.layers(x)
"""


@pytest.mark.slow
def test_of_a_network_in_a_users_file(tmp_path):
    """The code is needed for the computation, and for nothing else."""
    (tmp_path / "nets.py").write_text(OWN)
    folder = play(tmp_path, model=f"{tmp_path}/nets.py:MyNet", data={"name": "iris", "clients": 3, "holdout": 0.2})
    words = export_model(folder, tmp_path / "model.pt2")
    assert words.endswith(f"; built by the code of {tmp_path}/nets.py:MyNet")
    data = load("iris")
    network = torch.export.load(tmp_path / "model.pt2").module()
    assert (network(torch.from_numpy(data.test_x)).argmax(1).numpy() == data.test_y).mean() == recorded(folder)
    (tmp_path / "nets.py").unlink()
    export_model(folder, tmp_path / "model.safetensors")
    with pytest.raises(ConfigError, match=r"nets.py: there is no such file"):
        export_model(folder, tmp_path / "again.pt2")


@pytest.mark.parametrize(
    "change", [{"shape": None}, {"dtype": "object"}, {"classes": 7}, {"vocabulary": "x"}, {"scale": None}]
)
def test_damaged_facts_are_found_out(played, tmp_path, change):
    broken = RunFolder(tmp_path / "x" / "seed-0")
    shutil.copytree(played.path, broken.path)
    path = broken.path / "model.safetensors"
    facts = {**model_facts(path), **change}
    write_listed(path, save(load_file(path), {"entrofed": json.dumps(facts)}))
    with pytest.raises(CheckpointError, match=r"model.safetensors: (its facts are damaged|not a model of)"):
        export_model(broken, tmp_path / "model.pt2")


def test_it_runs_no_code_for_tensors(played, tmp_path, monkeypatch):
    monkeypatch.setattr("entrofed.export.model.builder", None)
    export_model(played, tmp_path / "copy.safetensors")
    assert (tmp_path / "copy.safetensors").read_bytes() == (played.path / "model.safetensors").read_bytes()


class Jumpy(torch.nn.Module):
    """Decides by what it sees, which a trace cannot."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(64, 10)

    def forward(self, x):
        y = self.layer(x.flatten(1))
        return y if y.sum() > 0 else -y


def test_refuses_what_it_cannot_do(played, tmp_path):
    with pytest.raises(ConfigError, match="there is no folder"):
        export_model(played, tmp_path / "no" / "model.pt2")
    with pytest.raises(CheckpointError, match=r"there is no model.safetensors in it; 'entrofed resume"):
        export_model(RunFolder(tmp_path), tmp_path / "model.pt2")
    with pytest.raises(CheckpointError, match="not a model of Jumpy"):
        export_model(played, tmp_path / "model.pt2", Jumpy)
    assert not list(tmp_path.iterdir())


class Counting(Jumpy):
    """Fixes the size of a batch."""

    def forward(self, x):
        return self.layer(x.reshape(len(x), -1))


@pytest.mark.parametrize(
    ("network", "words"),
    [(Jumpy, r"network Jumpy: .*\.safetensors works always"), (Counting, r"network Counting.*x\.shape\[0\] in place")],
)
def test_a_network_that_cannot_be_traced_is_named(played, tmp_path, monkeypatch, network, words):
    monkeypatch.setattr(Jumpy, "load_state_dict", lambda self, state: None)
    with pytest.raises(EntrofedError, match=f"torch.export cannot trace the {words}"):
        export_model(played, tmp_path / "model.pt2", network)
