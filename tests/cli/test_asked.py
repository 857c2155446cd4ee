"""Metrics that an experiment asks for, targets and early ends on the command line."""

import csv
import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from tests.cli.calls import Go, caller

from entrofed.cli import console as terminal

FILE = """
rounds = 4
model = "digits_mlp"
metrics = ["balanced_accuracy", "client_accuracy"]
[data]
name = "digits"
clients = 4
holdout = 0.1
[method]
cohort = 2
lr = 0.3
[engine]
backend = "inline"
"""


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Go:
    """Runs a command in a folder with the file asked.toml."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(terminal, "console", Console(width=200))
    monkeypatch.setattr(terminal, "errors", Console(stderr=True, width=2000))
    Path("asked.toml").write_text(FILE)
    return caller(capsys)


@pytest.mark.slow
def test_metrics_are_shown_wherever_metrics_are(go: Go) -> None:
    assert go("run", "asked.toml", "--seeds", "2")[0] == 0
    assert go("run", "asked.toml", "--set", "metrics=[]", "--set", "name=plain")[0] == 0
    summary = json.loads(Path("runs/asked/seed-0/summary.json").read_text())
    fairness = [f"client_accuracy_{kind}" for kind in ("mean", "worst", "spread")]
    assert list(summary["metrics_test"]) == ["balanced_accuracy"]
    assert list(summary["metrics_id"]) == ["balanced_accuracy", *fairness]
    assert not any("metrics" in key for key in json.loads(Path("runs/plain/seed-0/summary.json").read_text()))

    shown = go("show", "runs/asked/seed-0")[1]
    for words in ("balanced accuracy", "client accuracy worst", f"{summary['metrics_test']['balanced_accuracy']:.4f}"):
        assert words in shown
    assert "client accuracy" not in go("show", "runs/plain")[1]

    rows = {row["experiment"]: row for row in json.loads(go("compare", "runs", "--json")[1])["experiments"]}
    values = [
        json.loads(Path(f"runs/asked/seed-{seed}/summary.json").read_text())["metrics_id"][fairness[1]]
        for seed in (0, 1)
    ]
    assert rows["asked"]["id_client_accuracy_worst_mean"] == pytest.approx(sum(values) / 2)
    assert rows["plain"]["id_client_accuracy_worst_mean"] is None
    assert "client accuracy worst" in go("compare", "runs")[1]
    assert "| client accuracy worst |" in go("compare", "runs", "--md")[1]
    assert "test_balanced_accuracy_std" in go("compare", "runs", "--csv")[1]

    assert go("report", "runs")[0] == 0
    page = Path("report.html").read_text()
    assert "Client accuracy worst" in page
    assert "Balanced accuracy (test)" in page
    assert go("export", "runs", "--to", "csv")[0] == 0
    cells = list(csv.DictReader(io.StringIO(Path("export/rounds.csv").read_text())))
    assert list(cells[0])[-5:] == [
        "id_balanced_accuracy",
        *(f"id_{name}" for name in sorted(fairness)),
        "test_balanced_accuracy",
    ]
    assert [bool(row["test_balanced_accuracy"]) for row in cells] == [row["experiment"] == "asked" for row in cells]


@pytest.mark.slow
def test_what_it_takes_to_reach_a_target(go: Go) -> None:
    for name, lr in (("fedavg", 0.3), ("slow", 0.001)):
        assert go("run", "asked.toml", "--seeds", "2", "--set", f"name={name}", "--set", f"method.lr={lr}")[0] == 0
    lines = [json.loads(line) for line in Path("runs/fedavg/seed-0/metrics.jsonl").read_text().splitlines()]
    first = next(line["round"] + 1 for line in lines if line["test"]["accuracy"] >= 0.6)
    assert f"accuracy 0.6: reached after {first} round" in go("show", "runs/fedavg/seed-0", "--target", "0.6")[1]
    assert "accuracy 0.99: not reached" in go("show", "runs/slow/seed-0", "--target", "0.99")[1]
    rows = {
        row["experiment"]: row
        for row in json.loads(go("compare", "runs", "--target", "0.6", "--json")[1])["experiments"]
    }
    assert (rows["fedavg"]["reached"], rows["slow"]["reached"]) == (2, 0)
    assert rows["slow"]["rounds_to_target_mean"] is None
    shown = go("compare", "runs", "--target", "0.6")[1]
    assert "rounds to 0.6" in shown
    assert "not reached" in shown
    assert go("report", "runs", "--target", "0.6")[0] == 0
    page = Path("report.html").read_text()
    assert "60.00 %" in page
    assert "is the mean of fedavg" in page
    for command in (("show", "runs/slow"), ("compare", "runs"), ("report", "runs")):
        code, _, said = go(*command, "--target", "90")
        assert code == 2
        assert "target 90: an accuracy above 0 and up to 1 is expected; 90 % is 0.9" in said


def test_a_run_that_ended_early_says_so(go: Go) -> None:
    code, out, _ = go("run", "asked.toml", "--set", "stop.target=0.3")
    assert code == 0
    summary = json.loads(Path("runs/asked/seed-0/summary.json").read_text())
    assert summary["rounds"] < 4
    assert summary["stopped"] in out
    assert summary["stopped"] in go("show", "runs/asked")[1]
    assert "stopped early" in go("ls")[1]
    assert go("report", "runs")[0] == 0
    assert f"{summary['rounds']} of 4" in Path("report.html").read_text()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["metrics=['auroc']"], "metric 'auroc' is for two classes, and 'digits' has 10"),
        (["metrics=['balanced_acuracy']"], "unknown metric 'balanced_acuracy'; did you mean 'balanced_accuracy'?"),
        (["metrics=['auroc', 'auroc']"], "metrics: 'auroc' is there twice"),
        (["data.holdout=0"], "metric 'client_accuracy' is measured on data that clients hold out"),
        (["track=['tensorbord']"], "unknown tracker 'tensorbord'; did you mean 'tensorboard'?"),
        (["stop.patience=3", "data.holdout=0", "metrics=[]"], "stop is judged by data that nobody trains on"),
        (["stop.target=90"], "stop.target = 90: an accuracy above 0 and up to 1 is expected; 90 % is 0.9"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_runs(go: Go, changes: list[str], words: str) -> None:
    code, _, said = go("run", "asked.toml", *(word for change in changes for word in ("--set", change)))
    assert code == 2
    assert words in said
    assert not Path("runs/asked/seed-0/metrics.jsonl").exists()
