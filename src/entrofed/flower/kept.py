"""What a strategy leaves in its folder, so that it can go on after its ServerApp was stopped.

::

    strategy.json        what the run is: method, seed, model; another run is refused
    clients.json         the clients' names in the order of their numbers, and what they told of their labels
    metrics.jsonl        one line a round
    checkpoints/         the last two states
    memory/              what clients remember
"""

import json
import logging
import os
from pathlib import Path
from typing import Any

from entrofed.core.params import Layout
from entrofed.core.types import State
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.checkpoint import Checkpoints
from entrofed.experiment.client_state import Memories, Pool
from entrofed.experiment.run_folder import RunFolder, json_line
from entrofed.files import write_whole

log = logging.getLogger("entrofed")

AT_HAND = 256e6
"""Bytes of what clients remember that are kept at hand; the rest is on disk."""


class Kept:
    """The folder of one run of a strategy."""

    def __init__(self, folder: Path, layout: Layout) -> None:
        self.folder, self._run = folder, RunFolder(folder)
        self._pool = Pool(folder / "memory", AT_HAND)
        self._checkpoints = Checkpoints(self._run.checkpoints, layout, self._pool)

    def memories(self) -> Memories:
        """What clients remember before the first round."""
        return Memories(self._pool)

    def claim(self, settings: dict[str, Any]) -> None:
        """Raise a ConfigError if another run lies here."""
        path, now = self.folder / "strategy.json", json.loads(json.dumps(settings))
        if path.exists():
            before = self._read(path)
            changed = [key for key in {**before, **now} if before.get(key) != now.get(key)]
            if changed:
                raise ConfigError(
                    f"{self.folder}: another run lies here; changed: {', '.join(changed)}. Take another folder"
                )
        else:
            write_whole(path, json.dumps(now, indent=2) + "\n")

    def last(self) -> tuple[State, dict[str, Any], list[dict[str, Any]]] | None:
        """The last whole round: the state after it, the clients, and the records so far."""
        state, problems = self._checkpoints.last()
        for problem in problems:
            log.warning("%s; going back to the checkpoint before", problem)
        if state is None:
            if problems:
                raise CheckpointError(f"{self.folder}: no checkpoint can be used; take another folder to begin anew")
            return None
        clients = self._read(self.folder / "clients.json")
        self._run.keep_rounds(state.round)
        self._checkpoints.prune(state.round)
        return state, clients, self._run.records()

    def keep(self, state: State, clients: dict[str, Any], record: dict[str, Any]) -> None:
        """Write down a round; the state comes last, so that it never gets ahead of the rest."""
        write_whole(self.folder / "clients.json", json.dumps(clients) + "\n")
        if state.round == 1:
            (self.folder / "metrics.jsonl").unlink(missing_ok=True)
        with (self.folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json_line(record))
            file.flush()
            os.fsync(file.fileno())
        self._checkpoints.save(state)

    def _read(self, path: Path) -> dict[str, Any]:
        try:
            return dict(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise CheckpointError(f"{path}: not readable ({error}); take another folder to begin anew") from None
