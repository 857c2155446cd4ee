"""Code of README and docs runs: what is cheap as it stands, what trains with fewer rounds.

Blocks of a page run from top to bottom in one empty folder with ``examples/``, and see what those before them made.
Python, or a command, that is followed by a block of text prints that text. Commands of ours are called, but for those
of ``PARSED``, which must be understood by the command line. A block with a title is written to that file.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from itertools import chain
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

PARSED = {
    "data fetch": "needs a network",
    "peer run": "goes on until it is stopped; tests/peer starts peers",
    "peer status": "asks a peer that runs",
    "report trial": "of peers that have run",
    "report basel": "of peers that have run",
    "reproduce fedentopt": "needs CIFAR-10, and hours",
    "reproduce record": "needs CIFAR-10, and hours",
    "leaderboard --federation cifar10": "needs CIFAR-10, and hours; tests/leaderboard plays short ones",
    "reproduce fedep": "takes half an hour; tests/papers plays short ones",
    "reproduce collect": "of what the papers' runs left; tests/papers collects some",
    "reproduce page": "of what was collected; tests/papers writes pages",
}
"""Commands of ours that are only parsed, by their first words, and why."""
ELSEWHERE = {
    "flwr": "tests/flower_deployment starts apps, and what they need",
    "flower-superlink": "tests/flower_deployment starts one",
    "flower-supernode": "tests/flower_deployment starts some",
    "tail": "waits for a deployed run",
    "cd": "to an app of Flower",
    "export": "settings of Flower",
    "source": "the environment that is there already",
    "make": "installs and takes minutes; a target of that name is there",
    "pip": "needs a network; an extra of that name is there",
    "python examples/skewed_images.py": "needs Fashion-MNIST",
    "python -m pytest": "of a file that the reader writes",
}
"""Commands of other programs that are not run, by their first words, and why."""
FEWER = {
    "run": ("--set", "rounds=2", "--set", "engine.backend=inline"),
    "sweep": ("--set", "rounds=2", "--set", "engine.backend=inline"),
    "sweep --tune": ("--trials", "2"),
    "advise": ("--rounds", "3", "--seeds", "2"),
    "study selection": ("--rounds", "3"),
}
"""What makes commands short: all words of the key are in them."""
OTHER_TOML = ("superlink", "project", "run")
"""Keys by which TOML of others is known: Flower's configuration and apps, a peer's own file."""
BEFORE = {
    "docs/export.md": ("entrofed run mine.toml --set method.cohort=2",),
    "docs/peers.md": (
        "entrofed peer new project --peers 1 --experiment examples/peers-hospitals.toml",
        "mv project/peer-0 basel",
        "cp project/agreed.toml basel",
        "sed -i 's|../agreed.toml|agreed.toml|; s|peer-0|basel|' basel/peer.toml",
    ),
}
"""Commands that a page takes for done, or says in words."""
GIVEN = {
    "docs/export.md": '''
from pathlib import Path
import nets
import numpy as np
NET = """
import torch
class MyNet(torch.nn.Sequential):
    def __init__(self):
        super().__init__(torch.nn.Flatten(), torch.nn.Linear(64, 3))
"""
MINE = """
rounds = 1
model = "nets.py:MyNet"
[data]
path = "pictures.npz"
clients = 2
test = 0.2
"""
exec(NET)
nets.MyNet = MyNet
pixels = np.random.default_rng(0).integers(0, 256, (30, 1, 8, 8), dtype=np.uint8)
np.savez("pictures.npz", x=pixels, y=np.arange(30) % 3)
Path("nets.py").write_text(NET)
Path("mine.toml").write_text(MINE)
''',
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
    for line in BEFORE.get(page, ()):
        run_command(line, page, capsys)
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
                printed = run_command(line, where, capsys)
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


def run_command(line: str, where: str, capsys: pytest.CaptureFixture[str]) -> str | None:
    """What a command of ours printed, if it was run."""
    line = line.partition(" | ")[0]
    words = shlex.split(line, comments=True)
    if not words:
        return None
    if words[0] == "make":
        assert all(re.search(rf"^{word}:", (ROOT / "Makefile").read_text(), re.MULTILINE) for word in words[1:]), where
    elif words[0] == "pip":
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        assert all(extra in extras for extra in re.findall(r"\[(.*?)\]", line)), where
    elif words[0] in ("cp", "mv", "sed"):
        subprocess.run(words, check=True)
    elif words[:2] == ["python", "make_keys.py"]:
        subprocess.run([sys.executable, *words[1:]], check=True, cwd="examples/flower-secure", capture_output=True)
    elif words[0] == "entrofed":
        words = shlex.split(re.sub(r"--seeds \d+", "--seeds 2", line), comments=True)[1:]
        if begins(words, PARSED):
            app.parse_args(words, exit_on_error=False, print_error=False)
            return None
        fewer = [more for key, more in FEWER.items() if set(key.split()) <= set(words)]
        code, out, err = caller(capsys)(*words, *chain.from_iterable(fewer))
        assert code == 0, f"{where}: {line}\n{out}\n{err}"
        return out
    else:
        assert begins(words, ELSEWHERE), f"{where}: {line}"
    return None


def begins(words: list[str], known: Iterable[str]) -> bool:
    """Whether a command begins with words that are known."""
    return any(" ".join(words).startswith(key) for key in known)


def test_what_is_not_run_is_there() -> None:
    """No reason outlives its command."""
    shell = [block.text for page in PAGES if page not in GENERATED for block in blocks(page) if block.language == "sh"]
    lines = [
        " ".join(shlex.split(line, comments=True)) for text in shell for line in text.replace("\\\n", "").splitlines()
    ]
    for key in (*(f"entrofed {key}" for key in PARSED), *ELSEWHERE):
        assert any(line.startswith(key) for line in lines), key


@pytest.mark.parametrize("page", PAGES)
def test_files_that_are_shown_are_as_they_are(page: str) -> None:
    for block in blocks(page):
        if block.title is not None and (ROOT / block.title).exists():
            assert block.text == (ROOT / block.title).read_text(encoding="utf-8"), f"{page}:{block.line}"
