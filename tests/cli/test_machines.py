"""What machines do to a run, through the command line: signals, full disks, damaged files of datasets."""

import errno
import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calls import IRIS, Go

from entrofed.data import catalog, fetch
from entrofed.data.catalog import SHIPPED
from entrofed.experiment import runner
from entrofed.experiment.run_folder import RunFolder


@pytest.fixture
def go(go: Go) -> Go:
    """With rounds to be broken off in."""
    Path("iris.toml").write_text(IRIS.replace("rounds = 2", "rounds = 6"))
    return go


@pytest.fixture
def _signals() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def bits(name: str) -> Any:
    """All that a run came to, without the time that it took."""
    folder = RunFolder(Path("runs") / name / "seed-0")
    summary = {**(folder.summary() or {}), "seconds": None}
    model = (folder.path / "model.safetensors").read_bytes()
    return [{**record.to_json(), "seconds": None} for record in folder.records()], summary, model


@pytest.mark.usefixtures("_signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_what_was_played(go: Go, monkeypatch: pytest.MonkeyPatch, number: int, code: int) -> None:
    assert go("run", "iris.toml", "--set", "name=whole").code == 0
    play = runner.run_round

    def signalled(job: Any, state: Any, *rest: Any, **named: Any) -> Any:
        if state.round == 4:
            os.kill(os.getpid(), number)
        return play(job, state, *rest, **named)

    with monkeypatch.context() as during:
        during.setattr(runner, "run_round", signalled)
        stopped = go("run", "iris.toml", "--set", "name=broken")
    assert stopped.code == code
    assert "finished rounds are kept" in stopped.err
    folder = RunFolder(Path("runs/broken/seed-0"))
    assert [record.round for record in folder.records()] == [0, 1, 2, 3]
    assert [path.name for path in folder.checkpoints.glob("*.safetensors")] == ["round-000004.safetensors"]
    assert go("resume", "runs/broken").code == 0
    assert bits("broken") == bits("whole")


@pytest.mark.parametrize("writes", [0, 1, 8, 9, 15])
def test_a_full_disk(go: Go, monkeypatch: pytest.MonkeyPatch, writes: int) -> None:
    """It is said, with exit code 1 and no traceback; once there is room, the run goes on with the same bits."""
    assert go("run", "iris.toml", "--set", "name=whole").code == 0
    flush, left = os.fsync, writes

    def full(file: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(file)

    with monkeypatch.context() as during:
        during.setattr(os, "fsync", full)
        failed = go("run", "iris.toml", "--set", "name=broken", "--set", "checkpoint_seconds=0")
    assert failed.code == 1
    assert "No space left on device; make room or choose another folder" in failed.err
    assert "unexpected" not in failed.err
    assert "runs/broken/seed-0/" in failed.err or writes >= 8  # the file of records, which is open all the time
    assert not list(Path("runs/broken").rglob("*.tmp"))
    assert go("run", "iris.toml", "--set", "name=broken", "--set", "checkpoint_seconds=0", "--resume").code == 0
    assert bits("broken") == bits("whole")


@pytest.mark.parametrize("there", [False, True], ids=["new", "there"])
def test_a_read_only_folder(go: Go, monkeypatch: pytest.MonkeyPatch, there: bool) -> None:
    """It ended as an unexpected error; root can write wherever the file system lets it, so this one does not."""
    if there:
        assert go("run", "iris.toml").code == 0

    def read_only(*args: Any, **named: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as during:
        during.setattr(os, "open" if there else "mkdir", read_only)
        failed = go("run", "iris.toml", "--resume")
    assert failed.code == 2
    assert "cannot be written to: Read-only file system; choose another folder" in failed.err
    assert "unexpected" not in failed.err


def test_digests_are_remembered_and_verify_forces_them(go: Go, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SHIPPED, tmp_path / "shipped")
    for module in (catalog, fetch):
        monkeypatch.setattr(module, "SHIPPED", tmp_path / "shipped")
    table = tmp_path / "shipped" / "iris.csv"
    os.utime(table, (1e9, 1e9))
    assert go("run", "iris.toml", "--verify").code == 0
    assert str(table) in json.loads((tmp_path / "cache" / "entrofed" / "verified.json").read_text())
    raw = table.read_bytes()
    table.write_bytes(raw.replace(b"5.1", b"5.2", 1))
    os.utime(table, (1e9, 1e9))  # as a disk does that lies
    assert go("run", "iris.toml", "--overwrite").code == 0
    for words in (("run", "iris.toml", "--overwrite", "--verify"), ("resume", "runs/iris", "--verify")):
        found = go(*words)
        assert found.code == 3
        assert f"not intact: {table}" in found.err.replace("\n", "")
    os.utime(table)
    assert go("run", "iris.toml", "--overwrite").code == 3
