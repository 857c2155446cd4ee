"""Several runs at once, each inline in a process of its own: where there are more runs than cores, nobody waits.

A run has the same bits here as on its own engine. Processes do not hear Ctrl-C: they are told after their next round,
and save what they have.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from entrofed.backends.processes import START, as_a_worker_wants_it
from entrofed.core.records import RoundRecord
from entrofed.errors import EntrofedError
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder

Run = tuple[Experiment, RunFolder]
Outcome = dict[str, Any] | EntrofedError
"""The summary of a run, or what went wrong."""


@dataclass(frozen=True)
class Asked:
    """A run to be played."""

    experiment: Experiment
    folder: Path
    data_directory: Path | None
    how: dict[str, bool]
    """``resume``, ``overwrite``, ``from_scratch``, as a run takes them."""


class Player:
    """A process that plays one run after another."""

    def __init__(self, stop: Event) -> None:
        self._stop = stop
        self.run: Run | None = None
        self.start()

    def start(self) -> None:
        """Start the process, or another in its place."""
        self.connection, theirs = START.Pipe()
        self._process = START.Process(target=_serve, args=(theirs, self._stop), daemon=True)
        with as_a_worker_wants_it():
            self._process.start()
        theirs.close()

    def play(self, run: Run, data_directory: Path | None, how: dict[str, bool]) -> None:
        """Begin with a run."""
        self.run = run
        self.connection.send(Asked(run[0], run[1].path, data_directory, how))

    def close(self) -> None:
        """Wait for its end."""
        self.connection.close()
        self._process.join()


@contextmanager
def players(jobs: int) -> Iterator[list[Player]]:
    """Processes to play runs; whatever happens, those that play stop after a round and save."""
    stop = START.Event()
    found = [Player(stop) for _ in range(jobs)]
    try:
        yield found
    finally:
        stop.set()
        for player in found:
            player.close()


def heard(busy: list[Player]) -> Iterator[tuple[Player, Run, RoundRecord | Outcome]]:
    """What the players that play have to say of their runs, as soon as one has."""
    ready = wait([player.connection for player in busy])
    for player in busy:
        if player.connection not in ready or player.run is None:
            continue
        try:
            yield player, player.run, player.connection.recv()
        except (EOFError, ConnectionResetError):
            player.start()
            died = EntrofedError("the process that played it died; resume it, with fewer jobs if memory ran out")
            yield player, player.run, died


def _serve(connection: Connection, stop: Event) -> None:
    from entrofed.backends.inline import InlineBackend
    from entrofed.experiment.runner import run

    def tell(record: RoundRecord) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        connection.send(record)

    while True:
        try:
            asked = connection.recv()
        except (EOFError, ConnectionResetError):
            return
        try:
            outcome: Outcome = run(
                asked.experiment,
                RunFolder(asked.folder),
                backend=InlineBackend(),
                data_directory=asked.data_directory,
                observer=tell,
                **asked.how,
            )
        except EntrofedError as error:
            outcome = error
        except (KeyboardInterrupt, BrokenPipeError):
            return
        connection.send(outcome)
