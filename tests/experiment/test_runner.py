"""Whole runs: recorded, checkpointed, resumed bit for bit after anything."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest
from safetensors.numpy import load

from entrofed.backends.inline import InlineBackend
from entrofed.errors import ConfigError, DataError, QuorumError
from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.runner import run
from entrofed.files import write_whole

ROUNDS = 12


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
    """Everything that must be the same, bit for bit: records without times, last and best state."""
    records = folder.records()
    for record in records:
        del record["seconds"]
    states = {}
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
    assert [record["round"] for record in seen] == list(range(ROUNDS))
    assert folder.experiment() == experiment()
    assert folder.summary() == summary
    assert summary["accuracy"] == seen[-1]["test"]["accuracy"]
    assert summary["accuracy_best"] == max(record["test"]["accuracy"] for record in seen)
    table = pyarrow.parquet.read_table(folder.path / "metrics.parquet")
    assert table["round"].to_pylist() == list(range(ROUNDS))
    assert json.loads((folder.path / "environment.json").read_text())["packages"]["torch"]
    assert {path.name for path in folder.checkpoints.iterdir()} == {
        f"{name}.{kind}" for name in ("round-000011", "round-000012", "best") for kind in ("json", "safetensors")
    }
    best = load((folder.checkpoints / "best.safetensors").read_bytes())
    assert int(best["run/round"][0]) == 1 + int(np.argmax([record["test"]["accuracy"] for record in seen]))


def test_the_record_of_a_round(unbroken):
    first = unbroken[0][0]
    assert len(set(first["cohort"])) == 4
    assert first["cohort"] == [c["client"] for c in first["clients"]]
    weights = [c["weight"] for c in first["clients"]]
    examples = [c["examples"] for c in first["clients"]]
    assert weights == pytest.approx([n / sum(examples) for n in examples])
    assert first["effective_cohort"] == pytest.approx(1 / sum(w * w for w in weights))
    assert 0 < first["cohort_entropy"] <= np.log2(10)
    assert first["bytes_down"] == first["bytes_up"] == 4 * 4 * 4810
    assert [record["lr"] for record in unbroken[0]] == pytest.approx([0.1 * 0.97**t for t in range(ROUNDS)])


def test_another_seed_gives_another_run(tmp_path, unbroken):
    folder = RunFolder(tmp_path)
    run(experiment(seed=4), folder)
    assert result(folder) != unbroken


def _start_and_kill(folder: RunFolder, after: float) -> None:
    """Run in a child process and kill it with SIGKILL after some seconds."""
    child = os.fork()
    if child == 0:
        try:
            run(experiment(), folder, resume=True)
        finally:
            os._exit(0)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def test_fifty_kills_at_random_moments_change_nothing(tmp_path, unbroken):
    began = time.perf_counter()
    run(experiment(), RunFolder(tmp_path / "timed"))
    takes = time.perf_counter() - began
    moments = random.Random(0)
    rounds_done = set()
    for number in range(50):
        folder = RunFolder(tmp_path / str(number))
        _start_and_kill(folder, moments.uniform(0, 1.05 * takes))
        rounds_done.add(len(folder.records()))
        run(experiment(), folder, resume=True)
        assert result(folder) == unbroken, f"kill number {number}"
        assert not list(folder.path.rglob("*.tmp"))
    assert len(rounds_done) > 5  # the kills really came at different moments


def test_killed_before_and_after_every_write(tmp_path, monkeypatch):
    """No moment between two files is a bad one."""
    few = experiment(rounds=4)
    run(few, RunFolder(tmp_path / "unbroken"))
    expected = result(RunFolder(tmp_path / "unbroken"))
    for number in range(100):
        for moment in ("before", "after"):
            folder = RunFolder(tmp_path / f"{number} {moment}")
            child = os.fork()
            if child == 0:
                written = []

                def write(path, content, moment=moment, number=number, written=written):
                    if len(written) == number and moment == "before":
                        os.kill(os.getpid(), signal.SIGKILL)
                    write_whole(path, content)
                    if len(written) == number and moment == "after":
                        os.kill(os.getpid(), signal.SIGKILL)
                    written.append(path)

                monkeypatch.setattr("entrofed.experiment.checkpoint.write_whole", write)
                monkeypatch.setattr("entrofed.experiment.run_folder.write_whole", write)
                try:
                    run(few, folder)
                finally:
                    os._exit(0)
            _, status = os.waitpid(child, 0)
            run(few, folder, resume=True)
            assert result(folder) == expected, f"killed {moment} write {number}"
        if status == 0:
            break
    assert number > 15  # rounds, best states and manifests were written


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
        """
    )
    folder = RunFolder(tmp_path / "runs" / "t" / "seed-3")
    command = [sys.executable, "-c", "from entrofed.cli.main import main; main()", "run", "t.toml", "--resume"]
    for workers, least in ((2, 1), (1, 4), (2, None)):
        chosen = [*command, "--set", f"engine.workers={workers}"]
        process = subprocess.Popen(chosen, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while least is not None and len(folder.records()) < least and process.poll() is None:
            time.sleep(0.002)
        if least is not None:
            process.kill()
        _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors
    assert result(folder) == unbroken


def test_ctrl_c_keeps_what_is_done(tmp_path, unbroken):
    def interrupt(record):
        if record["round"] == 5:
            raise KeyboardInterrupt

    folder = RunFolder(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(experiment(checkpoint_seconds=1000), folder, observer=interrupt)
    assert folder.summary() is None
    seen = []
    run(experiment(), folder, resume=True, observer=seen.append)
    assert seen[0]["round"] == 6
    assert result(folder)[0] == unbroken[0]


def test_a_damaged_checkpoint_is_found_out_and_the_one_before_used(tmp_path, unbroken):
    def interrupt(record):
        if record["round"] == 6:
            raise KeyboardInterrupt

    folder = RunFolder(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        run(experiment(), folder, observer=interrupt)
    last = max(folder.checkpoints.glob("round-*.safetensors"))
    raw = bytearray(last.read_bytes())
    raw[len(raw) // 2] ^= 1
    last.write_bytes(raw)
    seen = []
    run(experiment(), folder, resume=True, observer=seen.append)
    assert seen[0]["round"] == 6  # the checkpoint after round 7 was damaged, the one after round 6 was not
    log = (folder.path / "log.txt").read_text()
    assert f"{last}: damaged" in log
    assert "going back to the checkpoint before" in log
    assert result(folder) == unbroken


def test_without_any_intact_checkpoint_it_starts_over(tmp_path, unbroken):
    folder = RunFolder(tmp_path)
    run(experiment(), folder)
    for path in folder.checkpoints.glob("*.safetensors"):
        path.write_bytes(b"")
    run(experiment(), folder, resume=True)
    assert result(folder) == unbroken


def test_a_run_is_not_overwritten_nor_resumed_with_other_settings(tmp_path):
    folder = RunFolder(tmp_path)
    run(experiment(rounds=2), folder)
    with pytest.raises(ConfigError, match="--resume"):
        run(experiment(rounds=2), folder)
    with pytest.raises(ConfigError, match=r"changed: seed"):
        run(experiment(rounds=2, seed=9), folder, resume=True)
    assert run(experiment(rounds=3), folder, resume=True)["rounds"] == 3


def test_two_processes_do_not_run_in_one_folder(tmp_path):
    folder = RunFolder(tmp_path)
    with folder.claimed(), pytest.raises(ConfigError, match="another process"):
        run(experiment(), folder)


class Sabotage(InlineBackend):
    """Clients of one round and later send no numbers."""

    def __init__(self, first: int, clients: set[int]) -> None:
        super().__init__()
        self.first, self.clients = first, clients

    def run(self, orders):
        outcomes = super().run(orders)
        for order, outcome in zip(orders, outcomes, strict=True):
            if getattr(order, "round", -1) >= self.first and order.client in self.clients:
                outcome.params.values[0] = np.nan
        return outcomes


def test_bad_clients_change_nothing_but_the_record(tmp_path):
    """A cohort with a NaN client gives the model that the cohort without it would have given."""
    folder = RunFolder(tmp_path)
    summary = run(experiment(rounds=3), folder, backend=Sabotage(0, set(range(6))))
    records = folder.records()
    refused = [entry for record in records for entry in record["refused"]]
    assert refused
    assert all(entry["client"] < 6 and entry["reason"] == "1 non-finite parameters" for entry in refused)
    assert summary["refused"] == len(refused)
    for record in records:
        assert np.isfinite(record["test"]["loss"])
        assert sum(c["weight"] for c in record["clients"]) == pytest.approx(1)


def test_below_the_quorum_the_model_stays_and_the_run_ends(tmp_path):
    folder = RunFolder(tmp_path)
    with pytest.raises(QuorumError, match="2 rounds in a row"):
        run(experiment(method={"cohort": 4, "max_skipped": 2}), folder, backend=Sabotage(3, set(range(12))))
    records = folder.records()
    assert [record["skipped"] for record in records] == [False] * 3 + [True] * 2
    assert records[2]["test"] == records[3]["test"] == records[4]["test"]
    assert "quorum" in (folder.path / "log.txt").read_text()


def test_evaluation_every_few_rounds(tmp_path):
    folder = RunFolder(tmp_path)
    run(experiment(rounds=6, evaluate_every=3), folder)
    assert [record["test"] is not None for record in folder.records()] == [False, False, True] * 2


def test_missing_data_says_so(tmp_path):
    wanted = experiment(data={"name": "mnist", "clients": 4}, model="mlp")
    with pytest.raises(DataError, match="missing"):
        run(wanted, RunFolder(tmp_path / "run"), data_directory=Path(tmp_path))
