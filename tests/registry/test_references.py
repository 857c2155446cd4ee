"""Objects in files and packages: found, run once, and what is wrong said in words."""

import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from entrofed.errors import ConfigError
from entrofed.registry.references import FILES, absolute, importable, load, reference_of

Write = Callable[..., str]


@pytest.fixture
def write(tmp_path: Path) -> Iterator[Write]:
    """Writes a file and returns a reference into it; what was loaded is forgotten afterwards."""
    before, path = set(FILES), list(sys.path)

    def write(source: str, name: str = "Thing", file: str = "code.py") -> str:
        (tmp_path / file).write_text(source)
        return f"{tmp_path / file}:{name}"

    yield write
    sys.path[:] = path
    for module in set(FILES) - before:
        del FILES[module], sys.modules[module]


def test_a_name_in_a_file(write: Write) -> None:
    reference = write("class Thing:\n    class Inner: pass\n\ndef make(): return Thing()\n")
    thing = load(reference)
    assert thing.__name__ == "Thing"
    assert load(reference.replace("Thing", "make"))().__class__ is thing  # the file is run once
    assert load(f"{reference}.Inner") is thing.Inner
    assert reference_of(thing) == reference
    assert reference_of(thing.Inner) == f"{reference}.Inner"


def test_a_file_that_has_changed_is_run_again(write: Write) -> None:
    before = load(write("Thing = 1"))
    assert (before, load(write("Thing = 2"))) == (1, 2)
    assert load(write("Thing = 1")) == 1


def test_files_of_the_same_name_are_apart_and_see_those_beside_them(write: Write, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "beside_for_this_test.py").write_text("value = 7")
    assert load(write("import beside_for_this_test\nThing = beside_for_this_test.value")) == 7
    assert load(write("Thing = 3", file="deep/code.py")) == 3
    sys.modules.pop("beside_for_this_test")


def test_dataclasses_and_postponed_annotations(write: Write) -> None:
    imports = "from __future__ import annotations\nfrom dataclasses import dataclass\n"
    assert load(write(f"{imports}@dataclass\nclass Thing:\n    a: int = 1\n"))(3).a == 3


def test_a_name_in_a_package() -> None:
    assert load("fractions:Fraction") is Fraction
    assert load("os.path:join") is __import__("os").path.join
    assert reference_of(Fraction) == "fractions:Fraction"


@pytest.mark.parametrize(
    ("source", "name", "said"),
    [
        ("class MyNet: pass", "MyNett", "unknown name in {path}: 'MyNett'; did you mean 'MyNet'? (known: MyNet)"),
        ("import os\n_hidden = 1", "Thing", "unknown name in {path}: 'Thing' (known: none)"),
        ("class Thing(\n", "Thing", "{path} cannot be loaded: {path}, line 1: '(' was never closed"),
        (
            "x = 1\nx = [][0]\n",
            "Thing",
            "{path} cannot be loaded: IndexError: list index out of range (<module>, code.py line 2)",
        ),
        (
            "def f():\n    return {}['a']\nf()",
            "Thing",
            "{path} cannot be loaded: KeyError: 'a' (f, code.py line 2)",
        ),
        (
            "import sys\nraise SystemExit(3)",
            "Thing",
            "{path} cannot be loaded: SystemExit: 3 (<module>, code.py line 2)",
        ),
        (
            "import not_a_module_at_all",
            "Thing",
            "{path} cannot be loaded: ModuleNotFoundError: No module named 'not_a_module_at_all' (<module>, code.py",
        ),
        ("\0", "Thing", "{path} cannot be loaded: "),
    ],
)
def test_code_that_cannot_be_used(write: Write, source: str, name: str, said: str) -> None:
    reference, before = write(source, name), set(sys.modules)
    with pytest.raises(ConfigError) as caught:
        load(reference)
    assert str(caught.value).startswith(said.format(path=reference.rpartition(":")[0]))
    left = [module for module in sys.modules if module.startswith("code_") and module not in before]
    assert said.startswith("unknown") or not left


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("/nowhere/nets.py:Net", "/nowhere/nets.py: there is no such file"),
        (f"{Path(__file__).parent}/.py:Net", "no such file"),
        (
            "no_such_package.nets:Net",
            "there is no module 'no_such_package': install it, put its folder on PYTHONPATH, or",
        ),
        ("os.no_such:Net", "there is no module 'os.no_such'"),
        ("pathlib:Pat", "did you mean 'Path'?"),
        ("pathlib:", "a reference looks like 'file.py:Name'"),
        (":Net", "a reference looks like"),
        ("..:Net", "cannot be loaded"),
        ("__main__:<lambda>", "was defined in a script or notebook, and is not known here: run that again"),
        ("__main__:Net", "move the definition into a file and name it as 'file.py:Net'"),
    ],
)
def test_references_to_nothing(reference: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(reference)
    assert said in str(caught.value)


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "nets.py").mkdir()
    with pytest.raises(ConfigError, match="not readable: Is a directory"):
        load(f"{tmp_path / 'nets.py'}:Net")


def test_relative_paths(tmp_path: Path) -> None:
    assert absolute("../nets.py:Net", tmp_path / "a") == f"{tmp_path / 'nets.py'}:Net"
    assert absolute(f"{tmp_path}/nets.py:Net", Path("/elsewhere")) == f"{tmp_path}/nets.py:Net"
    assert absolute("~/nets.py:Net", tmp_path) == f"{Path.home()}/nets.py:Net"


def test_what_another_process_can_import(write: Write) -> None:
    class Local:
        pass

    assert all(importable(thing) for thing in (int, type(len), Path, absolute, type))
    assert not any(importable(thing) for thing in (Local, lambda: 0, load(write("class Thing: pass"))))
    Local.__qualname__, Local.__module__ = "Net", "__main__"
    assert not importable(Local)
