"""A file is there whole or not at all."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.files import sweep, write_whole


class DiskError(Exception):
    """What the disk says."""


def fail(*_: Any, **__: Any) -> None:
    raise DiskError


def test_new_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "it"
    write_whole(path, b"\x00old")
    assert path.read_bytes() == b"\x00old"
    write_whole(path, "näw\n")
    assert path.read_bytes() == "näw\n".encode()
    write_whole(path, b"")
    assert path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [path]


@given(st.binary() | st.text())
def test_content_comes_back(tmp_path_factory: pytest.TempPathFactory, content: bytes | str) -> None:
    path = tmp_path_factory.getbasetemp() / "content"
    write_whole(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)


@pytest.mark.parametrize("step", ["fsync", "replace"])
@pytest.mark.parametrize("before", [None, b"old"])
def test_a_failure_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, before: bytes | None
) -> None:
    path = tmp_path / "it"
    if before is not None:
        path.write_bytes(before)
    monkeypatch.setattr(os, step, fail)
    with pytest.raises(DiskError):
        write_whole(path, b"new")
    monkeypatch.undo()
    assert [file.read_bytes() for file in tmp_path.iterdir()] == ([] if before is None else [before])
    write_whole(path, b"new")
    assert path.read_bytes() == b"new"


def test_an_interrupt_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "it", b"new")
    assert list(tmp_path.iterdir()) == []


def test_content_is_on_disk_before_the_name_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def log_fsync(handle: int) -> None:
        steps.append("folder" if os.path.isdir(f"/proc/self/fd/{handle}") else "file")
        fsync(handle)

    def log_replace(source: str, target: Path) -> None:
        steps.append(f"rename {Path(source).read_bytes().decode()}")
        assert Path(source).parent == target.parent
        replace(source, target)

    monkeypatch.setattr(os, "fsync", log_fsync)
    monkeypatch.setattr(os, "replace", log_replace)
    write_whole(tmp_path / "it", b"new")
    if os.path.isdir("/proc/self/fd"):
        assert steps == ["file", "rename new", "folder"]
    else:
        assert steps[1] == "rename new"


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "no" / "it", b"new")


def test_sweep_removes_what_a_killed_process_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    for path in (tmp_path / "it", tmp_path / "below" / "it", tmp_path / "notes.tmp"):
        write_whole(path, b"kept")
    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(Path, "unlink", fail)  # killed: nobody tidies up
    for folder in (tmp_path, tmp_path / "below"):
        with pytest.raises(DiskError):
            write_whole(folder / "it", b"half")
    monkeypatch.undo()
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 5
    sweep(tmp_path)
    left = sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert left == ["below/it", "it", "notes.tmp"]
    assert (tmp_path / "it").read_bytes() == b"kept"
