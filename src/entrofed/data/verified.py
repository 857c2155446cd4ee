"""Files of datasets are what was published, to the last byte: checked when they are read, once for each file.

What was found right is remembered in ``entrofed/verified.json`` in the user's cache, by its path, with size and time of
change: a file that was written since is checked again. ``entrofed data verify`` and ``run --verify`` check in any case.
"""

import gzip
import hashlib
import json
import time
import zlib
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from entrofed.data.sources import File, place
from entrofed.errors import DataError
from entrofed.files import cache_folder, write_whole

NAME = "verified.json"
SETTLED = 2_000_000_000
"""Nanoseconds since the last change; another one so soon after might leave size and time as they are."""


def check_files(name: str, files: Iterable[File], root: Path) -> None:
    """Raise a DataError if a file is there and is not the published one."""
    known, fresh = _read(), dict[str, list[int]]()
    for file in files:
        path = place(root, file)
        if not path.is_file():
            continue
        stat = path.stat()
        mark = [stat.st_size, stat.st_mtime_ns]
        key = str(path.absolute())
        if known.get(key) == mark:
            continue
        if not is_right(path, file):
            raise DataError(
                f"{path}: damaged: it is not the published file (its SHA-256 is another). Delete it, then: "
                f"entrofed data fetch {name}"
            )
        if time.time_ns() - stat.st_mtime_ns > SETTLED:
            fresh[key] = mark
    if fresh:
        _remember({**known, **fresh})


def _remember(marks: dict[str, list[int]]) -> None:
    """Keep what was found right, of files that are still there; where nothing can be kept, they are checked again."""
    there = {path: mark for path, mark in marks.items() if Path(path).is_file()}
    with suppress(OSError, RuntimeError):  # a cache that cannot be written to, or a user without a home
        path = cache_folder() / NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(there, indent=2) + "\n")


def _read() -> dict[str, list[int]]:
    try:
        return dict(json.loads((cache_folder() / NAME).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RuntimeError):  # RecursionError is a RuntimeError
        return {}


def is_right(path: Path, file: File) -> bool:
    """Whether a file, or one that is there gzipped, is the published one."""
    if path.name != Path(file.path).name:
        return _right_packed(path, file)
    return path.stat().st_size == file.size and right(path, file)


def right(path: Path, file: File) -> bool:
    """Whether a file has the digest that is known of it."""
    method = hashlib.sha256 if file.sha256 else partial(hashlib.md5, usedforsecurity=False)
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, method).hexdigest() == (file.sha256 or file.md5)


def _right_packed(path: Path, file: File) -> bool:
    """The same for a file that is there gzipped; never more than its size is unpacked."""
    try:
        with gzip.open(path) as stream:
            return hashlib.sha256(stream.read(file.size + 1)).hexdigest() == file.sha256
    except (OSError, EOFError, zlib.error):
        return False
