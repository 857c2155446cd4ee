"""A run's state on disk: a safetensors file, and beside it a manifest with its SHA-256.

What clients keep lies in files of its own (:mod:`entrofed.experiment.client_state`), and a state holds their SHA-256.
Those files are written first and the manifest last: a file without one does not count. The model for use elsewhere is
another file (:mod:`entrofed.experiment.model_file`).
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from entrofed.core.params import Layout
from entrofed.core.types import State
from entrofed.errors import CheckpointError
from entrofed.experiment.client_state import ClientStates, ClientStateStore
from entrofed.files import write_whole

KEEP = 2
"""Checkpoints kept: if the last is damaged, the one before it serves."""

SECTIONS = ("model", "run", "selector", "server", "memory", "admission")
"""What the name of a tensor begins with."""


def pack(state: State, layout: Layout, memory: Mapping[int, str]) -> bytes:
    """A state as the bytes of a safetensors file; of what clients keep, the SHA-256 given."""
    tensors: dict[str, NDArray[Any]] = {f"model/{name}": array for name, array in layout.split(state.params).items()}
    tensors["run/round"], tensors["run/skipped"] = np.array([state.round]), np.array([state.skipped])
    for section, values in (
        ("selector", state.selector),
        ("server", state.server),
        ("admission", state.admission),
    ):
        tensors |= {f"{section}/{name}": array for name, array in values.items()}
    for client, digest in memory.items():
        tensors[f"memory/{client}"] = np.frombuffer(bytes.fromhex(digest), np.uint8)
    return save({name: np.asarray(array, order="C") for name, array in tensors.items()})


def unpack(raw: bytes, layout: Layout, store: ClientStateStore) -> State:
    """The inverse of :func:`pack`; the states of clients must be in the store's folder."""
    try:
        tensors = load(raw)
        sections: dict[str, dict[str, NDArray[Any]]] = {name: {} for name in SECTIONS}
        for name, array in tensors.items():
            section, rest = name.split("/", 1)
            sections[section][rest] = array
        memory = {int(client): store.known(digest.tobytes().hex()) for client, digest in sections["memory"].items()}
        return State(
            round=int(sections["run"]["round"][0]),
            params=layout.join(sections["model"]),
            selector=sections["selector"],
            server=sections["server"],
            client_states=ClientStates(store, memory),
            skipped=int(sections["run"]["skipped"][0]),
            admission=sections["admission"],
        )
    except (SafetensorError, KeyError, ValueError, IndexError) as error:
        raise CheckpointError(f"not a checkpoint of this model: {error}") from None


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of one run, in its folder."""

    folder: Path
    layout: Layout
    store: ClientStateStore

    def save(self, state: State) -> None:
        """Store a state, and forget all but the last two."""
        memory = (ClientStates(self.store) | state.client_states).write()
        raw = pack(state, self.layout, memory)
        manifest = {"round": state.round, "bytes": len(raw), "sha256": sha256(raw).hexdigest(), "memory": memory}
        path = self.folder / f"round-{state.round:06d}.safetensors"
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, raw)
        write_whole(path.with_suffix(".json"), json.dumps(manifest, indent=2) + "\n")
        self.prune(state.round)

    def prune(self, rounds: int) -> None:
        """Keep only the last two checkpoints of a run that has come so far; later ones were found damaged."""
        kept = [manifest.stem for manifest in self._manifests() if manifest.stem <= f"round-{rounds:06d}"][:KEEP]
        for path in self.folder.glob("round-*"):
            if path.stem not in kept:
                path.unlink(missing_ok=True)
        self.store.prune(set().union(*map(self._memory, kept)))

    def _manifests(self) -> list[Path]:
        return sorted(self.folder.glob("round-*.json"), reverse=True)

    def _memory(self, name: str) -> set[str]:
        """The files that a checkpoint's manifest lists; none if it cannot be read, for then nobody resumes from it."""
        try:
            return set(json.loads((self.folder / f"{name}.json").read_text(encoding="utf-8"))["memory"].values())
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return set()

    def last(self) -> tuple[State | None, list[str]]:
        """The newest intact state, and what was wrong with newer ones."""
        problems: list[str] = []
        for manifest in self._manifests():
            try:
                return self.read(manifest), problems
            except CheckpointError as error:
                problems.append(str(error))
        return None, problems

    def read(self, manifest: Path) -> State:
        """The state that a manifest vouches for."""
        path = manifest.with_suffix(".safetensors")
        try:
            promised = str(json.loads(manifest.read_text(encoding="utf-8"))["sha256"])
            raw = path.read_bytes()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise CheckpointError(f"{manifest}: unreadable checkpoint: {error}") from None
        found = sha256(raw).hexdigest()
        if found != promised:
            raise CheckpointError(f"{path}: damaged: its SHA-256 is {found[:12]}…, the manifest says {promised[:12]}…")
        try:
            return unpack(raw, self.layout, self.store)
        except CheckpointError as error:
            raise CheckpointError(f"{path}: {error}") from None
