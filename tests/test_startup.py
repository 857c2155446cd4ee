"""What is loaded before anything happens: to import a package that a command does not use is most of its time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

HEAVY = ("torch", "scipy.special", "scipy.stats", "sklearn", "pandas", "pyarrow", "networkx", "altair", "jinja2")
ELSEWHERE = ("ray", "flwr", "grpc", "mlflow", "wandb", "tensorboard", "optuna", "numba", "dp_accounting", "opendp")
SCRIPT = """
import json, sys
from importlib import import_module
from pathlib import Path
import entrofed
watched, commands, modules = json.loads(sys.argv[1])
found = {"import": [name for name in watched if name in sys.modules]}
from entrofed.cli.main import main
for command in commands:
    try:
        main(command)
    except SystemExit as ended:
        assert ended.code == 0, command
    found[command[0]] = [name for name in watched if name in sys.modules]
for module in modules:
    import_module(module)
    found[module] = [name for name in watched if name in sys.modules]
Path("loaded.json").write_text(json.dumps(found))
"""


def loaded(
    folder: Path, watched: tuple[str, ...], *commands: list[str], modules: tuple[str, ...] = ()
) -> dict[str, list[str]]:
    """Which are there after each command, and after each of our modules is imported, all in one process of its own."""
    given = json.dumps([watched, commands, modules])
    subprocess.run([sys.executable, "-c", SCRIPT, given], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    found: dict[str, list[str]] = json.loads((folder / "loaded.json").read_text())
    return found


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    chosen = parse({"rounds": 2, "data": {"name": "digits", "clients": 3}, "engine": {"backend": "inline"}})
    run(chosen, RunFolder(tmp_path / "runs" / "short" / "seed-0"))
    return tmp_path


def test_looking_at_runs_loads_nothing_that_computes(folder: Path) -> None:
    watched = ("numpy", *HEAVY, *ELSEWHERE, "pydantic", "multiprocessing")
    commands = (["--help"], ["ls"], ["show", "runs"], ["show", "runs", "--selection", "--weights"])
    assert loaded(folder, watched, *commands) == {
        "import": [],
        "--help": [],
        "ls": ["numpy"],
        "show": ["numpy"],
    }


def test_a_small_run_loads_what_it_uses(tmp_path: Path) -> None:
    """And starts no process: the module that does so is not there."""
    (tmp_path / "small.toml").write_text('rounds = 2\n[data]\nname = "digits"\nclients = 3\n')
    watched = (*HEAVY, *ELSEWHERE, "scipy.optimize", "sqlite3", "entrofed.backends.processes", "entrofed.report")
    found = loaded(tmp_path, watched, ["run", "small.toml"], modules=("entrofed.cli.quickstart",))
    assert found["run"] == ["torch", "pyarrow"]  # pyarrow for metrics.parquet, after the last round
    assert found["entrofed.cli.quickstart"] == found["run"]
