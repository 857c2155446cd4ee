"""What a peer has for its neighbours: the models of its last rounds, in memory and on disk.

A model is on disk before anybody can get it. So a peer that is killed and started again sends the very same model, and
never a second one of the same round with other noise.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Condition

from entrofed.core.types import Update
from entrofed.errors import CheckpointError, DataError
from entrofed.files import write_whole
from entrofed.peer.wire import Answer, frame, read_update, unframe, write_update

KEEP = 3
"""Rounds whose models are kept: neighbours that wait for each other are at most one round apart."""
LOOK = 0.5
"""Seconds after which a waiting answer looks whether anybody still wants it."""


@dataclass(frozen=True)
class Entry:
    """What there is for a round: the update, None if there is none, and the message that says so."""

    update: Update | None
    message: bytes


class Outbox:
    """Filled by the peer's own round, emptied by nobody: neighbours take from it, several at a time."""

    def __init__(self, folder: Path, run: str, node: int) -> None:
        self._folder, self._run, self._node = folder, run, node
        self._entries: dict[int, Entry] = {}
        self._changed = Condition()

    def restore(self, number: int) -> None:
        """Read what was kept before a restart in round ``number``; later rounds were never played."""
        for path in sorted(self._folder.glob("round-*.message")):
            found = int(path.stem.removeprefix("round-"))
            if found > number:
                path.unlink()
                continue
            try:
                header, arrays = unframe(path.read_bytes(), Answer)
                update = read_update(header, arrays, self._node) if header.kind == "model" else None
            except (OSError, DataError) as error:
                raise CheckpointError(
                    f"{path}: the model that was sent in round {found + 1} is not readable ({error}); to train it "
                    "again may send other noise: remove the file if that is meant"
                ) from None
            self._add(found, update)

    def put(self, number: int, update: Update | None) -> None:
        """What there is to send in a round; None if there is nothing."""
        raw = self.none(number) if update is None else write_update(update, run=self._run, number=number, private=True)
        self._folder.mkdir(parents=True, exist_ok=True)
        write_whole(self._path(number), raw)
        self._add(number, update)

    def _add(self, number: int, update: Update | None) -> None:
        public = self.none(number) if update is None else write_update(update, run=self._run, number=number)
        with self._changed:
            self._entries[number] = Entry(update, public)
            for old in sorted(self._entries)[:-KEEP]:
                del self._entries[old]
                self._path(old).unlink(missing_ok=True)
            self._changed.notify_all()

    def of(self, number: int) -> Entry | None:
        """What there is for a round, if it is known by now."""
        return self._entries.get(number)

    def wait(self, number: int, seconds: float, wanted: Callable[[], bool]) -> None:
        """Until there is something for this round or a later one, so many seconds pass, or nobody wants it any more."""
        end = time.monotonic() + seconds
        with self._changed:
            while max(self._entries, default=-1) < number and (left := end - time.monotonic()) > 0 and wanted():
                self._changed.wait(min(left, LOOK))

    def answer(self, number: int, oldest: int) -> tuple[int, bytes]:
        """The round that an answer is for, and its message: of the round asked for; of the newest, if that was long
        ago; of the newest from ``oldest`` on, if it has not come yet; or that it has not.
        """
        with self._changed:
            rounds = [known for known in self._entries if oldest <= known <= number]
            if rounds:
                found = max(rounds)
            elif min(self._entries, default=number) > number:
                found = max(self._entries)
            else:
                return number, frame(Answer(run=self._run, kind="later", round=number))
            return found, self._entries[found].message

    def none(self, number: int) -> bytes:
        """That there is nothing for somebody in this round."""
        return frame(Answer(run=self._run, kind="none", round=number))

    def _path(self, number: int) -> Path:
        return self._folder / f"round-{number:06d}.message"
