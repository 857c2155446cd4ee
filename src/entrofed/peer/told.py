"""What a peer knows of its neighbours: that they play the same run, and the facts that they tell once.

The first that a neighbour tells holds for the whole run, also after a restart: nobody gains weight by telling another
story later.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from entrofed.core.job import Job
from entrofed.core.round import FIRST_UPDATE
from entrofed.core.validation import MAX_EXAMPLES, fact_problem
from entrofed.errors import CheckpointError, DataError
from entrofed.files import write_whole
from entrofed.peer.agreement import difference
from entrofed.peer.config import Neighbour
from entrofed.peer.wire import Arrays, Hello, frame, unframe

log = logging.getLogger("entrofed")


class Told:
    """The introductions of the neighbours, each kept as it came. ``job``: of this peer alone."""

    def __init__(
        self, folder: Path, job: Job, run: str, agreed: Mapping[str, str], neighbours: Sequence[Neighbour]
    ) -> None:
        self._folder, self._job, self._run, self._agreed = folder, job, run, agreed
        self._facts = [fact for fact in job.method.facts_told("once") if fact.name != FIRST_UPDATE]
        self._names = {neighbour.number: neighbour.name for neighbour in neighbours}
        self._known: dict[int, tuple[Hello, Arrays]] = {}
        self._lock = Lock()
        for number in self._names:
            path = self._path(number)
            if path.exists():
                try:
                    self._add(number, *unframe(path.read_bytes(), Hello))
                except (OSError, DataError) as error:
                    raise CheckpointError(f"{path}: {error}; remove it, and the neighbour is asked again") from None

    def hello(self, node: int, at: int) -> bytes:
        """How this peer introduces itself."""
        clients = self._job.clients
        facts = {fact.name: np.asarray(clients.facts[fact.name][node]) for fact in self._facts}
        header = Hello(run=self._run, number=node, agreed=dict(self._agreed), examples=int(clients.sizes[node]), at=at)
        return frame(header, facts)

    def introduced(self, number: int, hello: Hello, facts: Arrays) -> None:
        """A neighbour has said who it is; a DataError if it plays something else or tells what cannot be used."""
        if hello.run != self._run:
            raise DataError(f"it plays run {hello.run!r}, and this is {self._run!r}")
        if hello.number != number:
            raise DataError(f"it says that it is number {hello.number}, and here it is number {number}")
        if (wrong := difference(self._agreed, hello.agreed)) is not None:
            raise DataError(wrong)
        with self._lock:
            if number not in self._known:
                self._add(number, hello, facts)
                self._folder.mkdir(parents=True, exist_ok=True)
                write_whole(self._path(number), frame(hello, facts))
                log.info("met %s (number %d), which is in round %d", self._names[number], number, hello.at + 1)

    def _add(self, number: int, hello: Hello, facts: Arrays) -> None:
        if hello.examples > MAX_EXAMPLES:
            raise DataError(f"absurd number of examples: {hello.examples}")
        if set(facts) != {fact.name for fact in self._facts}:
            raise DataError(f"it tells {sorted(facts)[:5]}, expected {[fact.name for fact in self._facts]}")
        for fact in self._facts:
            if (wrong := fact_problem(fact, facts[fact.name], self._job.clients.classes)) is not None:
                raise DataError(f"{fact.name}: {wrong}"[:500])
        self._known[number] = hello, facts

    def knows(self, number: int) -> bool:
        """Whether a neighbour has introduced itself."""
        return number in self._known

    def job(self) -> Job:
        """What this peer knows by now."""
        with self._lock:
            known = dict(self._known)
        clients = self._job.clients
        sizes = clients.sizes.copy()
        facts: dict[str, Any] = {
            name: table.copy() if isinstance(table, np.ndarray) else list(table)
            for name, table in clients.facts.items()
        }
        for number, (hello, told) in known.items():
            sizes[number] = hello.examples
            for fact in self._facts:
                facts[fact.name][number] = told[fact.name]
        return replace(self._job, clients=replace(clients, sizes=sizes, facts=facts))

    def _path(self, number: int) -> Path:
        return self._folder / f"{number}.message"
