"""Exports: every number of the records, with all its digits, read back with the tools' own readers."""

import csv
import importlib
import json
import os
import shutil
import socket
from dataclasses import replace

import pyarrow.parquet
import pytest

from entrofed import __version__
from entrofed.backends import InlineBackend
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.manifest import write_listed
from entrofed.experiment.run_folder import RunFolder, find_runs, json_line
from entrofed.experiment.runner import run
from entrofed.experiment.tracked import settings
from entrofed.export import FORMATS, export
from entrofed.tracking.numbers import PATHS, scalars

DATA = {"name": "iris", "clients": 4, "partition": "iid", "holdout": 0.2}


def play(folder, name, seed=0, **sections):
    table = {"name": name, "seed": seed, "rounds": 3, "model": "iris_mlp", "data": DATA, **sections}
    run(parse({**table, "engine": {"backend": "inline"}}), RunFolder(folder), backend=InlineBackend())


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """A run with a server, one among peers, and one that was stopped after two of its three rounds."""
    root = tmp_path_factory.mktemp("runs")
    play(root / "central" / "seed-0", "central", alignment_every=1, method={"cohort": 2, "weigher": "label_entropy"})
    play(root / "peers" / "seed-0", "peers", topology={"kind": "ring"})
    play(root / "stopped" / "seed-4", "stopped", 4, evaluate_every=3)
    stopped = RunFolder(root / "stopped" / "seed-4")
    (stopped.path / "summary.json").unlink()
    stopped.keep_rounds(2)
    return root


@pytest.fixture
def runs(played):
    return find_runs([played])


@pytest.fixture
def offline(monkeypatch):
    """Every connection of this process fails the test."""

    def refuse(self, address):
        assert self.family == getattr(socket, "AF_UNIX", None), f"a connection to {address}"
        return connect(self, address)

    connect = socket.socket.connect
    monkeypatch.setattr(socket.socket, "connect", refuse)


def numbers_in(value, path=()):
    """The paths of all numbers of a record that are not in a list."""
    if isinstance(value, dict):
        return {found for key, inner in value.items() for found in numbers_in(inner, (*path, key))}
    return {path} if isinstance(value, int | float) else set()


def test_no_number_of_a_record_is_forgotten(runs):
    found = {path for folder in runs for record in folder.records() for path in numbers_in(record.to_json())}
    assert found - {("round",)} == set(PATHS) - {("cohort_size",), ("refused",)}


def test_parquet_holds_the_records(runs, tmp_path):
    paths = export(runs, tmp_path / "out", "parquet")
    assert [path.name for path in paths] == ["rounds.parquet", "clients.parquet"]
    rounds = pyarrow.parquet.read_table(paths[0])
    assert rounds.schema.metadata[b"entrofed"] == __version__.encode()
    group = pyarrow.parquet.ParquetFile(paths[0]).metadata.row_group(0)
    assert {group.column(i).compression for i in range(group.num_columns)} == {"ZSTD"}
    assert [(row["experiment"], row["seed"], row["round"]) for row in rounds.to_pylist()] == [
        *(("central", 0, number) for number in range(3)),
        *(("peers", 0, number) for number in range(3)),
        *(("stopped", 4, number) for number in range(2)),
    ]
    records = [record for folder in runs for record in folder.records()]
    for row, record in zip(rounds.to_pylist(), records, strict=True):
        assert row["cohort_size"] == len(record.cohort)
        assert row["refused"] == len(record.refused)
        assert row["bytes_up"] == record.bytes_up
        assert row["skipped"] is record.skipped
        assert row["test_macro_f1"] == (record.test and record.test.macro_f1)
        assert row["id_loss"] == (record.in_distribution and record.in_distribution.loss)
        assert row["consensus"] == record.consensus
        assert row["seconds_weigh"] == record.seconds.get("weigh")
    clients = pyarrow.parquet.read_table(paths[1]).to_pylist()
    entries = [entry for record in records for entry in record.clients]
    for row, entry in zip(clients, entries, strict=True):
        for key in ("client", "weight", "examples", "steps", "train_loss"):
            assert row[key] == getattr(entry, key)
        assert row["origin_label_entropy_nats"] == entry.origin.get("label_entropy_nats")


def test_csv_is_the_same_to_the_last_bit(runs, tmp_path):
    export(runs, tmp_path, "parquet")
    for path in export(runs, tmp_path, "csv"):
        table = pyarrow.parquet.read_table(path.with_suffix(".parquet"))
        with path.open(encoding="utf-8", newline="") as file:
            names, *rows = csv.reader(file)
        assert names == table.column_names
        assert rows == [
            ["" if value is None else value if isinstance(value, str) else repr(value) for value in row.values()]
            for row in table.to_pylist()
        ]


