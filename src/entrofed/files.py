"""Files that are there whole or not at all."""

import os
from pathlib import Path

TEMPORARY = ".tmp"


def sweep(folder: Path) -> None:
    """Remove temporary files that a killed process left behind."""
    for path in folder.rglob(f".*{TEMPORARY}"):
        path.unlink(missing_ok=True)


def write_whole(path: Path, content: bytes | str) -> None:
    """Write to a temporary file beside ``path``, flush it to disk, and rename it into place."""
    raw = content.encode() if isinstance(content, str) else content
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
