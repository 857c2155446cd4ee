"""Code of README and docs runs: what is cheap as it stands, what trains with fewer rounds, slow commands only parsed.

Blocks of a page run from top to bottom in one empty folder with ``examples/``, and see what those before them made.
Python that is followed by a block of text prints that text. Commands of ours are called; those that take minutes, or
need a network, must be understood by the command line. A block with a title is written to that file.
"""

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from rich.console import Console
from tests.cli.calls import caller
from tests.docs.pages import GENERATED, PAGES, ROOT, Block, blocks

import entrofed.api.run as api
from entrofed.cli import console as terminal
from entrofed.cli.main import app
from entrofed.experiment.config import Experiment, parse

PLAYED = (
    "run",
    "resume",
    "validate",
    "advise",
    "ls",
    "show",
    "compare",
    "report",
    "export",
    "parts",
    "papers",
    "data",
    "explain",
)
ONLY_READ = (
    "--live",
    "--backend flower",
    "--tune",
    "advise examples",
    "advise mine",
    "data fetch",
    "data verify",
    "--to ",
    "shakespeare",
    "cifar",
    "mnist",
)
"""Commands of these that need more than a moment, a network, other data or another program."""
FEWER = ("--set", "rounds=2", "--set", "engine.backend=inline")
ELSEWHERE = ("flwr", "flower-superlink", "flower-supernode", "cd", "cp", "export", "source", "tail", "printf", "git")
"""Commands of other programs."""
OTHER_TOML = ("superlink", "project", "run")
"""Keys by which TOML of others is known: Flower's configuration and apps, a peer's own file."""
MANY_PROCESSES = ("docs/peers.md",)
"""Pages whose commands work together with processes that other tests start."""
GIVEN = {
    "docs/export.md": """
import nets
import numpy as np, torch
import entrofed as ef
class MyNet(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 3))
nets.MyNet = MyNet
pixels = np.random.default_rng(0).integers(0, 256, (30, 1, 8, 8), dtype=np.uint8)
federation = ef.Federation.partition(pixels, np.arange(30) % 3, clients=2, test=0.2)
result = ef.run(federation, model=MyNet, cohort=2)
for ending in ("safetensors", "pt2", "onnx"):
    result.export(f"model.{ending}")
""",
    "docs/privacy.md": """
from entrofed.flower import EntroStrategy, Task, client_app
task = Task(build=lambda: None, load=lambda context: None)
""",
}
"""What a page takes as given."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder with the examples; runs from Python are short, in this process, and silent."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("*.ipynb"))
    shutil.copy(ROOT / "examples/hospitals.csv", tmp_path / "visits.csv")
    (tmp_path / "runs").mkdir()
    monkeypatch.setitem(sys.modules, "nets", ModuleType("nets"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(terminal, "console", Console(width=80))
    full = api.run

    def short(*args: Any, **options: Any) -> Any:
        options["seeds"] = min(options.get("seeds", 1), 2)
        options["rounds"] = min(options.get("rounds", 2), 3)
        return full(*args, **{**options, "progress": False, "backend": "inline"})

    monkeypatch.setattr(api, "run", short)
    return tmp_path


@pytest.mark.parametrize("page", [page for page in PAGES if page not in GENERATED and blocks(page)])
def test_blocks(page: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {"__name__": "page"}
    exec(GIVEN.get(page, ""), names)  # noqa: S102
    for block in blocks(page):
        if block.title is not None and not Path(block.title).exists():
            Path(block.title).write_text(block.text, encoding="utf-8")
    printed = None
    for block in blocks(page):
        where = f"{page}:{block.line}"
        if block.language == "text" and printed is not None:
            assert printed.strip() == block.text.strip(), where
        printed = None
        if block.language == "python":
            printed = run_python(block, names, where, capsys)
        elif block.language == "toml":
            read_toml(block, where)
        elif block.language in ("sh", "console"):
            for line in re.sub(r"\\\n\s*", "", block.text).splitlines():
                run_command(line, where, capsys, played=page not in MANY_PROCESSES)
        else:
            assert block.language in ("text", "csv", "diff", "json"), f"{where}: {block.language!r} is not tested"


def run_python(block: Block, names: dict[str, Any], where: str, capsys: pytest.CaptureFixture[str]) -> str:
    code = compile(block.text, where, "exec")
    capsys.readouterr()
    exec(code, names)  # noqa: S102
    return capsys.readouterr().out


def read_toml(block: Block, where: str) -> None:
    table = tomllib.loads(block.text)
    if any(key in table for key in OTHER_TOML):
        return
    assert set(table) <= set(Experiment.model_fields), where
    parse({"model": "digits_mlp", "rounds": 50, **table}, where=where)


def run_command(line: str, where: str, capsys: pytest.CaptureFixture[str], *, played: bool) -> None:
    line = line.partition(" | ")[0]
    words = shlex.split(line, comments=True)
    if not words or words[0] in ELSEWHERE:
        return
    if words[0] == "make":
        assert all(re.search(rf"^{word}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for word in words[1:]), where
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert all(extra in extras for extra in re.findall(r"\[(.*?)\]", line)), where
    elif words[0] == "python":
        assert words[1] == "-m" or any((ROOT / near / words[1]).exists() for near in ("", "examples/flower-secure")), (
            where
        )
    else:
        assert words[0] == "entrofed", f"{where}: {line}"
        words = shlex.split(re.sub(r"--seeds \d+", "--seeds 2", line), comments=True)[1:]
        if played and words[0] in PLAYED and not any(slow in line for slow in ONLY_READ):
            code, out, err = caller(capsys)(*words, *(FEWER if words[0] == "run" else ()))
            assert code == 0, f"{where}: {line}\n{out}\n{err}"
        else:
            app.parse_args(words, exit_on_error=False, print_error=False)
