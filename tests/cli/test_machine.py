"""``--json``: one document each, with a schema that docs/json.md has."""

import csv
import io
import json
from collections.abc import Iterator
from inspect import signature
from pathlib import Path
from typing import Any

import pytest
from cyclopts import App
from tests.cli.calls import Go

from entrofed.cli import machine
from entrofed.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "json.md"


@pytest.fixture
def documents(go: Go) -> Any:
    """Runs a command with --json; its document holds the schema and keys that the page names."""
    page = PAGE.read_text()

    def read(*words: str) -> dict[str, Any]:
        code, out, _ = go(*words, "--json")
        assert code == 0
        found: dict[str, Any] = json.loads(out)
        section = page.split(f"## `{found['schema']}`")[1].split("\n## ")[0]
        for key in list(found)[2:]:
            assert f"`{key}`" in section, f"{found['schema']}: the page does not have {key}"
        return found

    return read


def test_looking_at_runs(go: Go, documents: Any) -> None:
    for name in ("a", "b"):
        assert go("run", "iris.toml", "--seeds", "2", "--set", f"name={name}", "--set", "method.lr=0.1").code == 0
    (first, *_) = runs = documents("ls")["runs"]
    assert [run["run"] for run in runs] == ["a/seed-0", "a/seed-1", "b/seed-0", "b/seed-1"]
    assert (first["status"], first["played"], first["rounds"], first["seed"]) == ("finished", 2, 2, 0)
    (shown,) = documents("show", "runs/a/seed-0", "--target", "0.1")["runs"]
    assert shown["summary"]["accuracy"] == shown["records"][-1]["test"]["accuracy"] == first["accuracy"]
    assert shown["experiment"]["data"]["clients"] == 3
    assert shown["reached"]["rounds"] >= 1
    found = documents("compare", "runs", "--against", "a")
    assert [row["experiment"] for row in found["experiments"]] == ["a", "b"]
    (test,) = found["tests"]
    assert (test["method"], test["against"], test["paired"]["difference"]) == ("b", "a", 0.0)
    assert documents("compare", "runs")["tests"] is None
    assert "| b | +0.00 |" in go("compare", "runs", "--against", "a", "--md").out
    rows = list(csv.DictReader(io.StringIO(go("compare", "runs", "--against", "a", "--csv").out)))
    assert [(row["against"], row["gain"], row["pairs"]) for row in rows] == [("", "", ""), ("a", "0.0", "2")]
    code, out, err = go("compare", "runs", "--against", "c")
    assert (code, out, "unknown experiment 'c'" in err) == (2, "", True), "before any table is printed"


def test_checking(documents: Any, go: Go) -> None:
    found = documents("validate", "iris.toml")
    assert (found["federation"]["clients"], found["federation"]["cohort"]) == (3, 2)
    assert found["model"]["parameters"] > 0
    assert found["edges"] is None
    peers = documents("validate", "iris.toml", "--set", "topology.kind=ring", "--unset", "method.cohort")
    assert peers["edges"] == [[0, 1], [0, 2], [1, 2]]
    assert documents("doctor")["ok"] is True
    assert "iris" in {entry["name"] for entry in documents("data", "list")["datasets"] if entry["here"]}
    code, out, _ = go("validate", "iris.toml", "--json", "--set", "data.name=mnist")
    assert (code, out) == (3, ""), "nothing is printed of what cannot be run"


def test_the_rest(documents: Any) -> None:
    Path("counts.csv").write_text("client,a,b\n0,5,0\n1,0,5\n2,3,3\n3,1,4\n")
    assert documents("advise", "counts.csv", "--rounds", "2", "--seeds", "1")["findings"]["cohort"] == 2
    words = ("study", "selection", "--counts", "counts.csv", "--cohort", "2", "--rounds", "2", "--partitions", "1")
    found = documents(*words)
    assert found["study"] == "selection"
    assert found["rows"]
    words = ("reproduce", "inv_entropy/table8", "--cell", "iris", "--column", "FedAvg", "--column", "Entropy")
    cells = {(cell["table"], cell["cell"]): cell for cell in documents("reproduce", "list")["cells"]}
    assert cells["inv_entropy/table8", "iris"]["here"]
    assert not cells["fedentopt/table1", "cifar10-c2"]["here"]
    assert "FedEntOpt" in cells["fedentopt/table1", "cifar10-c2"]["columns"]
    assert not cells["record/cifar10", "dir0.1"]["reported"]
    planned = documents(*words, "--rounds", "1", "--seeds", "1", "--dry-run")
    assert [(run["finished"], run["stored"]) for run in planned["runs"]] == [(False, False)] * 2
    played = documents(*words, "--rounds", "1", "--seeds", "2")
    assert all(run["finished"] for run in played["runs"])
    (table,) = played["tables"]
    assert table["cells"][0]["cell"] == "iris"


def test_what_commands_play(go: Go, documents: Any) -> None:
    (run,) = documents("run", "iris.toml", "--set", "name=a")["runs"]
    assert (run["run"], run["status"], run["played"]) == ("a/seed-0", "finished", 2)
    assert documents("resume", "runs/a")["runs"] == [run]
    found = documents("sweep", "iris.toml", "--grid", "method.lr=0.1,0.2", "--jobs", "1")
    assert [row["experiment"] for row in found["experiments"]] == ["lr-0.1", "lr-0.2"]
    assert [each["status"] for each in found["runs"]] == ["finished", "finished"]
    assert found["trials"] is None


def test_a_search(documents: Any) -> None:
    pytest.importorskip("optuna")
    words = ("sweep", "iris.toml", "--tune", "method.epochs=1..2", "--trials", "2", "--set", "data.holdout=0.2")
    trials = documents(*words)["trials"]
    assert [list(trial) for trial in trials] == [["settings", "value"]] * 2
    assert trials[0]["value"] >= trials[1]["value"]


def test_what_is_reported_claimed_and_intact(documents: Any) -> None:
    (table,) = documents("papers", "infodiv/table1")["tables"]
    assert [set(cell["values"]) <= set(table["metrics"]) for cell in table["cells"]] == [True] * 9
    assert table["cells"][0]["values"]
    assert len(documents("papers")["tables"]) > 10
    assert {file["state"] for file in documents("data", "verify", "iris")["files"]} == {"ok"}
    assert [claim["holds"] for claim in documents("privacy", "audit", "--trials", "100")["claims"]] == [True] * 3


def _leaves(commands: App, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], App]]:
    for name in commands:
        if not name.startswith("-"):
            yield (*path, name), commands[name]
            yield from _leaves(commands[name], (*path, name))


def test_every_command_has_it_or_is_named_as_one_without() -> None:
    without = PAGE.read_text().split("## Commands without")[1]
    for path, command in _leaves(app):
        takes = command.default_command is not None and "as_json" in signature(command.default_command).parameters
        name = " ".join(path)
        if command.default_command is not None:
            assert takes is not (f"`{name}`" in without), name


def test_what_is_no_number_is_null() -> None:
    assert machine.plain([float("nan"), (1, Path("a"))]) == [None, [1, "a"]]
