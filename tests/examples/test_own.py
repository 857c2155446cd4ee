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
def test_notebook() -> None:
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(EXAMPLES / "own_method.ipynb", as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ()) if "data" in output]
    assert sum("text/html" in output["data"] for output in shown) >= 4
