"""The examples with own data, networks and methods run, and say what they say."""

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

import entrofed as ef

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name: str) -> ModuleType:
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_network() -> None:
    result = example("own_network").main(rounds=2)
    assert type(result.model).__name__ == "SmallNet"
    assert result.summary["rounds"] == 2


def test_own_method() -> None:
    found = example("own_method").main(rounds=2, seeds=2)
    assert isinstance(found, ef.Comparison)
    assert "fedavg" in str(found)
    assert len(found.rows) == 2


def test_own_table() -> None:
    found = example("own_table").main(rounds=2, seeds=1, progress=False)
    assert len(found) == 8
    assert "Budapest alone" in found
    assert all(0 < value < 1 for value in found.values())


@pytest.mark.slow
def test_tutorial(tmp_path: Path) -> None:
    """Every cell runs, with fewer rounds and seeds, and shows what it should."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "tutorial.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert "ROUNDS, SEEDS = 15, 3" in first.source
    first.source = first.source.replace("ROUNDS, SEEDS = 15, 3", "ROUNDS, SEEDS = 2, 2")
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    assert sum("text/html" in output["data"] for output in shown) >= 4
    assert (tmp_path / "report.html").stat().st_size > 100_000


def test_skewed_images(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without Fashion-MNIST it says so, and goes on with the digits."""
    found = example("skewed_images").main(rounds=1, seeds=1, directory=tmp_path, progress=False)
    assert {row["experiment"] for row in found.rows} == {"fedavg", "fedavg_uniform", "fedentopt"}
    assert "fashion-mnist is not in" in capsys.readouterr().out
