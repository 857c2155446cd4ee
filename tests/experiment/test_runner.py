"""Whole runs: recorded, checkpointed, resumed bit for bit after anything."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from safetensors.numpy import load
from tests.kills import killed_around

from entrofed.backends.inline import InlineBackend
from entrofed.core.tasks import TrainTask
from entrofed.errors import CheckpointError, ConfigError, DataError, QuorumError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run

ROUNDS = 12
WRITERS = ("checkpoint", "run_folder", "manifest")


def experiment(**changes):
    settings = {
        "name": "t",
        "rounds": ROUNDS,
        "seed": 3,
        "checkpoint_seconds": 0,
        "model": "digits_mlp",
        "data": {"name": "digits", "partition": "dirichlet_balanced", "clients": 12, "alpha": 0.3},
        "method": {"cohort": 4, "lr": 0.1, "lr_decay": 0.97, "momentum": 0.9, "persist_optimizer": True},
        "engine": {"backend": "inline"},
    }
    return parse({**settings, **changes})


def result(folder: RunFolder):
    """Everything that must be the same, bit for bit: records without times, last states, best model."""
    records = [replace(record, seconds={}) for record in folder.records()]
    states = {"model": (folder.path / "model.safetensors").read_bytes()}
    for path in sorted(folder.checkpoints.glob("*.safetensors")):
        states[path.name] = {name: array.tobytes() for name, array in sorted(load(path.read_bytes()).items())}
    return records, states


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = RunFolder(tmp_path_factory.mktemp("unbroken"))
    run(experiment(), folder)
    return result(folder)


def test_a_run_leaves_all_its_files(tmp_path, unbroken):
    folder = RunFolder(tmp_path / "t" / "seed-3")
    seen = []
    summary = run(experiment(), folder, observer=seen.append)
    assert result(folder) == unbroken
    assert [record.round for record in seen] == list(range(ROUNDS))
    assert folder.experiment() == experiment()
    assert folder.summary() == summary
    assert summary["accuracy"] == seen[-1].test.accuracy
    assert summary["accuracy_best"] == max(record.test.accuracy for record in seen)
    table = pyarrow.parquet.read_table(folder.path / "metrics.parquet")
    assert table["round"].to_pylist() == list(range(ROUNDS))
    assert json.loads((folder.path / "environment.json").read_text())["packages"]["torch"]
    assert {path.name for path in folder.checkpoints.iterdir()} == {
        f"{name}.{kind}" for name in ("round-000011", "round-000012") for kind in ("json", "safetensors")
    }


def test_the_record_of_a_round(unbroken):
    first = unbroken[0][0]
    assert len(set(first.cohort)) == 4
    assert first.cohort == [c.client for c in first.clients]
    weights = [c.weight for c in first.clients]
    examples = [c.examples for c in first.clients]
    assert weights == pytest.approx([n / sum(examples) for n in examples])
    assert first.effective_cohort == pytest.approx(1 / sum(w * w for w in weights))
    assert 0 < first.cohort_entropy <= np.log2(10)
    assert first.bytes_down == first.bytes_up == 4 * 4 * 4810
    assert [record.lr for record in unbroken[0]] == pytest.approx([0.1 * 0.97**t for t in range(ROUNDS)])


def test_another_seed_gives_another_run(tmp_path, unbroken):
    folder = RunFolder(tmp_path)
    run(experiment(seed=4), folder)
    assert result(folder) != unbroken


def small(rounds=ROUNDS):
    """An experiment of a few milliseconds per round that keeps all that a run can keep."""
    data = {"name": "iris", "partition": "contiguous", "clients": 3, "holdout": 0.2}
    method = {"cohort": 3, "lr": 0.1, "lr_decay": 0.97, "momentum": 0.9, "persist_optimizer": True}
    return experiment(rounds=rounds, model="iris_mlp", data=data, method=method)


def _start_and_kill(folder: RunFolder, rounds: int, after: float) -> None:
    """Run in a child process and kill it with SIGKILL some seconds after so many rounds were recorded."""
    child = os.fork()
    if child == 0:
        try:
            run(small(), folder, resume=True)
        finally:
            os._exit(0)
    patience = time.monotonic() + 60
    while rounds_in(folder) < rounds and time.monotonic() < patience:
        time.sleep(0.0002)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


@pytest.mark.slow
def test_fifty_kills_at_random_moments_change_nothing(tmp_path):
    began = time.perf_counter()
    run(small(), RunFolder(tmp_path / "timed"))
    takes = time.perf_counter() - began
    unbroken = result(RunFolder(tmp_path / "timed"))
    moments = random.Random(0)
    rounds_done = set()
    for number in range(50):
        folder = RunFolder(tmp_path / str(number))
        _start_and_kill(folder, moments.randrange(ROUNDS), moments.uniform(0, takes / ROUNDS))
        rounds_done.add(len(folder.records()))
        run(small(), folder, resume=True)
        assert result(folder) == unbroken, f"kill number {number}"
        assert not list(folder.path.rglob("*.tmp"))
    assert len(rounds_done) > 5  # the kills really came at different moments


@pytest.mark.slow
def test_killed_before_and_after_every_write(tmp_path, monkeypatch):
    """No moment between two files is a bad one."""
    few = small(rounds=4)
    run(few, RunFolder(tmp_path / "unbroken"))
    expected = result(RunFolder(tmp_path / "unbroken"))
    for number in range(100):
        for moment in ("before", "after"):
            folder = RunFolder(tmp_path / f"{number} {moment}")
            died = killed_around(
                number, moment, ("checkpoint", "run_folder", "manifest"), partial(run, few, folder), monkeypatch
            )
            run(few, folder, resume=True)
            assert result(folder) == expected, f"killed {moment} write {number}"
        if not died:
            break
    assert number > 15  # rounds, models and manifests were written


def rounds_in(folder: RunFolder) -> int:
    """Rounds that are recorded; to look takes next to nothing."""
    path = folder.path / "metrics.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


@pytest.mark.slow
def test_killed_again_and_again_on_the_command_line(tmp_path, unbroken):
    """The same with the whole program and worker processes: killed, resumed on another number of workers."""
    (tmp_path / "t.toml").write_text(
        """
        rounds = 12
        seed = 3
        checkpoint_seconds = 0
        model = "digits_mlp"
        [data]
        name = "digits"
        partition = "dirichlet_balanced"
        clients = 12
        alpha = 0.3
        [method]
        cohort = 4
        lr = 0.1
        lr_decay = 0.97
        momentum = 0.9
        persist_optimizer = true
        [engine]
        backend = "processes"
        """
    )
    folder = RunFolder(tmp_path / "runs" / "t" / "seed-3")
    command = [sys.executable, "-c", "from entrofed.cli.main import main; main()", "run", "t.toml", "--resume"]
    for workers, least in ((2, 1), (1, 4), (2, None)):
        chosen = [*command, "--set", f"engine.workers={workers}"]
        process = subprocess.Popen(chosen, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while least is not None and rounds_in(folder) < least and process.poll() is None:
            time.sleep(0.002)
        if least is not None:
            process.kill()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert result(folder) == unbroken


def interrupted(folder: RunFolder, after: int, **changes) -> None:
    """A run that Ctrl-C ends after this round."""

    def interrupt(record):
        if record.round == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(experiment(**changes), folder, observer=interrupt)


def test_ctrl_c_keeps_what_is_done(tmp_path, unbroken):
    folder = RunFolder(tmp_path)
    interrupted(folder, 5, checkpoint_seconds=1000)
    assert folder.summary() is None
    seen = []
    run(experiment(), folder, resume=True, observer=seen.append)
    assert seen[0].round == 6
    assert result(folder)[0] == unbroken[0]


def test_a_damaged_checkpoint_is_found_out_and_the_one_before_used(tmp_path, unbroken):
    folder = RunFolder(tmp_path)
    interrupted(folder, 6)
    last = max(folder.checkpoints.glob("round-*.safetensors"))
    raw = bytearray(last.read_bytes())
    raw[len(raw) // 2] ^= 1
    last.write_bytes(raw)
    seen = []
    run(experiment(), folder, resume=True, observer=seen.append)
    assert seen[0].round == 6  # the checkpoint after round 7 was damaged, the one after round 6 was not
    log = (folder.path / "log.txt").read_text()
    assert f"{last}: damaged" in log
    assert "going back to the checkpoint before" in log
    assert result(folder) == unbroken


def test_without_any_intact_checkpoint_it_starts_over_if_told(tmp_path, unbroken):
    folder = RunFolder(tmp_path)
    run(experiment(), folder)
    for path in folder.checkpoints.glob("*.safetensors"):
        path.write_bytes(b"")
    records = (tmp_path / "metrics.jsonl").read_bytes()
    with pytest.raises(CheckpointError, match=r"no checkpoint can be used: .* or begin anew with from_scratch = True"):
        run(experiment(), folder, resume=True)
    assert (tmp_path / "metrics.jsonl").read_bytes() == records
    run(experiment(), folder, resume=True, from_scratch=True)
    assert result(folder) == unbroken
    assert (tmp_path / "metrics-1.jsonl").read_bytes() == records


def test_a_run_is_not_overwritten_nor_resumed_with_other_settings(tmp_path):
    folder = RunFolder(tmp_path)
    run(experiment(rounds=2), folder)
    with pytest.raises(ConfigError, match="continue it with resume = True, or replace it with overwrite = True"):
        run(experiment(rounds=2), folder)
    with pytest.raises(ConfigError, match=r"changed: seed"):
        run(experiment(rounds=2, seed=9), folder, resume=True)
    assert run(experiment(rounds=3), folder, resume=True)["rounds"] == 3


def test_what_a_resumed_run_may_not_change(tmp_path):
    """A cosine needs to know its end; a schedule that is left out was not noticed."""
    folder, method = RunFolder(tmp_path), {"cohort": 4, "schedule": {"kind": "cosine"}}
    run(experiment(rounds=2, method=method), folder)
    with pytest.raises(ConfigError, match=r"changed: rounds\."):
        run(experiment(rounds=3, method=method), folder, resume=True)
    with pytest.raises(ConfigError, match=r"changed: method.schedule.kind"):
        run(experiment(rounds=2, method={"cohort": 4}), folder, resume=True)
    with pytest.raises(ConfigError, match=r"changed: engine.precision"):
        run(experiment(rounds=2, method=method, engine={"precision": "bf16"}), folder, resume=True)


@pytest.mark.parametrize(
    "method",
    [
        {"server": {"name": "momentum", "anneal": 2}},
        {"server": {"name": "averaged", "server": {"name": "momentum", "anneal": 2}}},
        {"name": "hics"},
    ],
)
def test_parts_that_count_the_rounds_are_not_resumed_with_more(tmp_path, method):
    folder, method = RunFolder(tmp_path), {"cohort": 4, **method}
    run(experiment(rounds=2, method=method), folder)
    with pytest.raises(ConfigError, match=r"changed: rounds\."):
        run(experiment(rounds=3, method=method), folder, resume=True)


def test_two_processes_do_not_run_in_one_folder(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.claimed(), pytest.raises(ConfigError, match="another process"):
        run(experiment(), folder)


class Sabotage(InlineBackend):
    """Clients of one round and later send no numbers."""

    def __init__(self, first: int, clients: set[int]) -> None:
        super().__init__()
        self.first, self.clients = first, clients

    def run(self, tasks):
        outcomes = super().run(tasks)
        for task, outcome in zip(tasks, outcomes, strict=True):
            if isinstance(task, TrainTask) and task.round >= self.first and task.client in self.clients:
                outcome.params.values[0] = np.nan
        return outcomes


def test_bad_clients_change_nothing_but_the_record(tmp_path):
    """A cohort with a NaN client gives the model that the cohort without it would have given."""
    folder = RunFolder(tmp_path)
    summary = run(experiment(rounds=3), folder, backend=Sabotage(0, set(range(6))))
    records = folder.records()
    refused = [entry for record in records for entry in record.refused]
    assert refused
    assert all(entry.client < 6 and entry.reason == "1 non-finite parameters" for entry in refused)
    assert summary["refused"] == len(refused)
    for record in records:
        assert np.isfinite(record.test.loss)
        assert sum(c.weight for c in record.clients) == pytest.approx(1)


def test_below_the_quorum_the_model_stays_and_the_run_ends(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(QuorumError, match="2 rounds in a row"):
        run(experiment(method={"cohort": 4, "max_skipped": 2}), folder, backend=Sabotage(3, set(range(12))))
    records = folder.records()
    assert [record.skipped for record in records] == [False] * 3 + [True] * 2
    assert records[2].test == records[3].test == records[4].test
    assert "quorum" in (folder.path / "log.txt").read_text()


def test_evaluation_every_few_rounds(tmp_path):
    folder = RunFolder(tmp_path)
    run(experiment(rounds=6, evaluate_every=3), folder)
    assert [record.test is not None for record in folder.records()] == [False, False, True] * 2


def test_missing_data_says_so(tmp_path):
    wanted = experiment(data={"name": "mnist", "clients": 4}, model="mlp")
    with pytest.raises(DataError, match="missing"):
        run(wanted, RunFolder(tmp_path / "run"), data_directory=Path(tmp_path))
