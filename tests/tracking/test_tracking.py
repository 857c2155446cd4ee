"""Trackers are told of every round while it runs, once each, and never stop a run."""

import importlib
import os
from dataclasses import replace

import pytest

from entrofed.backends.inline import InlineBackend
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.tracking import trackers_of
from entrofed.tracking.numbers import scalars


def experiment(**changes):
    table = {
        "name": "t",
        "rounds": 4,
        "checkpoint_seconds": 0,
        "model": "iris_mlp",
        "data": {"name": "iris", "clients": 3},
        "engine": {"backend": "inline"},
    }
    return parse({**table, **changes})


class Notes:
    """A user's own."""

    def __init__(self):
        self.heard = []

    def start(self, run):
        self.heard.append(("start", run.label))

    def log(self, records):
        self.heard += [("round", record.round) for record in records]

    def finish(self, summary):
        self.heard.append(("finish", summary and summary["rounds"]))


def test_it_hears_of_everything_in_order(tmp_path):
    notes = Notes()
    seen = []
    run(
        experiment(),
        RunFolder(tmp_path),
        backend=InlineBackend(),
        trackers=[notes],
        observer=lambda record: seen.append((record.round, notes.heard[-1])),
    )
    assert notes.heard == [("start", "t/seed-0"), *(("round", i) for i in range(4)), ("finish", 4)]
    assert seen == [(i, ("round", i)) for i in range(4)]  # while it runs


def test_after_a_resume_it_hears_of_all_rounds(tmp_path):
    def interrupt(record):
        if record.round == 1:
            raise KeyboardInterrupt

    first, second = Notes(), Notes()
    with pytest.raises(KeyboardInterrupt):
        run(experiment(), RunFolder(tmp_path), backend=InlineBackend(), trackers=[first], observer=interrupt)
    assert first.heard[-1] == ("finish", None)
    run(experiment(), RunFolder(tmp_path), backend=InlineBackend(), trackers=[second], resume=True)
    assert second.heard == [("start", "t/seed-0"), *(("round", i) for i in range(4)), ("finish", 4)]


@pytest.mark.parametrize("moment", ["start", "log", "finish"])
def test_one_that_fails_is_left_out_with_one_warning(tmp_path, moment, caplog):
    class Broken(Notes):
        """Fails always, at one of the three."""

    def fail(self, *told):
        self.heard.append("failed")
        raise OSError("disk full")

    setattr(Broken, moment, fail)
    broken, notes = Broken(), Notes()
    plain = RunFolder(tmp_path / "plain")
    run(experiment(), plain, backend=InlineBackend())
    folder = RunFolder(tmp_path / "told")
    with caplog.at_level("WARNING", "entrofed"):
        run(experiment(), folder, backend=InlineBackend(), trackers=[broken, notes])
    assert broken.heard.count("failed") == 1
    assert broken.heard[-1] == "failed"
    assert notes.heard[-1] == ("finish", 4)
    warned = [record.getMessage() for record in caplog.records if "tracker" in record.getMessage()]
    assert warned == ["tracker Broken: OSError: disk full; the run goes on without it"]
    assert [replace(record, seconds={}) for record in folder.records()] == [
        replace(record, seconds={}) for record in plain.records()
    ]


def test_tracking_changes_no_result(tmp_path):
    """Nor may a run be resumed only where it is tracked."""
    assert experiment(track=["tensorboard"]).decisive() == experiment().decisive()


def test_tensorboard_while_it_runs(tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    folder = RunFolder(tmp_path)

    def stored():
        events = reader.EventAccumulator(str(folder.path / "tensorboard")).Reload()
        return [(event.step, event.value) for event in events.Scalars("test/accuracy")]

    seen = []

    def look(record):
        seen.append(stored())
        if record.round == 2:
            raise KeyboardInterrupt

    wanted = experiment(track=["tensorboard"], metrics=["balanced_accuracy"])
    with pytest.raises(KeyboardInterrupt):
        run(wanted, folder, backend=InlineBackend(), observer=look)
    assert [len(points) for points in seen] == [1, 2, 3]
    run(wanted, folder, backend=InlineBackend(), resume=True)
    expected = [(record.round, pytest.approx(record.test.accuracy, rel=1e-6)) for record in folder.records()]
    assert stored() == expected
    assert len(expected) == 4
    assert "test/balanced_accuracy" in scalars(folder.records()[0])


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # MLflow's use of SQLAlchemy 2.1
@pytest.mark.slow
def test_mlflow_while_it_runs(tmp_path, monkeypatch):
    for module in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(module, reason="needs the extra mlflow")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    environment = dict(os.environ)
    folder = RunFolder(tmp_path)
    seen = []

    def stored():
        client = importlib.import_module("mlflow.tracking").MlflowClient(f"sqlite:///{tmp_path}/mlflow/mlflow.db")
        (found,) = client.search_runs([client.get_experiment_by_name("t").experiment_id])
        return found, client.get_metric_history(found.info.run_id, "test/accuracy")

    def look(record):
        found, history = stored()
        seen.append((found.info.status, len(history)))
        if record.round == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment(track=["mlflow"]), folder, backend=InlineBackend(), observer=look)
    assert seen == [("RUNNING", 1), ("RUNNING", 2)]
    run(experiment(track=["mlflow"]), folder, backend=InlineBackend(), resume=True)
    found, history = stored()
    assert [(point.step, point.value) for point in history] == [
        (record.round, record.test.accuracy) for record in folder.records()
    ]
    assert found.info.status == "FINISHED"
    assert dict(os.environ) == environment


@pytest.mark.slow
def test_wandb_while_it_runs(tmp_path, monkeypatch, capfd):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    environment = dict(os.environ)
    for resume in (False, True):
        run(experiment(track=["wandb"]), RunFolder(tmp_path), backend=InlineBackend(), resume=resume)
    (folder,) = (tmp_path / "wandb").glob("offline-run-*")
    assert list(folder.glob("*.wandb"))
    assert capfd.readouterr() == ("", "")
    assert dict(os.environ) == environment


def test_a_tracker_that_is_not_installed_is_named_before_anything_runs(tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("entrofed.tracking.optional.import_module", missing)
    for name in ("tensorboard", "mlflow", "wandb"):
        with pytest.raises(ConfigError, match=rf"{name} is an extra, and not installed: pip install 'entrofed\[{name}"):
            run(experiment(track=[name]), RunFolder(tmp_path), backend=InlineBackend())
        assert not (tmp_path / "metrics.jsonl").exists()
    with pytest.raises(ConfigError, match="unknown tracker 'x'"):
        trackers_of(["x"], tmp_path)
