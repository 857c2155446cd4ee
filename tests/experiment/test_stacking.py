"""``engine.stack`` from the file to the summary."""

import json

import numpy as np
import pytest

from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

DATA = {"name": "digits", "partition": "dirichlet_balanced", "clients": 8, "alpha": 0.5}


def experiment(stack, **sections):
    engine = {"backend": "inline", "stack": stack, **sections.pop("engine", {})}
    method = {"cohort": 6, "lr": 0.05, "momentum": 0.0, **sections.pop("method", {})}
    return parse({"rounds": 2, "data": DATA, "model": "digits_mlp", "method": method, "engine": engine, **sections})


def test_nothing_is_stacked_unless_asked():
    plain = parse({"data": DATA})
    assert plain.engine.stack is False
    assert prepare(plain).stacking.form is None
    older = parse({"data": DATA}).model_dump()
    del older["engine"]["stack"]
    assert parse(older, stored=True).decisive() == plain.decisive()  # a run of an earlier version goes on as it began
    assert experiment("auto").decisive() != experiment(False).decisive() != experiment(True).decisive()


@pytest.mark.parametrize(
    ("sections", "why"),
    [
        ({}, ""),
        ({"method": {"cohort": 3}}, "cohorts of 3"),
        ({"model": "cnn"}, "Conv2d"),
        ({"model": {"name": "mlp", "hidden": [512]}}, "parameters times samples"),
        ({"method": {"name": "moon"}}, "no function of logits"),
        ({"engine": {"backend": "flower"}}, "Flower"),
        ({"topology": {"kind": "ring"}}, ""),
    ],
    ids=str,
)
def test_auto(sections, why):
    stacking = prepare(experiment("auto", **sections)).stacking
    assert stacking.form == (None if why else "chain")
    assert why in stacking.why
    assert bool(why) == bool(stacking.why)


def test_what_does_not_go_together():
    for engine in ({"compile": True}, {"precision": "bf16"}, {"device": "mps"}):
        with pytest.raises(ConfigError, match=r"engine\.stack is made for"):
            experiment("auto", engine=engine)
    with pytest.raises(ConfigError, match="on Flower every client trains by itself"):
        experiment(True, engine={"backend": "flower"})


SERVERS = ["average", "averaged", "normalized", "scaffold", "dynamic", "momentum", "fedadam", "median", "clipped"]


@pytest.mark.parametrize("server", SERVERS)
def test_rounds_equal_those_of_the_plain_loop(tmp_path, server):
    models = []
    for stack in (False, True):
        folder = RunFolder(tmp_path / str(stack))
        run(experiment(stack, method={"server": server}), folder)
        models.append(folder)
    plain, stacked = (folder.records() for folder in models)
    for one, other in zip(plain, stacked, strict=True):
        assert other.cohort == one.cohort
        assert other.test.loss == pytest.approx(one.test.loss, rel=1e-4)
        assert [client.steps for client in other.clients] == [client.steps for client in one.clients]
    assert json.loads((models[1].path / "summary.json").read_text())["stack"] == {"form": "chain"}
    assert "stack" not in json.loads((models[0].path / "summary.json").read_text())


def test_peers(tmp_path):
    found = []
    for stack in (False, "auto"):
        folder = RunFolder(tmp_path / str(stack))
        found.append(run(experiment(stack, topology={"kind": "ring"}, method={"cohort": 8}), folder))
    assert found[1]["loss"] == pytest.approx(found[0]["loss"], rel=1e-4)
    assert found[1]["stack"] == {"form": "chain"}


def test_resumed_runs_are_bit_for_bit_those_that_were_not_interrupted(tmp_path):
    class EnoughError(Exception):
        pass

    def interrupt(record):
        raise EnoughError

    chosen = experiment("auto", checkpoint_seconds=0)
    whole, broken = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "broken")
    run(chosen, whole)
    with pytest.raises(EnoughError):
        run(chosen, broken, observer=interrupt)
    run(chosen, broken, resume=True)
    for one, other in zip(whole.records(), broken.records(), strict=True):
        assert one.clients == other.clients
    names = [f"checkpoints/{path.name}" for path in whole.checkpoints.glob("*.safetensors")]
    assert names
    last = max(names)
    assert np.array_equal(
        np.frombuffer((whole.path / last).read_bytes(), np.uint8),
        np.frombuffer((broken.path / last).read_bytes(), np.uint8),
    )


def test_a_summary_says_who_was_trained_one_by_one(tmp_path, monkeypatch):
    def refuse(*arguments):
        raise ValueError("not today")

    monkeypatch.setattr("entrofed.client.work.train_together", refuse)
    found = run(experiment(True), RunFolder(tmp_path))
    assert found["stack"] == {"form": "chain", "one_by_one": {"ValueError: not today": 12}}
