"""Tasks done in this process as long as there is little to do, and by worker processes from then on.

To start workers takes seconds, in which small work is long done. The bits are the same either way.
"""

import logging
import time
from collections.abc import Sequence
from typing import Any

from entrofed.backends.base import Backend, Workload
from entrofed.backends.inline import InlineBackend
from entrofed.core.tasks import Task

log = logging.getLogger("entrofed")

SOON, START = 0.5, 2.0
"""Seconds of computing in this process after which workers are prepared, and started: about what it takes to do so."""
WORTH = 1e-3
"""Seconds that a task takes on average, below which workers do not pay: to send it and its result takes half of that,
and two workers halve the rest."""


class AutoBackend(Backend):
    """Inline until that has taken ``START`` seconds, or all rounds would take as long; with one worker, for good.

    How long they would take is told by the longest task; and by the next, for the first may have had to load things.

    It stays so where tasks are small, however many there are: see ``WORTH``.

    Where a model is compiled, workers do that from the start: it takes longer than to start them.
    """

    def __init__(self, workers: int, *, timeout: float = 3600.0) -> None:
        self._count, self._timeout, self._spent, self._done = workers, timeout, 0.0, 0
        self._ready = False
        self._backend: Backend = InlineBackend()
        self._workload: Workload | None = None

    def open(self, workload: Workload) -> None:
        """Set up the data and the model of an experiment."""
        self._workload = workload
        self._backend.open(workload)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Do the tasks, here or on workers."""
        far = sorted((i for i, task in enumerate(tasks) if not task.near), key=lambda i: -tasks[i].cost)
        if self._pays(far):
            self._start()
        outcomes: dict[int, Any] = {}
        left = sum(tasks[i].cost for i in far)
        for i in far[:2] if self._undecided and len(far) > 2 else ():
            took = self._do([i], tasks, outcomes)
            left -= tasks[i].cost
            if took <= WORTH or took * left * self._rounds <= START * tasks[i].cost:
                break
        else:
            if outcomes:
                self._start()
        self._do([i for i in range(len(tasks)) if i not in outcomes], tasks, outcomes)
        if self._spent > SOON and self._worth and not self._ready and self._count > 1:
            self._get_ready()
        return [outcomes[i] for i in range(len(tasks))]

    def _do(self, places: list[int], tasks: Sequence[Task], outcomes: dict[int, Any]) -> float:
        """Do some of the tasks; how long it took."""
        before = time.process_time()
        some = [tasks[i] for i in places]
        outcomes.update(zip(places, self._backend.run(some), strict=True))
        took = time.process_time() - before
        if far := sum(not task.near for task in some):  # workers would not do the others either
            self._spent += took
            self._done += far
        return took

    @property
    def _rounds(self) -> int:
        return 1 if self._workload is None else self._workload.rounds

    @property
    def _undecided(self) -> bool:
        return self._count > 1 and isinstance(self._backend, InlineBackend)

    def _pays(self, far: Sequence[int]) -> bool:
        """Whether to start workers now."""
        if self._workload is None or not self._undecided:
            return False
        return bool(self._workload.compiled) or (len(far) > 1 and self._spent > START and self._worth)

    @property
    def _worth(self) -> bool:
        """Whether tasks were large enough, on average, to be sent to somebody."""
        return self._spent > self._done * WORTH

    def _get_ready(self) -> None:
        from entrofed.backends.processes import get_ready

        self._ready = True
        get_ready()

    def _start(self) -> None:
        from entrofed.backends.processes import ProcessBackend

        log.info("from here on, %d worker processes", self._count)
        self._backend = ProcessBackend(self._count, timeout=self._timeout)
        if self._workload is not None:
            self._backend.open(self._workload)

    def close(self) -> None:
        """End the workers, if there are any."""
        self._backend.close()