def test_columns_do_not_depend_on_the_runs(runs, tmp_path):
    names = set()
    for folder in runs:
        path, _ = export([folder], tmp_path / folder.path.parent.name, "parquet")
        names.add(str(pyarrow.parquet.read_schema(path)))
    assert len(names) == 1


def test_what_is_not_finite_or_not_there_is_null(played, tmp_path):
    shutil.copytree(played / "central", tmp_path / "central")
    folder = RunFolder(tmp_path / "central" / "seed-0")
    record = folder.records()[0]
    terms = {"near": 0.25, "odd": "x"}
    entry = replace(record.clients[0], origin={"kept": True, "why": "far"}, loss_terms=terms)
    test = replace(record.test, loss=float("inf"))
    changed = replace(record, test=test, in_distribution=None, train_loss=float("nan"), clients=[entry])
    raw = {**changed.to_json(), "train_loss": float("nan")}
    write_listed(folder.path / "metrics.jsonl", json.dumps(raw) + "\n" + json_line(record)[:40])
    rounds, clients = (pyarrow.parquet.read_table(path) for path in export([folder], tmp_path / "out", "parquet"))
    (row,) = rounds.to_pylist()
    assert row["test_loss"] is row["id_accuracy"] is row["train_loss"] is None
    assert clients.column_names[-2:] == ["loss_terms_near", "origin_kept"]
    assert [clients[name].to_pylist() for name in clients.column_names[-2:]] == [[0.25], [1.0]]
    text = export([folder], tmp_path / "out", "csv")[0].read_text()
    assert "nan" not in text
    assert "inf" not in text


def test_before_the_first_round(played, tmp_path):
    shutil.copytree(played / "central", tmp_path / "central")
    for name in ("metrics.jsonl", "summary.json", "manifest.json"):
        (tmp_path / "central" / "seed-0" / name).unlink()
    for path in export(find_runs([tmp_path / "central"]), tmp_path / "out", "csv"):
        assert path.read_text().startswith("experiment,seed,round,")
        assert path.read_text().count("\n") == 1


def test_a_run_counts_once(runs, tmp_path):
    path, _ = export([*runs, runs[0]], tmp_path, "parquet")
    assert pyarrow.parquet.read_table(path).num_rows == 8


def test_refuses_what_it_cannot_do(runs, tmp_path):
    with pytest.raises(ConfigError, match="did you mean 'parquet'"):
        export(runs, tmp_path, "parket")
    with pytest.raises(ConfigError, match="no run to export"):
        export([], tmp_path, "csv")
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="must be a folder"):
        export(runs, tmp_path / "file", "csv")
    other = shutil.copytree(runs[0].path, tmp_path / "elsewhere" / "seed-0")
    with pytest.raises(ConfigError, match=r"both called 'central/seed-0'.*different folders"):
        export([*runs, RunFolder(other)], tmp_path / "out", "csv")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("extra", sorted(set(FORMATS) - {"csv", "parquet"}))
def test_names_the_extra_that_is_missing(extra, runs, tmp_path, monkeypatch):
    def missing(name):
        raise ModuleNotFoundError(name)

    monkeypatch.setattr("entrofed.tracking.optional.import_module", missing)
    with pytest.raises(
        ConfigError, match=rf"{extra} is an extra, and not installed: pip install 'entrofed\[{extra}\]'"
    ):
        export(runs, tmp_path, extra)


def test_tensorboard(runs, tmp_path):
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    reader = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    export(runs, tmp_path, "tensorboard")
    paths = export(runs, tmp_path, "tensorboard")  # again: takes the place of the first
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == sorted(paths)
    assert [path.parent.relative_to(tmp_path).as_posix() for path in paths] == [
        "central/seed-0",
        "peers/seed-0",
        "stopped/seed-4",
    ]
    for folder, path in zip(runs, paths, strict=True):
        events = reader.EventAccumulator(str(path.parent)).Reload()
        expected = [(r.round, name, value) for r in folder.records() for name, value in scalars(r).items()]
        assert set(events.Tags()["scalars"]) == {name for _, name, _ in expected}
        for name in events.Tags()["scalars"]:
            points = [(event.step, event.value) for event in events.Scalars(name)]
            assert points == [(step, pytest.approx(value, rel=1e-7)) for step, key, value in expected if key == name]
        (text,) = events.Tensors("configuration/text_summary")
        assert f"| name | {folder.experiment().name} |" in text.tensor_proto.string_val[0].decode()


