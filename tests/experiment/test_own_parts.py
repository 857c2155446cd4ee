"""Experiments with a user's own code: from the file to the last round, resumed, looked at, and when it fails."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from entrofed.backends.inline import InlineBackend
from entrofed.cli import console as terminal
from entrofed.cli.main import main
from entrofed.errors import ConfigError, EntrofedError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse, read, to_toml
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.methods import fedavg

PARTS = """
import numpy as np
from torch import nn

class Net(nn.Module):
    def __init__(self, shape, classes, width=6):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.LazyLinear(width), nn.ReLU(), nn.Linear(width, classes))
    def forward(self, x):
        return self.layers(x)

class Powered:
    def __init__(self, power=1.0):
        self.power = power
    def weigh(self, updates, context):
        return np.array([update.num_examples for update in updates]) ** self.power

def first(clients, candidates, size, rng):
    return candidates[:size]
"""
FILE = """
rounds = 3
model = { name = "code/parts.py:Net", width = 5 }
checkpoint_seconds = 0
[data]
name = "iris"
partition = "dirichlet_plain"
alpha = 1.0
clients = 5
[method]
cohort = 3
selector = "code/parts.py:first"
weigher = { name = "code/parts.py:Powered", power = 2.0 }
objective = { name = "torch.nn:CrossEntropyLoss", label_smoothing = 0.1 }
[engine]
backend = "inline"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An experiment file with its code beside it; the user is elsewhere."""
    (tmp_path / "code").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "code" / "parts.py").write_text(PARTS)
    (tmp_path / "own.toml").write_text(FILE)
    monkeypatch.chdir(tmp_path / "elsewhere")
    monkeypatch.setattr(terminal, "console", Console(width=250))
    return tmp_path / "own.toml"


@pytest.fixture
def go(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str]]:
    def call(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main(list(words))
        found = capsys.readouterr()
        return int(stop.value.code or 0), found.out + found.err

    return call


def test_paths_are_relative_to_the_file(file: Path) -> None:
    code = f"{file.parent / 'code' / 'parts.py'}"
    found = read(file)
    assert found.model == {"name": f"{code}:Net", "width": 5}
    assert found.method.selector == f"{code}:first"
    assert parse(__import__("tomllib").loads(to_toml(found))) == found
    (file.parent / "elsewhere" / "mine.py").write_text(PARTS)
    changed = read(file, ["method.weigher.name=mine.py:Powered"])  # what is typed is relative to where one is
    assert changed.method.weigher == {"name": f"{file.parent / 'elsewhere' / 'mine.py'}:Powered", "power": 2.0}
    nested = read(file, ['method.weigher={name="capped", share=0.5, weigher="mine.py:Powered"}'])
    assert nested.method.recipe.weigher.weigher.name == "powered"  # type: ignore[attr-defined]


def bits(folder: Path) -> bytes:
    return sorted((folder / "checkpoints").glob("round-*.safetensors"))[-1].read_bytes()


def test_run_resume_and_look_without_the_code(file: Path, go: Callable[..., tuple[int, str]]) -> None:
    code, out = go("run", str(file), "--out", "runs")
    assert (code, "accuracy" in out) == (0, True)
    go("run", str(file), "--out", "half", "--set", "rounds=2")
    half = Path("half/own/seed-0")
    assert go("run", str(file), "--out", "half", "--set", "rounds=3", "--resume")[0] == 0
    assert bits(half) == bits(Path("runs/own/seed-0"))

    (file.parent / "code" / "parts.py").write_text("raise SystemExit('somebody loaded me')")
    for words in (["ls", "runs"], ["show", "runs"], ["compare", "runs"], ["report", "runs", "-o", "page.html"]):
        code, out = go(*words)
        assert code == 0, out
    assert "parts.py:Powered (power = 2.0)" in go("show", "runs")[1]
    assert "torch.nn:CrossEntropyLoss" in go("show", "runs")[1]
    code, out = go("resume", "half")
    assert (code, "somebody loaded me" in out) == (2, True)
    parts = json.loads(Path("runs/own/seed-0/method.json").read_text())["parts"]
    assert parts["weigher"]["power"] == 2.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("code/parts.py:Net", "code/part.py:Net", "part.py: there is no such file"),
        ("code/parts.py:Net", "code/parts.py:Nett", "unknown name in .*: 'Nett'; did you mean 'Net'?"),
        ("code/parts.py:first", "code/parts.py:Net", ":Net': TypeError: .*missing 2 required positional arguments"),
        ("code/parts.py:first", "code/parts.py:Powered", r"'Powered': an object with a method select\(state, clients"),
        ("power = 2.0", "powr = 2.0", "unknown hyperparameter of weigher .*: 'powr'; did you mean 'power'"),
        ("code/parts.py:Net", "no.such.package:Net", "there is no module 'no': install it"),
        ("cohort = 3", 'cohort = 3\nname = "code/parts.py:first"', r"TypeError: first\(\) missing 4 required"),
    ],
)
def test_what_is_wrong_with_a_file(
    file: Path, go: Callable[..., tuple[int, str]], old: str, new: str, said: str
) -> None:
    file.write_text(FILE.replace(old, new))
    with pytest.raises(ConfigError, match=said):
        read(file)
    code, out = go("validate", str(file))
    assert (code, "Traceback" in out) == (2, False)


def test_a_syntax_error_is_found_before_anything_is_run(file: Path, go: Callable[..., tuple[int, str]]) -> None:
    (file.parent / "code" / "parts.py").write_text("import numpy\n\nclass Net:\n    def f(self)\n        pass\n")
    code, out = go("run", str(file))
    assert code == 2
    assert "parts.py, line 4: expected ':'" in out
    assert not Path("runs").exists()


def experiment(**sections: Any) -> Any:
    table = {"rounds": 3, "data": {"name": "iris", "clients": 4}, "model": "iris_mlp", "method": {"cohort": 3}}
    return parse({**table, **sections})


def play(tmp_path: Path, chosen: Any, **objects: Any) -> dict[str, Any]:
    return run(chosen, RunFolder(tmp_path / "run"), backend=InlineBackend(), setup=prepare(chosen, **objects))


RING = {"topology": {"kind": "ring"}}


class Raising:
    """Raises in whatever it is asked to do."""

    def weigh(self, updates, context):
        return 1 / 0

    def select(self, state, clients, among, size, rng):
        return among[99]

    def loss(self, model, x, y, given):
        return model(x)["logits"]

    def apply(self, updates, weights, context, state):
        raise KeyError("momentum")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (
            "weigher",
            r"weigher 'raising': ZeroDivisionError: division by zero \(Raising.weigh, test_own_parts.py line \d+\)",
        ),
        ("selector", r"selector 'raising': IndexError: .* \(Raising.select, test_own_parts.py line \d+\)"),
        ("server", r"server rule 'raising': KeyError: 'momentum' \(Raising.apply, test_own_parts.py line \d+\)"),
        ("objective", r"every client failed in the same line: .*Error.* \(Raising.loss, test_own_parts.py line \d+\)"),
    ],
)
def test_a_part_that_raises_is_named(tmp_path: Path, kind: str, said: str) -> None:
    for number, sections in enumerate([{}, RING]):
        if kind != "selector" or not sections:
            with pytest.raises(EntrofedError, match=said) as caught:
                play(tmp_path / str(number), experiment(**sections), method=fedavg(**{kind: Raising()}))
            assert caught.value.exit_code == 1


def test_one_client_does_not_end_a_run(tmp_path: Path) -> None:
    """Nor do failures that differ; only the same line for everybody, in the first round."""

    class Choosy:
        def __init__(self, client: int, since: int) -> None:
            self.client, self.since = client, since

        def begin(self, task, data, model):
            if task.round >= self.since and self.client in (task.client, -1):
                raise ValueError(f"client {task.client}")
            return lambda x: {}

        def loss(self, model, x, y, given):
            from torch.nn.functional import cross_entropy

            return cross_entropy(model(x), y)

    chosen = experiment(method={"cohort": 4})
    assert play(tmp_path / "a", chosen, method=fedavg(objective=Choosy(2, 0)))["refused"] == 3
    assert play(tmp_path / "b", chosen, method=fedavg(objective=Choosy(-1, 1)))["skipped"] == 2
    with pytest.raises(EntrofedError, match="every client failed in the same line: ValueError: client"):
        play(tmp_path / "c", chosen, method=fedavg(objective=Choosy(-1, 0)))


def test_a_network_that_raises_only_in_training(tmp_path: Path) -> None:
    from torch import nn

    class Net(nn.Linear):
        def forward(self, x):
            if self.training:
                raise NotImplementedError("dropout")
            return super().forward(x)

    with pytest.raises(EntrofedError, match=r"NotImplementedError: dropout \(.*Net.forward, test_own_parts.py"):
        play(tmp_path, experiment(), model=lambda: Net(4, 3))


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ([0, 0], r"selector 'lambda' chose somebody twice: \[0, 0\]"),
        ([0, 77], r"selector 'lambda' chose 77, who is no candidate: \[0, 77\]"),
        ([0.5], r"selector 'lambda' chose \[0.5\]; client numbers are expected"),
        (None, "selector 'lambda' chose None; client numbers are expected"),
    ],
)
def test_cohorts_that_are_none(tmp_path: Path, chosen: Any, said: str) -> None:
    method = fedavg(selector=lambda clients, candidates, size, rng: chosen)
    with pytest.raises(EntrofedError, match=said):
        play(tmp_path, experiment(), method=method)


def test_weights_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(EntrofedError, match=r"weigher 'lambda' returned {'a': 1}; a weight per update is expected"):
        play(tmp_path, experiment(), method=fedavg(weigher=lambda updates, context: {"a": 1}))
    summary = play(tmp_path / "b", experiment(), method=fedavg(weigher=lambda updates, context: [float("nan")]))
    assert summary["rounds"] == 3  # data size is used, and the log says so
    assert "lambda gave unusable weights" in (tmp_path / "b" / "run" / "log.txt").read_text()


def test_a_fact_that_raises(tmp_path: Path) -> None:
    class Told:
        name, when, reveals = "told", "before_round", "a number"

        def measure(self, data, model):
            return data.nothing

        def problem(self, value, classes):
            return None

    class Asks:
        facts = (Told(),)

        def select(self, state, clients, among, size, rng):
            return among[:size]

    with pytest.raises(EntrofedError, match=r"AttributeError: .*'nothing' \(.*Told.measure, test_own_parts.py line"):
        play(tmp_path, experiment(), method=fedavg(selector=Asks()))
