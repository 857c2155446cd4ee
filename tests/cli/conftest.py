"""A folder to call commands in."""

from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.calls import IRIS, Go, caller

from entrofed.cli import console as terminal


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Go:
    """Runs a command in a folder that holds iris.toml alone; consoles are wide enough for every line."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENTROFED_DATA", str(tmp_path / "no-data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr(terminal, "console", Console(width=200))
    Path("iris.toml").write_text(IRIS)
    return caller(capsys)