@pytest.mark.filterwarnings("ignore:The ``noload`` loader strategy is deprecated")  # MLflow's use of SQLAlchemy 2.1
@pytest.mark.slow
def test_mlflow(played, tmp_path, offline, caplog, capfd):
    for module in ("mlflow", "sqlalchemy", "alembic"):
        pytest.importorskip(module, reason="needs the extra mlflow")
    environment = dict(os.environ)
    shutil.copytree(played, tmp_path / "runs")
    runs, out = find_runs([tmp_path / "runs"]), tmp_path / "out"
    (store,) = export(runs, out, "mlflow")
    assert capfd.readouterr() == ("", "")
    assert dict(os.environ) == environment
    client = importlib.import_module("mlflow.tracking").MlflowClient(f"sqlite:///{store}")

    def stored(name):
        return client.search_runs([client.get_experiment_by_name(name).experiment_id])

    for folder in runs:
        (found,) = stored(folder.experiment().name)
        assert found.data.params == {key: str(value) for key, value in settings(folder.experiment()).items()}
        assert found.data.metrics == {k: v for record in folder.records() for k, v in scalars(record).items()}
        history = client.get_metric_history(found.info.run_id, "train_loss")
        assert [(m.step, m.value) for m in history] == [(r.round, r.train_loss) for r in folder.records()]
        artifacts = {item.path for item in client.list_artifacts(found.info.run_id)}
        finished = folder.summary() is not None
        assert artifacts == {"experiment.toml"} | ({"summary.json"} if finished else set())
        assert found.info.status == ("FINISHED" if finished else "RUNNING")
        assert found.info.run_name == folder.path.name

    before = {name: stored(name)[0].info.run_id for name in ("central", "stopped")}
    runs[2].keep_rounds(1)
    with caplog.at_level("INFO", "entrofed"):
        export([runs[0], runs[2]], out, "mlflow")
    assert [run.info.run_id for run in stored("central")] == [before["central"]]
    (replaced,) = stored("stopped")
    assert replaced.info.run_id != before["stopped"]
    assert len(client.get_metric_history(replaced.info.run_id, "train_loss")) == 1
    assert "central/seed-0: is in the store already" in caplog.text
    assert "stopped/seed-4: was in the store in another state; replaced" in caplog.text


def wandb_records(path):
    """The records of an offline run: a log of 32 KiB blocks, chunks with checksum, length and kind before them."""
    proto = importlib.import_module("wandb.proto.wandb_internal_pb2")
    raw, at, whole = path.read_bytes(), 7, b""
    while at < len(raw):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
            continue
        length, kind = int.from_bytes(raw[at + 4 : at + 6], "little"), raw[at + 6]
        whole += raw[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last of several
            yield proto.Record.FromString(whole)
            whole = b""


@pytest.mark.slow
def test_wandb(runs, tmp_path, offline, capfd, monkeypatch):
    pytest.importorskip("wandb", reason="needs the extra wandb")
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WANDB_MODE", "online")
    environment = dict(os.environ)
    export(runs, tmp_path, "wandb")
    paths = export(runs, tmp_path, "wandb")  # again: takes the place of the first
    assert capfd.readouterr() == ("", "")
    assert dict(os.environ) == environment
    assert not list(home.rglob("*"))
    assert sorted((tmp_path / "wandb").glob("offline-run-*")) == sorted(paths)
    for folder, path in zip(runs, paths, strict=True):
        (file,) = path.glob("*.wandb")
        records = list(wandb_records(file))
        (start,) = (record.run for record in records if record.HasField("run"))
        assert (start.project, start.run_group, start.display_name) == (
            "entrofed",
            folder.experiment().name,
            f"{folder.experiment().name}/{folder.path.name}",
        )
        config = {item.key: json.loads(item.value_json) for item in start.config.update}
        assert config.items() >= folder.experiment().model_dump(mode="json", exclude_none=True).items()
        logged = [
            {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
            for record in records
            if record.HasField("history")
        ]
        assert [(row["_step"], {k: v for k, v in row.items() if k[0] != "_"}) for row in logged] == [
            (record.round, scalars(record)) for record in folder.records()
        ]
        summary = {
            item.key or item.nested_key[0]: json.loads(item.value_json)
            for record in records
            if record.HasField("summary")
            for item in record.summary.update
        }
        known = {key: value for key, value in (folder.summary() or {}).items() if value is not None}
        assert known.items() <= summary.items()
