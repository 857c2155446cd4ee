"""What the files of a run should be: ``manifest.json`` holds the SHA-256 of each, so that no damage goes unseen.

Before a file is written, its new SHA-256 is added beside the one before: whenever the process dies, the file is one of
the two. Growing files carry a digest in each line instead (:func:`sealed`), checkpoints and what clients keep have
checksums of their own. Runs of earlier versions have no manifest, and are read as they are.
"""

import json
from hashlib import sha256
from pathlib import Path

from entrofed.errors import CheckpointError
from entrofed.files import write_whole

NAME = "manifest.json"
MARK = ', "digest": "'
LENGTH = 16


def write_listed(path: Path, content: str | bytes) -> None:
    """Write a file whole, after its SHA-256 is in the manifest of its folder."""
    raw = content.encode() if isinstance(content, str) else content
    listed, digest = _read(path.parent), sha256(raw).hexdigest()
    before = listed.get(path.name, [])[-1:] if path.exists() else []
    _write(path.parent, {**listed, path.name: list(dict.fromkeys([*before, digest]))})
    write_whole(path, raw)


def list_grown(path: Path) -> None:
    """A file that has grown line by line grows no more: from now on its end cannot get lost unseen."""
    _write(path.parent, {**_read(path.parent), path.name: [sha256(path.read_bytes()).hexdigest()]})


def unlist(path: Path) -> None:
    """The file may grow again."""
    listed = _read(path.parent)
    if listed.pop(path.name, None) is not None:
        _write(path.parent, listed)


def _write(folder: Path, listed: dict[str, list[str]]) -> None:
    words = json.dumps(listed, indent=2)
    seal = json.dumps({"sha256": sha256(words.encode()).hexdigest()})
    write_whole(folder / NAME, f"{seal}\n{words}\n")


def read_listed(path: Path) -> bytes:
    """The content of a file; a CheckpointError if it is not what was written, a FileNotFoundError if there is none."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise CheckpointError(f"{path}: not readable: {error.strerror}") from None
    digests = _read(path.parent).get(path.name)
    if digests is not None and sha256(raw).hexdigest() not in digests:
        raise CheckpointError(
            f"{path}: damaged or edited: its SHA-256 is not the one in {NAME}. Bring back the file as it was; if the "
            f"change is meant, delete {path.parent / NAME}"
        )
    return raw


def damaged_in(folder: Path) -> list[str]:
    """What is wrong with the files of a folder that its manifest lists, a sentence for each."""
    found = []
    for name in _read(folder):
        try:
            read_listed(folder / name)
        except FileNotFoundError:
            found.append(f"{folder / name}: is missing")
        except CheckpointError as error:
            found.append(str(error))
    return found


def is_listed(path: Path) -> bool:
    """Whether the manifest says what is in the file."""
    return path.name in _read(path.parent)


def _read(folder: Path) -> dict[str, list[str]]:
    """What is listed; nothing if there is no manifest, or if it is damaged itself: it vouches for no content then."""
    try:
        seal, _, words = (folder / NAME).read_text(encoding="utf-8").partition("\n")
        words = words.removesuffix("\n")
        if json.loads(seal)["sha256"] != sha256(words.encode()).hexdigest():
            return {}
        found: dict[str, list[str]] = json.loads(words)
        return found
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def sealed(line: str) -> str:
    """A line of JSON, a table, with the digest of all before it as its last entry.

    >>> sealed('{"round": 0}')
    '{"round": 0, "digest": "ae3a1247d238efa0"}'
    """
    return f'{line[:-1]}{MARK}{_digest(line[:-1])}"}}'


def seal_holds(line: str) -> bool:
    """Whether a line is what was written; one of an earlier version, without a digest, is taken as it is."""
    content, mark, digest = line.rpartition(MARK)
    return not mark or digest == f'{_digest(content)}"}}'


def _digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:LENGTH]
