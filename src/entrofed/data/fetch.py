"""Get the files of a dataset, and check them.

A download goes to ``NAME.part`` beside its place, is taken up again where it stopped, and gets its name only
once its SHA-256 is right. Archives are never unpacked as a whole: only the members we name are written.
"""

import http.client
import os
import ssl
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from entrofed import __version__
from entrofed.data.catalog import SHIPPED, dataset_entry, how_to_get
from entrofed.data.sources import File, place
from entrofed.data.verified import is_right, right
from entrofed.errors import DataError

Progress = Callable[[str, int, int], None]
"""Called with a file's name, the bytes there are, and the bytes there will be."""

TIMEOUT = 30.0
"""Seconds without an answer after which a server counts as unreachable."""
UNREACHABLE = (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError)
CHUNK = 1 << 18


@dataclass(frozen=True)
class FileStatus:
    """What became of one file (or folder of pictures)."""

    path: Path
    state: Literal["ok", "missing", "damaged"]


def verify(name: str, directory: Path) -> list[FileStatus]:
    """The state of every file of a dataset; folders of pictures are counted, everything else is hashed.

    >>> [status.state for status in verify("iris", Path("/anywhere"))]
    ['ok']
    """
    entry = dataset_entry(name)
    root = SHIPPED if entry.shipped else directory
    unpacked = any((root / folder).exists() for folder, _ in entry.folders)
    if unpacked and not any((root / file.path).exists() for file in entry.files):
        return [FileStatus(root / folder, _folder_state(root / folder, count)) for folder, count in entry.folders]
    return [FileStatus(place(root, file), _state(place(root, file), file)) for file in entry.files]


def fetch(name: str, directory: Path, progress: Progress | None = None) -> list[Path]:
    """Make every file of a dataset present and right: what is missing or damaged is downloaded.

    Returns the paths of all files (of none, for a dataset that comes with scikit-learn). What has no
    address, or cannot be reached, is a DataError that says what to put where.
    """
    entry = dataset_entry(name)
    statuses = verify(name, directory)
    right = [status.path for status in statuses if status.state == "ok"]
    if len(right) == len(statuses):
        return right
    if entry.shipped:
        raise DataError(f"{name}: its file in {SHIPPED} is damaged. Install entrofed again.")
    wanted = [file for file in entry.files if place(directory, file) not in right]
    reasons = [f"{s.path} is there, but is not the published file" for s in statuses if s.state == "damaged"]
    try:
        wanted = [file for file in wanted if not _download(file, directory, progress, reasons)]
        if wanted and (archive := entry.archive) is not None:
            kept = _state(directory / archive.path, archive) == "ok"
            if kept or _download(archive, directory, progress, reasons):
                _unpack(directory / archive.path, wanted, directory)
                wanted = []
                if not kept:
                    (directory / archive.path).unlink()
    except OSError as error:
        raise DataError(f"{name}: cannot write to {directory}: {error}. Choose another data directory.") from error
    if wanted:
        lines = [f"{name} could not be fetched. Get it by hand:", how_to_get(name, directory, wanted)]
        raise DataError("\n".join([*lines, *reasons]))
    return [place(directory, file) for file in entry.files]


def _state(path: Path, file: File) -> Literal["ok", "missing", "damaged"]:
    if not path.is_file():
        return "missing"
    return "ok" if is_right(path, file) else "damaged"


def _folder_state(path: Path, count: int) -> Literal["ok", "missing", "damaged"]:
    if not path.is_dir():
        return "missing"
    return "ok" if sum(1 for _ in path.glob("*.png")) == count else "damaged"


def _download(file: File, directory: Path, progress: Progress | None, reasons: list[str]) -> bool:
    """Try each mirror; a leftover part may be bad, so that the first mirror then gets a second chance."""
    target = directory / file.path
    part = target.with_name(target.name + ".part")
    for url in file.urls[:1] * part.exists() + file.urls:
        part.parent.mkdir(parents=True, exist_ok=True)
        try:
            _receive(url, part, file, progress)
        except UNREACHABLE as error:
            reasons.append(f"Tried {url}: {error}")
            continue
        size = part.stat().st_size
        if size < file.size:
            reasons.append(f"Tried {url}: it broke off after {size:,} of {file.size:,} bytes; fetch again to go on")
        elif size == file.size and right(part, file):
            part.replace(target)
            return True
        else:
            reasons.append(f"Tried {url}: its content is not the published one")
            part.unlink()
    return False


def _receive(url: str, part: Path, file: File, progress: Progress | None) -> None:
    """Append to the part what it lacks, or start it anew where the server cannot go on in the middle."""
    start = part.stat().st_size if part.exists() else 0
    if start == file.size:
        return
    if start > file.size:
        start = 0
    headers = {"User-Agent": f"entrofed/{__version__}", **({"Range": f"bytes={start}-"} if start else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (the addresses are in our catalogue)
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:  # noqa: S310
        resumed = start > 0 and answer.headers.get("Content-Range", "").startswith(f"bytes {start}-")
        done = start if resumed else 0
        announced = answer.headers.get("Content-Length")
        if announced not in (None, str(file.size - done)):
            raise http.client.HTTPException(f"offers {announced} bytes where {file.size - done} are due")
        with part.open("ab" if resumed else "wb") as out:
            while done <= file.size and (chunk := answer.read(CHUNK)):
                out.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(file.path, done, file.size)
            _settle(out)
        if announced is None and done < file.size:
            part.unlink()
            raise http.client.HTTPException(f"ended after {done:,} of {file.size:,} bytes")


def _settle(out: IO[bytes]) -> None:
    out.flush()
    os.fsync(out.fileno())


def _unpack(path: Path, files: list[File], directory: Path) -> None:
    """Write the named members of an archive whose SHA-256 has been checked."""
    left = {file.member: file for file in files}
    try:
        if path.suffix == ".zip":
            with zipfile.ZipFile(path) as zipped:
                for name in left.keys() & set(zipped.namelist()):
                    with zipped.open(name) as stream:
                        _write(stream, directory, left.pop(name))
        else:
            with tarfile.open(path, "r|gz") as tarred:
                for member in tarred:
                    if member.isfile() and member.name in left and (data := tarred.extractfile(member)):
                        _write(data, directory, left.pop(member.name))
    except (EOFError, RuntimeError, zipfile.BadZipFile, tarfile.TarError, zlib.error) as error:
        raise DataError(f"{path}: cannot be unpacked: {error}. Delete it and fetch again.") from error
    if left:
        raise DataError(f"{path}: has no member {', '.join(left)}. Delete it and fetch again.")


def _write(member: IO[bytes], directory: Path, file: File) -> None:
    target = directory / file.path
    part = target.with_name(target.name + ".part")
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as out:
        left = file.size + 1
        while left and (chunk := member.read(min(CHUNK, left))):
            out.write(chunk)
            left -= len(chunk)
        _settle(out)
    if left != 1 or not right(part, file):
        part.unlink()
        raise DataError(f"{target}: the archive's {file.member} is not the published one. Delete it and fetch again.")
    part.replace(target)
