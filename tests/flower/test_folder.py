"""The folder of a deployed run is a run's folder."""

import pytest

pytest.importorskip("flwr", reason="needs the extra flower")

import json
from pathlib import Path

from flwr.app import MetricRecord
from tests.cli.calls import caller
from tests.flower.fake import Federation, bits, iris, start

import entrofed as ef
from entrofed.experiment.run_folder import RunFolder, find_runs
from entrofed.flower.folder import metrics_of
from entrofed.report.collect import read_groups


def evaluated(number, arrays):
    return MetricRecord({"accuracy": number / 10, "loss": 1.5, "auc": 0.5})


@pytest.fixture
def folder(tmp_path):
    start(Federation.of(iris()), "fedentopt", folder=tmp_path / "first", evaluate_fn=evaluated, fraction_evaluate=1.0)
    return tmp_path / "first"


def test_what_was_evaluated_is_recorded(folder):
    records = RunFolder(folder).records()
    assert [record.test.accuracy for record in records] == [0.1, 0.2]
    assert [(record.test.loss, record.test.macro_f1, record.test.extra) for record in records] == [
        (1.5, None, {"auc": 0.5})
    ] * 2
    assert all(0 <= record.in_distribution.accuracy <= 1 for record in records)
    assert RunFolder(folder).summary()["accuracy"] == 0.2


def test_every_command_that_looks_at_runs_knows_it(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    go = caller(capsys)
    (listed,) = json.loads(go("ls", str(folder), "--json").out)["runs"]
    assert (listed["status"], listed["method"], listed["accuracy"]) == ("finished", "fedentopt", 0.2)
    assert "accuracy 0.2000" in go("show", str(folder), "--selection", "--weights").out
    assert go("compare", str(folder)).code == go("compare", str(folder), "--md").code == 0
    assert go("export", str(folder), "--to", "csv").code == 0
    assert go("export", str(folder), "--to", "model.safetensors").code == 0
    assert go("report", str(folder), "-o", "page.html").code == 0
    assert "fedentopt" in Path("page.html").read_text()
    code, _, err = go("export", str(folder), "--to", "model.pt2")
    assert (code, "a Flower app's" in err, ".safetensors works always" in err) == (2, True, True)
    code, _, err = go("resume", str(folder))
    assert (code, "unexpected" in err) == (2, False)


def test_deployed_runs_side_by_side_are_compared(folder, capsys, tmp_path, monkeypatch):
    """Two runs of one seed in folders side by side were taken for one experiment, and one of them was lost."""
    monkeypatch.chdir(tmp_path)
    start(Federation.of(iris()), "fedavg", folder=tmp_path / "second", evaluate_fn=evaluated)
    go = caller(capsys)
    rows = json.loads(go("compare", "first", "second", "--json").out)["experiments"]
    assert [(row["experiment"], row["seeds"]) for row in rows] == [("first", 1), ("second", 1)]
    opened = ef.compare(ef.open_run("second"), ef.open_run("first"))
    assert [row["experiment"] for row in opened.rows] == ["second", "first"]
    assert [group.name for group in read_groups(find_runs([tmp_path]))] == ["first", "second"]


def test_it_goes_on_with_more_rounds(folder):
    _, unbroken = start(Federation.of(iris()), "fedentopt", rounds=3)
    _, resumed = start(
        Federation.of(iris()), "fedentopt", folder=folder, rounds=3, evaluate_fn=evaluated, fraction_evaluate=1.0
    )
    assert bits(resumed.arrays) == bits(unbroken.arrays)
    assert RunFolder(folder).experiment().rounds == 3
    assert RunFolder(folder).summary()["rounds"] == 3


def test_a_round_whose_evaluation_fails_is_kept(tmp_path):
    def broken(number, arrays):
        if number == 2:
            raise RuntimeError("no test data")
        return evaluated(number, arrays)

    with pytest.raises(RuntimeError, match="no test data"):
        start(Federation.of(iris()), folder=tmp_path, rounds=3, evaluate_fn=broken)
    assert [record.test is None for record in RunFolder(tmp_path).records()] == [False, True]


def test_without_an_accuracy_there_is_no_summary(tmp_path):
    start(Federation.of(iris()), folder=tmp_path)
    assert RunFolder(tmp_path).summary() is None
    assert len(RunFolder(tmp_path).records()) == 2


@pytest.mark.parametrize("found", [None, {}, {"accuracy": 55.0}, {"accuracy": [0.5]}, {"a_acc": 0.1, "b_acc": 0.2}])
def test_what_is_no_accuracy(found):
    assert metrics_of(found) is None
