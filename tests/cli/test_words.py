"""What commands say to somebody new: names that can be typed, commands that work, rules in our words."""

import os
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.calls import Go

from entrofed.cli import console as terminal
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse


def test_next_is_a_command_that_is_found(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path("venv/bin/entrofed").absolute()
    monkeypatch.setattr(sys, "argv", [str(place)])
    monkeypatch.setenv("PATH", "")
    out = go("run", "iris.toml", "--set", "name=a").out
    assert f"Next: {os.path.join('venv', 'bin', 'entrofed')} show runs/a" in out
    place.parent.mkdir(parents=True)
    place.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(place.parent))
    assert "Next: entrofed show runs/a" in go("run", "iris.toml", "--set", "name=a", "--overwrite").out


@pytest.mark.parametrize(
    ("words", "lister"), [(("parts", "fedentop"), "entrofed parts"), (("explain", "methd.lr"), "entrofed explain")]
)
def test_an_unknown_name_among_hundreds(go: Go, words: tuple[str, ...], lister: str) -> None:
    code, _, err = go(*words)
    assert code == 2
    assert "did you mean" in err
    assert f"'{lister}' lists them" in err
    assert len(err) < 200


def test_explain_has_no_markup(go: Go) -> None:
    out = go("explain").out
    assert "FILE.py:NAME" in out.replace("\n", "")
    assert "``" not in out


def test_cells_of_tables_at_80_columns(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "console", Console(width=80))
    out = go("reproduce", "list").out
    assert "…" not in out
    assert "absent" in out


def test_names_of_runs_are_whole_where_there_is_no_terminal(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    monkeypatch.setattr(terminal, "console", terminal.SafeConsole(width=40))
    name = "a-name-that-is-much-longer-than-any-column-of-forty-letters"
    assert go("run", "iris.toml", "--set", f"name={name}").code == 0
    assert f"{name}/seed-0" in go("ls", "runs").out
    Path("none").mkdir()
    assert "no runs below none; 'entrofed run FILE' makes some" in go("ls", "none").out


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"rounds": "abc"}, "rounds = 'abc': whole number >= 1 is expected"),
        ({"rounds": 2.5}, "rounds = 2.5: whole number >= 1 is expected"),
        ({"method": {"lr": -1}}, "method.lr = -1: number > 0 is expected"),
        ({"method": {"optimizer": "sgdd"}}, 'method.optimizer = \'sgdd\': "sgd" or "adam" or "adamw" is expected'),
        ({"faults": {"dropout": 2}}, "faults.dropout = 2: number >= 0, < 1 is expected"),
    ],
)
def test_a_wrong_value_is_told_with_the_rule_of_its_key(table: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse({"data": {"name": "iris"}, **table})
    assert words in str(caught.value)
    assert "Input should" not in str(caught.value)


def test_the_command_for_a_column_with_a_blank(go: Go) -> None:
    Path("visits.csv").write_text("\ufeffage;end diagnosis\n1;ill\n2;well\n3;ill\n", encoding="utf-8")
    assert "data describe visits.csv --label 'end diagnosis'" in go("data", "describe", "visits.csv").out


def test_numbers_with_a_decimal_comma(go: Go) -> None:
    rows = "".join(f"1{n},{n % 10};{n};{'ab'[n % 2]}\n" for n in range(60))
    Path("comma.csv").write_text(f"pressure;n;y\n{rows}")
    options = ("--label", "y", "--test", "0.2", "--json")
    assert (
        "numbers with a decimal comma, such as '10,0'; write them with a point"
        in go("data", "describe", "comma.csv", *options).out
    )
    Path("comma.toml").write_text(
        'rounds = 1\n[data]\npath = "comma.csv"\nlabel = "y"\ntest = 0.2\nclients = 2\npartition = "iid"\n'
    )
    code, _, err = go("validate", "comma.toml")
    assert code == 3
    assert "decimal comma" in err


def test_numbers_are_whole_at_80_columns(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside long names, and where training has run away."""
    monkeypatch.setattr(terminal, "console", Console(width=80))
    name = "a-name-that-is-longer-than-most-of-them"
    for words in (("--set", "name=short"), ("--set", f"name={name}")):
        assert go("run", "iris.toml", "--seeds", "2", *words).code == 0
    out = go("compare", "runs", "--against", "short").out
    table, tests = out.split("against short")
    assert "accuracy %" in table
    assert table.count(" ± ") == 7  # one in the caption
    assert " to " in tests.partition("won, lost")[2].partition("paired")[0]
    assert "…" not in out
    go("run", "iris.toml", "--set", "name=wild", "--set", "method.lr=1e12", "--set", "rounds=6")
    shown = go("show", "runs/wild").out
    assert "e+" in shown.partition("entropy")[2]
    assert "…" not in shown
