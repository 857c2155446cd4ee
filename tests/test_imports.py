"""The floor plan: imports go one way, never round in a circle, and few modules lie flat in the package."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import networkx as nx
import pytest

import entrofed

ROOT = Path(entrofed.__file__).parent
LAYERS = (
    ("errors",),
    ("files",),
    ("info",),
    ("core",),
    ("data", "models", "facts", "privacy", "tracking"),
    ("selectors", "weighers", "objectives", "servers"),
    ("registry",),
    ("methods",),
    ("client",),
    ("backends",),
    ("experiment",),
    ("peer",),
    ("charts",),
    ("suite",),
    ("papers", "studies"),
    ("leaderboard",),
    ("report", "export", "flower"),
    ("cli",),
    ("api",),
    ("__main__",),
)
"""A module imports from its own package and from those of earlier lines; packages on one line are strangers."""
LEVEL = {package: level for level, packages in enumerate(LAYERS) for package in packages}
FLAT = 5
FREE = "__version__"
"""All that is imported from ``entrofed`` itself, which gathers the public names of all others."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imports(source: str, module: str, modules: set[str]) -> Iterator[str]:
    """The modules that a module imports at any place: at its top, in functions, and for type checkers only."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are absolute"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found = inner if inner in modules else node.module
                if found in modules and (found, alias.name) != ("entrofed", FREE):
                    yield found


@cache
def graph() -> nx.DiGraph:
    """Who imports whom."""
    return nx.DiGraph(
        (module, found)
        for module, path in MODULES.items()
        if module != "entrofed"  # the public names
        for found in imports(path.read_text(encoding="utf-8"), module, set(MODULES))
    )


def package(module: str) -> str:
    return module.split(".")[1]


def wrong_way(importer: str, imported: str) -> bool:
    if imported == "entrofed":
        return True
    above, below = package(importer), package(imported)
    return above != below and LEVEL[below] >= LEVEL[above]


def test_every_package_has_its_place() -> None:
    found = {package(module) for module in MODULES if module != "entrofed"}
    assert found == set(LEVEL)


def test_imports_go_one_way() -> None:
    wrong = sorted(
        f"{importer} imports {imported}" for importer, imported in graph().edges if wrong_way(importer, imported)
    )
    assert not wrong, "\n".join(wrong)


def test_no_import_goes_round_in_a_circle() -> None:
    circles = [group for group in nx.strongly_connected_components(graph()) if len(group) > 1]
    shown = [" -> ".join(edge[0] for edge in nx.find_cycle(graph().subgraph(group))) for group in circles]
    shown += [f"{module} -> itself" for module in nx.nodes_with_selfloops(graph())]
    assert not shown, "\n".join(shown)


def test_few_modules_lie_flat() -> None:
    flat = sorted(path.name for path in ROOT.glob("*.py"))
    assert len(flat) <= FLAT, flat


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import a.b", ["a.b"]),
        ("from a import b, c", ["a.b", "a"]),
        ("def f():\n    from a.b import x", ["a.b"]),
        ("if TYPE_CHECKING:\n    from a.b import x", ["a.b"]),
        ("import numpy\nfrom numpy import b", []),
    ],
)
def test_imports_are_found_wherever_they_are(source: str, found: list[str]) -> None:
    assert list(imports(source, "a", {"a", "a.b"})) == found


@pytest.mark.parametrize(
    ("importer", "imported", "wrong"),
    [
        ("entrofed.core.round", "entrofed.core.types", False),
        ("entrofed.core.round", "entrofed.client.train", True),
        ("entrofed.papers.page", "entrofed.suite.words", False),
        ("entrofed.suite.sweep", "entrofed.papers.tables", True),
        ("entrofed.papers.page", "entrofed.studies.topology", True),
        ("entrofed.report.costs", "entrofed.cli.main", True),
        ("entrofed.core.round", "entrofed", True),
    ],
)
def test_which_way_is_wrong(importer: str, imported: str, wrong: bool) -> None:
    assert wrong_way(importer, imported) is wrong
