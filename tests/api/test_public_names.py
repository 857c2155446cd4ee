"""The public names: pinned, importable, and cheap until they are used."""

import subprocess
import sys

import pytest

import entrofed

PUBLIC = [
    "Advice",
    "ClientData",
    "ClientRule",
    "ClientTable",
    "Comparison",
    "ConfigError",
    "Context",
    "DataError",
    "EntrofedError",
    "Fact",
    "Federation",
    "Method",
    "Metrics",
    "Objective",
    "Result",
    "RoundRecord",
    "Selection",
    "Selector",
    "ServerRule",
    "Update",
    "Weigher",
    "Weighing",
    "__version__",
    "advise",
    "compare",
    "methods",
    "open_run",
    "run",
]


def test_public_names_are_these() -> None:
    assert sorted(entrofed.__all__) == sorted(PUBLIC)
    assert dir(entrofed) == sorted(entrofed.__all__)


def test_every_public_name_can_be_had() -> None:
    for name in PUBLIC:
        assert getattr(entrofed, name) is not None


def test_import_loads_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "scipy", "pydantic", "pyarrow", "altair")
    code = f"import sys, entrofed; print([name for name in {heavy!r} if name in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Federation"):
        entrofed.Federatoin  # noqa: B018
