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
LARGE = 1e9
"""Samples to pass over times parameters, from which on workers do the tasks at once: a second, and more."""


class AutoBackend(Backend):
    """Inline until that has taken ``START`` seconds, or tasks are ``LARGE``; with one worker, for good.

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
        if self._pays(tasks):
            self._start()
        before = time.process_time()
        outcomes = self._backend.run(tasks)
        if far := sum(not task.near for task in tasks):  # workers would not do the others either
            self._spent += time.process_time() - before
            self._done += far
        if self._spent > SOON and self._worth and not self._ready and self._count > 1:
            self._get_ready()
        return outcomes

    def _pays(self, tasks: Sequence[Task]) -> bool:
        """Whether to start workers now."""
        workload = self._workload
        if workload is None or self._count == 1 or not isinstance(self._backend, InlineBackend):
            return False
        far = [task.cost for task in tasks if not task.near]
        work = sum(far) * workload.layout.trainable
        soon = self._spent > START and self._worth
        return bool(workload.compiled) or (len(far) > 1 and (soon or work > LARGE))

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
