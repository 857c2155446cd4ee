"""Own data in experiment files: keys, paths, and runs that go on with it."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import federate, prepare
from entrofed.experiment.config import Experiment, parse, parse_text, read, to_toml
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

RNG = np.random.default_rng(0)
EXPERIMENT = """
rounds = 2
model = "iris_mlp"
[data]
path = "visits.csv"
label = "kind"
client = "garden"
[method]
cohort = 2
[engine]
backend = "inline"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [[*RNG.normal(size=4).round(3), RNG.choice(list("abc")), RNG.choice(["x", "y", "z"])] for _ in range(90)]
    text = "\n".join(["p,q,r,s,kind,garden", *(",".join(map(str, row)) for row in rows)])
    (tmp_path / "visits.csv").write_text(text + "\n")
    (tmp_path / "own.toml").write_text(EXPERIMENT)
    return tmp_path


def test_paths_are_seen_from_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    experiment = read(folder / "own.toml", ["data.test=0.3"])
    assert experiment.data.path == str(folder / "visits.csv")
    assert (experiment.data.name, experiment.data.partition, experiment.data.test) == ("visits", "natural", 0.3)
    (folder / "own.toml").write_text(EXPERIMENT.replace("[method]", 'test = "part/t.csv"\n[method]'))
    assert read(folder / "own.toml").data.test == str(folder / "part" / "t.csv")
    (folder / "own.toml").write_text(EXPERIMENT.replace("[method]", 'test = "held_out"\n[method]'))
    assert read(folder / "own.toml").data.test == "held_out", "a column"


def test_an_override_is_seen_from_where_one_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "sub").mkdir()
    monkeypatch.chdir(folder / "sub")
    assert read(folder / "own.toml", ["data.path=other.csv"]).data.path == str(folder / "sub" / "other.csv")


def test_the_stored_file_gives_the_same_experiment(folder: Path) -> None:
    experiment = read(folder / "own.toml")
    assert parse_text(to_toml(experiment)) == experiment


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"path": "a.csv", "name": "digits"}, "data.name = 'digits' and data.path = .* exclude each other"),
        ({"name": "digits", "clients": 3, "label": "y"}, r"data.label is for files of your own \(data.path\)"),
        ({"name": "digits", "clients": 3, "size": [2, 2]}, "data.size is for files of your own"),
        ({"path": "a.csv", "partition": "natural", "alpha": 0.5}, "data.alpha does not apply to partition 'natural'"),
        ({"path": "a.csv", "partition": "iid"}, "partition 'iid' needs data.clients"),
        ({"path": "a.csv", "test": 1.5}, "data.test = 1.5"),
        ({"path": "a.csv", "missing": "guess"}, r"data.missing = 'guess': .*\"impute\""),
        ({"path": "a.csv", "kind": "sound"}, "data.kind = 'sound'"),
        ({"path": "a.csv", "size": [0, 4]}, "data.size.0 = 0"),
        ({"path": "a.csv", "labels": "y"}, "unknown key 'data.labels': 'labels'; did you mean 'label'"),
        ({"path": 3}, "data.path = 3"),
    ],
)
def test_keys_that_do_not_go_together(data: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse({"data": data})


def test_file_python_and_memory_give_the_same_federation(folder: Path) -> None:
    from_file = federate(read(folder / "own.toml").data, 0)
    from_python = Federation.from_table(folder / "visits.csv", label="kind", client="garden")
    assert from_file.digest == from_python.digest
    assert from_file.names == ("x", "y", "z")


def test_natural_is_another_name_for_by_role(folder: Path) -> None:
    by_role = parse({"data": {"name": "heart-hospitals", "partition": "by_role"}})
    natural = parse({"data": {"name": "heart-hospitals", "partition": "natural"}})
    assert federate(by_role.data, 0).digest == federate(natural.data, 0).digest
    assert federate(natural.data, 0).names == ("Budapest", "Cleveland", "Long Beach", "Switzerland")
    with pytest.raises(ConfigError, match=r"data\.partition = 'natural': 'iris' has no natural owners"):
        prepare(parse({"data": {"name": "iris", "partition": "natural"}, "model": "iris_mlp"}))


def test_some_of_the_natural_clients(folder: Path) -> None:
    section = read(folder / "own.toml", ["data.clients=2"]).data
    assert section.partition == "natural"
    federation = federate(section, 0)
    assert len(federation.shards) == 2
    assert set(federation.names) < {"x", "y", "z"}
    assert parse({"data": {"path": "a.npz", "clients": 2}}).data.partition == "iid"


def stored(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "run/federation.json").read_text())
    return found


def test_a_run_goes_on_with_the_same_data_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: Any
) -> None:
    experiment, where = read(folder / "own.toml"), RunFolder(folder / "run")
    run(experiment, where)
    assert stored(folder)["sha256"] == federate(experiment.data, 0).digest
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    run(longer(where.experiment()), where, resume=True)
    path = folder / "visits.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[2], lines[1], *lines[3:]]) + "\n")
    before = (folder / "run/metrics.jsonl").read_bytes()
    with pytest.raises(DataError, match="'visits' is not the data that the run was started with"):
        run(longer(where.experiment()), where, resume=True)
    assert (folder / "run/metrics.jsonl").read_bytes() == before


def longer(experiment: Experiment) -> Experiment:
    return parse({**experiment.model_dump(exclude_unset=True), "rounds": experiment.rounds + 1})


def test_data_may_move(folder: Path) -> None:
    where = RunFolder(folder / "run")
    run(read(folder / "own.toml"), where)
    (folder / "moved").mkdir()
    (folder / "visits.csv").rename(folder / "moved/visits.csv")
    with pytest.raises(DataError, match="no such file"):
        run(where.experiment(), where, resume=True)
    run(read(folder / "own.toml", [f"data.path={folder / 'moved/visits.csv'}"]), where, resume=True)
    assert where.experiment().data.path == str(folder / "moved/visits.csv")


def test_reading_a_run_does_not_look_at_the_data(folder: Path) -> None:
    where = RunFolder(folder / "run")
    run(read(folder / "own.toml"), where)
    (folder / "visits.csv").unlink()
    assert where.experiment().data.name == "visits"
    assert where.summary() is not None


def test_catalogue_runs_store_no_digest(tmp_path: Path) -> None:
    experiment = parse(
        {"rounds": 1, "model": "iris_mlp", "data": {"name": "iris", "clients": 2}, "engine": {"backend": "inline"}}
    )
    run(experiment, RunFolder(tmp_path / "run"))
    assert "sha256" not in stored(tmp_path)
