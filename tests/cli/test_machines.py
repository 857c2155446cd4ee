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


@pytest.mark.usefixtures("_signals")
def test_a_signal_before_the_first_round(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    """No round is said to be kept where none was finished."""

    def signalled(*args: Any, **named: Any) -> Any:
        os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as during:
        during.setattr(runner, "run_round", signalled)
        stopped = go("run", "iris.toml")
    assert (stopped.code, stopped.err) == (130, "\nstopped; no round was finished: continue with --resume\n")
    assert go("run", "iris.toml", "--resume").code == 0


@pytest.mark.usefixtures("_signals")
def test_a_signal_where_no_rounds_are_played(go: Go, monkeypatch: pytest.MonkeyPatch) -> None:
    assert go("run", "iris.toml").code == 0
    with monkeypatch.context() as during:
        during.setattr("entrofed.report.write_report", lambda *args, **named: os.kill(os.getpid(), signal.SIGINT))
        stopped = go("report", "runs")
    assert (stopped.code, stopped.err) == (130, "\nstopped: the same command goes on\n")


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room or choose another folder"),
        (errno.EDQUOT, "make room or choose another folder"),
        (errno.EROFS, "choose a folder that can be written to"),
        (errno.EACCES, "get access to it or choose another folder"),
        (errno.EPERM, "get access to it or choose another folder"),
        (errno.EIO, "choose another folder"),
    ],
)
def test_the_remedy_fits_the_error(go: Go, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str) -> None:
    assert go("run", "iris.toml").code == 0

    def failing(*args: Any, **named: Any) -> None:
        raise OSError(number, os.strerror(number), "report.html")

    monkeypatch.setattr("entrofed.report.page.write_whole", failing)
    failed = go("report", "runs")
    said = f"error: report.html: {os.strerror(number)}; {remedy}\n"
    assert (failed.code, failed.err) == (1, said)


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
