"""Results can be looked at where the parts that made them are not installed; nothing builds or imports a part."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from entrofed import registry
from entrofed.backends import InlineBackend
from entrofed.cli import console as terminal
from entrofed.cli.main import main
from entrofed.cli.tables.runs import method_words
from entrofed.experiment import config
from entrofed.experiment.config import parse
from entrofed.experiment.manifest import write_listed
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.experiment.sections import method as method_section

FOREIGN = "not_installed_here"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A finished run whose weigher is somebody else's; to ask for any part is an error from now on."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal, "console", Console(width=200))
    table: dict[str, Any] = {
        "name": "iris",
        "rounds": 2,
        "model": "iris_mlp",
        "data": {"name": "iris", "clients": 3},
        "method": {"cohort": 2, "weigher": "label_entropy"},
        "engine": {"backend": "inline"},
    }
    found = RunFolder(tmp_path / "runs" / "iris" / "seed-0")
    run(parse(table), found, backend=InlineBackend())
    for name in ("experiment.toml", "method.json"):
        path = found.path / name
        assert "label_entropy" in path.read_text()
        write_listed(path, path.read_text().replace("label_entropy", FOREIGN))

    def refuse(kind: str, *_: Any, **__: Any) -> None:
        raise AssertionError(f"a {kind} was asked for")

    asks = {registry: ("known", "lookup", "build"), config: ("known", "lookup"), method_section: ("method_of",)}
    for module, names in asks.items():
        for asked in names:
            monkeypatch.setattr(module, asked, refuse)
    return found


@pytest.fixture
def go(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    def call(*words: str) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main([*words, "--debug"])
        assert stop.value.code == 0
        return capsys.readouterr().out

    return call


@pytest.mark.usefixtures("folder")
def test_ls_and_compare(go: Callable[..., str]) -> None:
    assert "iris/seed-0" in go("ls")
    assert json.loads(go("compare", "runs", "--json"))["experiments"][0]["rounds"] == 2
    assert "iris" in go("compare", "runs")


@pytest.mark.usefixtures("folder")
def test_show(go: Callable[..., str]) -> None:
    out = go("show", "runs", "--weights", "--selection")
    assert f"fedavg: random, {FOREIGN} (" in out
    assert "), cross_entropy, average" in out
    assert "x equal share" in out
    assert "participation" in out
    for options in (["--weights"], []):
        go("show", "runs", *options, "--plot", "picture.svg")


@pytest.mark.usefixtures("folder")
def test_report(go: Callable[..., str]) -> None:
    go("report", "runs", "-o", "page.html")
    page = Path("page.html").read_text()
    assert "the trained model and its number of examples" in page
    assert "its label counts" in page
    assert FOREIGN in page


@pytest.mark.usefixtures("folder")
def test_export(go: Callable[..., str]) -> None:
    go("export", "runs", "--to", "csv", "-o", "out")
    assert len(Path("out/rounds.csv").read_text().splitlines()) == 1 + 2


def test_runs_that_did_not_store_their_method(folder: RunFolder) -> None:
    for content in (None, '{"parts": []}', "no JSON"):
        (folder.path / "method.json").unlink(missing_ok=True)
        if content is not None:
            write_listed(folder.path / "method.json", content)
        assert method_words(folder) == f"fedavg: weigher {FOREIGN}"


def test_names_are_no_markup(folder: RunFolder, go: Callable[..., str]) -> None:
    stored = json.loads((folder.path / "method.json").read_text())
    stored["parts"]["server"] = {"name": "[red]", "kinds": ["a", "[/b]"]}
    write_listed(folder.path / "method.json", json.dumps(stored))
    assert "[red] (kinds = ['a', '[/b]'])" in go("show", "runs")


def test_settings_are_no_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A regular expression that looks like a closing tag of the terminal's markup is shown as it is."""
    table: dict[str, Any] = {
        "name": "iris",
        "rounds": 1,
        "model": "iris_mlp",
        "data": {"name": "iris", "clients": 3},
        "method": {"cohort": 2, "weigher": {"name": "weight_kl", "exclude": "[/bold]+x"}},
        "engine": {"backend": "inline"},
    }
    run(parse(table), RunFolder(tmp_path / "iris" / "seed-0"), backend=InlineBackend())
    for command in ("show", "ls", "compare"):
        with pytest.raises(SystemExit) as caught:
            main([command, str(tmp_path / "iris")])
        assert caught.value.code == 0
        assert command != "show" or "[/bold]+x" in capsys.readouterr().out
