"""Files that are there whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from entrofed.errors import ConfigError

TEMPORARY = ".tmp"


def cache_folder() -> Path:
    """Where we keep what can be made again: ``entrofed`` in $XDG_CACHE_HOME, else in ``~/.cache``."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "entrofed"


def data_folder() -> Path:
    """Where we keep what must not be lost: ``entrofed`` in $XDG_DATA_HOME, else in ``~/.local/share``."""
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "entrofed"


def sweep(folder: Path) -> None:
    """Remove temporary files that a killed process left behind."""
    for path in folder.rglob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write to a temporary file beside ``path``, flush it to disk, and rename it into place."""
    try:
        _write(path, content.encode() if isinstance(content, str) else content)
    except OSError as error:
        error.filename = str(path)  # not the temporary file; and a full disk does not say where
        raise


def _write(path: Path, raw: bytes) -> None:
    temporary = path.parent / f".{path.name}.{os.getpid()}{TEMPORARY}"
    try:
        with temporary.open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    if os.name == "posix":  # elsewhere a folder cannot be flushed
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def open_own(path: Path, mode: str = "a") -> IO[str]:
    """Open a file to write to, without following a link: who prepared the folder does not choose what is written."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        return os.fdopen(os.open(path, flags, 0o666), mode, encoding="utf-8")
    except OSError as error:
        if path.is_symlink():
            raise ConfigError(f"{path}: is a link to another file; remove it, or choose another folder") from None
        raise ConfigError(f"{path}: cannot be written to: {error.strerror}; choose another folder") from None


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Hold a file: whoever else wants to waits until we let go."""
    with open_own(path) as file:
        if os.name == "posix":
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
