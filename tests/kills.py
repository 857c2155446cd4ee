"""A run in a child process that is killed around one of its writes."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from entrofed.files import write_whole


def killed_around(
    write: int, moment: str, modules: tuple[str, ...], go: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> bool:
    """Whether the child came to this write (from 0) of the modules, and died ``before`` or ``after`` it."""
    child = os.fork()
    if child == 0:
        done: list[Path] = []

        def dying(path: Path, content: bytes) -> None:
            if len(done) == write and moment == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            write_whole(path, content)
            if len(done) == write and moment == "after":
                os.kill(os.getpid(), signal.SIGKILL)
            done.append(path)

        for module in modules:
            monkeypatch.setattr(f"entrofed.experiment.{module}.write_whole", dying)
        try:
            go()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] != 0
