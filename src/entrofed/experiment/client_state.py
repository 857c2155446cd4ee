"""What clients keep from one participation to the next: in memory up to a limit, beyond it on disk.

A client's state is kept as the bytes of a safetensors file, so that it reads the same whether it was in memory or on
disk. Its file is named by its SHA-256 and never changes: checkpoints share it, and a new one writes only what is new.

>>> from tempfile import TemporaryDirectory
>>> with TemporaryDirectory() as folder:
...     before = ClientStates(ClientStateStore(Path(folder), limit=0))
...     after = before | {7: {"velocity": np.array([0.5, 2.0])}}
...     len(before), after[7]["velocity"].tolist()
(0, [0.5, 2.0])
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from threading import RLock
from weakref import ReferenceType, ref

import numpy as np
from safetensors.numpy import load, save

from entrofed.core.types import PartState
from entrofed.errors import CheckpointError
from entrofed.files import write_whole


@dataclass(eq=False)
class StoredState:
    """One client's state: its bytes if they are in memory, and the SHA-256 that names its file if it has one."""

    raw: bytes = b""
    digest: str = ""


class ClientStateStore:
    """Where client states are kept: ``limit`` bytes in memory, those used last; the others in ``folder``."""

    def __init__(self, folder: Path, limit: float) -> None:
        self.folder, self.limit, self.held = folder, limit, 0
        """``held``: bytes in memory."""
        self._lock = RLock()  # a checkpoint may be written while the run goes on
        self._living: dict[ReferenceType[StoredState], None] = {}
        self._loaded: dict[ReferenceType[StoredState], int] = {}  # their bytes; those used last come last

    def add(self, state: PartState) -> StoredState:
        """A new entry."""
        return self._used(StoredState(save({name: np.asarray(array, order="C") for name, array in state.items()})))

    def read(self, entry: StoredState) -> PartState:
        """What an entry holds, as fresh arrays."""
        with self._lock:
            if not entry.raw:
                try:
                    entry.raw = self._fetch(entry.digest)
                except CheckpointError as error:
                    raise CheckpointError(
                        f"{error}; 'entrofed resume' goes back to where all files are intact"
                    ) from None
            raw = entry.raw
            self._used(entry)
            return load(raw)

    def write(self, entry: StoredState) -> str:
        """Give an entry a file unless it has one; returns its SHA-256."""
        with self._lock:
            if not entry.digest:
                digest = sha256(entry.raw).hexdigest()
                self.folder.mkdir(parents=True, exist_ok=True)
                write_whole(self._path(digest), entry.raw)  # one of this name may be there, and damaged
                entry.digest = digest
            return entry.digest

    def known(self, digest: str) -> StoredState:
        """The entry of a file that was written before; checked, and read when it is needed."""
        self._fetch(digest)
        entry = StoredState(digest=digest)
        with self._lock:
            self._living[ref(entry, self._gone)] = None
        return entry

    def prune(self, needed: set[str]) -> None:
        """Remove the files that are neither needed nor of a living entry."""
        with self._lock:
            needed = needed | {entry.digest for living in list(self._living) if (entry := living()) is not None}
            for path in self.folder.glob("*.safetensors"):
                if path.stem not in needed:
                    path.unlink(missing_ok=True)

    def _used(self, entry: StoredState) -> StoredState:
        """The entry, as the one used last."""
        with self._lock:
            key = ref(entry, self._gone)
            self._living[key] = None
            self.held += len(entry.raw) - self._loaded.pop(key, 0)
            self._loaded[key] = len(entry.raw)
            while self.held > self.limit and self._loaded:
                oldest = next(iter(self._loaded))
                found = oldest()
                if found is not None:
                    self.write(found)
                    found.raw = b""
                self.held -= self._loaded.pop(oldest, 0)
            return entry

    def _gone(self, key: "ReferenceType[StoredState]") -> None:
        """Nobody has the entry any more."""
        with self._lock:
            self._living.pop(key, None)
            self.held -= self._loaded.pop(key, 0)

    def _fetch(self, digest: str) -> bytes:
        path = self._path(digest)
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise CheckpointError(f"{path}: unreadable state of a client: {error.strerror}") from None
        found = sha256(raw).hexdigest()
        if found != digest:
            raise CheckpointError(f"{path}: damaged: its SHA-256 is {found[:12]}…, not what it is named by")
        return raw

    def _path(self, digest: str) -> Path:
        return self.folder / f"{digest}.safetensors"


class ClientStates(Mapping[int, PartState]):
    """What each client keeps. Never changes: ``states | {client: state}`` is a new one that shares the rest."""

    def __init__(self, store: ClientStateStore, entries: Mapping[int, StoredState] | None = None) -> None:
        self._store, self._entries = store, dict(entries or {})

    def __getitem__(self, client: int) -> PartState:
        return self._store.read(self._entries[client])

    def __iter__(self) -> Iterator[int]:
        return iter(sorted(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, client: object) -> bool:
        return client in self._entries

    def __or__(self, other: Mapping[int, PartState]) -> "ClientStates":
        if isinstance(other, ClientStates) and other._store is self._store:
            return ClientStates(self._store, {**self._entries, **other._entries})
        new = {client: self._store.add(other[client]) for client in other}
        return ClientStates(self._store, {**self._entries, **new})

    def write(self) -> dict[int, str]:
        """Write what is not on disk yet; returns the SHA-256 of each client's file."""
        return {client: self._store.write(self._entries[client]) for client in self}
