"""``--json``: one document each, with a schema that docs/json.md has."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calls import Go

from entrofed.cli import machine

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


def test_what_is_no_number_is_null() -> None:
    assert machine.plain([float("nan"), (1, Path("a"))]) == [None, [1, "a"]]
