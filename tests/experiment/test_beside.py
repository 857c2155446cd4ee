"""Checkpoints are written while rounds are played, never ahead of the records, and the same in the end."""

import json
import threading
from dataclasses import replace

import pytest

from entrofed.experiment.beside import Beside
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

ROUNDS = 4
LONG = 60.0


def experiment(**more):
    table = {
        "rounds": ROUNDS,
        "model": "iris_mlp",
        "data": {"name": "iris", "clients": 3},
        "method": {"name": "scaffold"},
        "engine": {"backend": "inline"},
    }
    return parse({**table, **more})


def last(folder):
    return sorted((folder.path / "checkpoints").glob("round-*.safetensors"))[-1]


def test_rounds_go_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    """The first checkpoint is held up until the third round is played, and each finds its record on disk."""
    third, saved, write = threading.Event(), [], Checkpoints.save
    folder = RunFolder(tmp_path / "run")

    def slow(checkpoints, state):
        if not saved:
            assert third.wait(LONG), "no round was played meanwhile"
        lines = (folder.path / "metrics.jsonl").read_text().splitlines()
        assert len(lines) >= state.round
        saved.append(state.round)
        write(checkpoints, state)

    monkeypatch.setattr(Checkpoints, "save", slow)
    run(
        experiment(checkpoint_seconds=1e-9),
        folder,
        observer=lambda record: third.set() if record.round == 2 else None,
    )
    assert saved[0] == 1
    assert saved[-1] == ROUNDS
    monkeypatch.undo()
    plain = RunFolder(tmp_path / "plain")
    run(experiment(checkpoint_seconds=0), plain)
    assert last(folder).read_bytes() == last(plain).read_bytes()
    assert [replace(r, seconds={}) for r in folder.records()] == [replace(r, seconds={}) for r in plain.records()]
    assert json.loads(last(folder).with_suffix(".json").read_text())["round"] == ROUNDS


def test_every_round_means_that_the_run_waits(tmp_path, monkeypatch):
    saved, write = [], Checkpoints.save
    monkeypatch.setattr(Checkpoints, "save", lambda one, state: (saved.append(state.round), write(one, state)))
    seen = []
    run(
        experiment(checkpoint_seconds=0),
        RunFolder(tmp_path / "run"),
        observer=lambda record: seen.append(saved[-1] == record.round + 1),
    )
    assert seen == [True] * ROUNDS


def test_what_goes_wrong_is_heard_of(tmp_path, monkeypatch):
    def full(checkpoints, state):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Checkpoints, "save", full)
    with pytest.raises(OSError, match="No space left"):
        run(experiment(checkpoint_seconds=1e-9), RunFolder(tmp_path / "run"))


def test_one_thing_at_a_time():
    beside, done, go = Beside(), [], threading.Event()
    beside.start(lambda: (go.wait(LONG), done.append(1)))
    assert beside.busy
    go.set()
    beside.start(lambda: done.append(2))
    beside.wait()
    assert done == [1, 2]
    assert not beside.busy
