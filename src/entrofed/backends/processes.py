"""Tasks done by persistent worker processes, one thread each.

The dataset, and who has which rows of it, lie once in shared memory, or in the files they are mapped from. A worker
has a block of shared memory for what comes in and one for what goes out: every array of a task and of what comes of it
is copied there, and nothing but small records goes through the pipe.
A user's own objects are sent once (:mod:`entrofed.backends.sending`), and the user's script is not run again.
Blocks grow as needed. The longest tasks go first, and a worker takes the next as soon as it is free. A worker that dies
is replaced and its task tried again: what the machine does to workers changes no result. A task over which workers die
again and again ends the run, which can be resumed. A worker that does not take in what it is sent is given up, too.
"""

import logging
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, replace
from multiprocessing import forkserver, get_context
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import numpy as np

from entrofed.backends.base import Backend, Workload
from entrofed.backends.parcels import Packer, Parcel, unpack
from entrofed.backends.sending import Outbox, packed
from entrofed.backends.shared import SharedArrays, SharedBlock, sweep_blocks
from entrofed.backends.worker import ROWS, STARTS, Setting, work
from entrofed.client.work import attempt
from entrofed.core.tasks import Task
from entrofed.core.types import Failure
from entrofed.errors import EntrofedError

log = logging.getLogger("entrofed")

TUNABLES = "GLIBC_TUNABLES"
SHORT, WORK, TOGETHER, TURNS = 64, 1 << 22, 16, 4
"""Samples, or samples times parameters, up to which a task is short: it takes about as long as to send it; how many of
these go together at most, and how often each worker gets some."""
TRIES = 5
"""How often workers may die over one task."""
LONG = 1 << 14
"""Bytes on their way to a worker from which on it may not be able to take them in, and somebody watches the clock."""
GRACE = 5.0
"""Seconds a worker is given to end by itself."""
SPARE = 1 << 16
"""Bytes of a new block beyond what is needed at once."""
START: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")
"""Workers are copies of a process that has loaded torch and computed nothing: to load it takes seconds."""


def get_ready() -> None:
    """Start the process that workers are copies of, if there is none, and do not wait while it loads torch."""
    if START.get_start_method() == "forkserver":
        START.set_forkserver_preload([__name__])
        with as_a_worker_wants_it():
            forkserver.ensure_running()


class ProcessBackend(Backend):
    """A set of worker processes behind the backend interface."""

    def __init__(self, workers: int, *, timeout: float = 3600.0) -> None:
        self._timeout = timeout
        self._workers: list[_Worker] = []
        self._data: SharedArrays | None = None
        self._outbox, self._parameters = Outbox(), 0
        sweep_blocks()
        try:
            for number in range(workers):
                self._workers.append(_Worker(number, timeout))
        except BaseException:
            self.close()
            raise

    def open(self, workload: Workload) -> None:
        """Give every worker the data and the model of an experiment."""
        federation, build = workload.federation, packed(workload.build)
        data = {field.name: getattr(federation.data, field.name) for field in fields(federation.data)}
        arrays = {name: value for name, value in data.items() if isinstance(value, np.ndarray)}
        data = {name: value for name, value in data.items() if name not in arrays and name != "role_names"}
        arrays |= {ROWS: federation.shards.rows, STARTS: federation.shards.starts}
        if self._data is not None:
            self._data.close()
        self._data = SharedArrays.create(list(arrays.values()))
        setting = Setting(
            data=data,
            names=tuple(arrays),
            arrays=self._data.handle,
            scaling=(federation.shift, federation.scale),
            build=build,
            layout=workload.layout,
            compiled=workload.compiled,
            path=tuple(sys.path),
            device=workload.device,
            precision=workload.precision,
        )
        self._outbox, self._parameters = Outbox(), workload.layout.floats
        for worker in self._workers:
            worker.open(setting, self._outbox)

    def run(self, tasks: Sequence[Task]) -> list[Any]:
        """Do the tasks, longest first, on whichever worker is free; what moves more than it computes, here."""
        self._outbox.begin()
        outcomes: list[Any] = [attempt(task, None) if task.near else None for task in tasks]
        waiting, tries = deque(self._bundles(tasks)), [0] * len(tasks)
        idle = list(self._workers)
        busy: dict[Any, tuple[_Worker, list[int], float]] = {}

        def give(worker: _Worker) -> None:
            bundle = waiting.popleft()
            worker.give(tuple([tasks[index] for index in bundle]))
            busy[worker.connection] = (worker, bundle, time.monotonic() + self._timeout)

        def failed(bundle: list[int], why: str | Failure) -> None:
            """Of several tasks nobody knows which it was: each is tried again by itself."""
            if len(bundle) > 1:
                waiting.extendleft([index] for index in reversed(bundle))
                return
            (index,) = bundle
            tries[index] += 1
            if isinstance(why, Failure):
                outcomes[index] = why
            elif tries[index] < TRIES:
                log.warning("%s; its task is done again", why)
                waiting.appendleft(bundle)
            else:
                raise EntrofedError(
                    f"{why}, {TRIES} times over the same task; look for memory that runs out, then resume the run"
                )

        try:
            while waiting or busy:
                while idle and waiting:
                    give(idle.pop())
                soonest = min(deadline for _, _, deadline in busy.values())
                ready = wait(list(busy), timeout=max(0.0, soonest - time.monotonic()))
                now = time.monotonic()
                late = [key for key, (_, _, deadline) in busy.items() if key not in ready and now >= deadline]
                for key in [*ready, *late]:
                    worker, bundle, _ = busy.pop(key)
                    parcel = None
                    if key in late:
                        worker.replace()
                        failed(bundle, Failure(f"no answer within {self._timeout:g} s"))
                    else:
                        try:
                            parcel = worker.take()
                        except EOFError:
                            failed(bundle, f"a worker died (exit code {worker.replace()})")
                    if waiting:
                        give(worker)  # before what it has made is looked at, so that it does not wait
                    else:
                        idle.append(worker)
                    if isinstance(parcel, Failure):
                        failed(bundle, parcel)
                    elif parcel is not None:
                        for index, outcome in zip(bundle, worker.unpack(parcel), strict=True):
                            outcomes[index] = outcome
        except EntrofedError:  # a task that cannot be sent or done: nobody waits for the others
            for worker, _, _ in busy.values():
                worker.replace()
            raise
        return outcomes

    def _bundles(self, tasks: Sequence[Task]) -> list[list[int]]:
        """The tasks for workers, longest first; of many short ones several go together, for a message takes time."""
        order = sorted((i for i, task in enumerate(tasks) if not task.near), key=lambda i: -tasks[i].cost)
        short_up_to = max(SHORT, WORK // max(self._parameters, 1))
        long = [i for i in order if tasks[i].cost > short_up_to]
        short = order[len(long) :]
        size = max(1, min(TOGETHER, len(short) // (TURNS * len(self._workers))))
        return [[i] for i in long] + [short[k : k + size] for k in range(0, len(short), size)]

    def close(self) -> None:
        """End the workers and free the shared memory."""
        for worker in self._workers:
            worker.close()
        self._workers = []
        if self._data is not None:
            self._data.close()
            self._data = None


class _Worker:
    """The parent's side of one worker: its process, its end of the pipe, and its blocks: one for what comes in, and two
    for what goes out by turns, so that one can be read while the worker goes on.
    """

    def __init__(self, number: int, timeout: float) -> None:
        self._number, self._timeout, self._unread = number, timeout, 0
        self._setting: Setting | None = None
        self._inbox, self._packer = SharedBlock(size=SPARE), Packer()
        self._outboxes, self._turn = [SharedBlock(size=SPARE), SharedBlock(size=SPARE)], 0
        try:
            self._start()
        except BaseException:
            self._free()
            raise

    def _start(self) -> None:
        START.set_forkserver_preload([__name__])
        self.connection, theirs = START.Pipe()
        self._process: BaseProcess = START.Process(target=work, args=(theirs,), daemon=True)
        with as_a_worker_wants_it():
            self._process.start()
        theirs.close()
        self._unread = 0
        self._packer.forget()
        if self._setting is not None:
            self.open(self._setting, self._outbox)

    def _send(self, raw: bytes | memoryview) -> None:
        """Send a message; a worker that does not take it in is killed, and the next read says so."""
        self._unread += len(raw)
        watch = threading.Timer(self._timeout, self._process.kill) if self._unread > LONG else None
        if watch is not None:
            watch.daemon = True
            watch.start()
        try:
            self.connection.send_bytes(raw)
        except OSError:
            pass  # it is dead, and the next read says so
        finally:
            if watch is not None:
                watch.cancel()

    def open(self, setting: Setting, outbox: Outbox) -> None:
        """Set up an experiment; the own objects of its tasks go to the ``outbox``."""
        self._setting, self._outbox, self._has = replace(setting, worker=self._number), outbox, 0
        self._packer.forget()
        self._send(ForkingPickler.dumps(self._setting))

    def give(self, tasks: tuple[Task, ...]) -> None:
        """Start on tasks."""
        if self._setting is None:
            raise RuntimeError("open() comes before run()")
        size = self._packer.lay_out(tasks)
        if size > self._inbox.size:
            self._inbox.close()
            self._inbox = SharedBlock(size=size + SPARE)
            self._packer.forget()
        self._turn = 1 - self._turn
        message = self._outbox.dumps((self._packer.write(self._inbox), self._outboxes[self._turn].name))
        if self._has < len(self._outbox.contents):
            self._send(ForkingPickler.dumps(self._outbox.contents[self._has :]))
            self._has = len(self._outbox.contents)
        self._send(message)

    def take(self) -> Parcel | Failure:
        """What came of the tasks, still packed, or why nothing did; EOFError if the worker died over them."""
        try:
            found = self.connection.recv()
            while isinstance(found, int):  # bytes that it needs to lay down what it has
                self._outboxes[self._turn].close()
                self._outboxes[self._turn] = SharedBlock(size=found + SPARE)
                self.connection.send(self._outboxes[self._turn].name)
                found = self.connection.recv()
        except OSError as error:
            raise EOFError from error
        self._unread = 0
        parcel: Parcel | Failure = found
        return parcel

    def unpack(self, parcel: Parcel) -> Any:
        """What came of tasks, as copies; before those after the next are given."""
        block = next(block for block in self._outboxes if block.name == parcel[1])
        return unpack(parcel, lambda spec: block.view(spec).copy())

    def replace(self) -> int | None:
        """A new process in the place of this one; returns the exit code of the old."""
        self._end(grace=0.0)
        code = self._process.exitcode
        self._start()
        return code

    def _end(self, grace: float) -> None:
        self.connection.close()
        self._process.join(grace)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _free(self) -> None:
        for block in (self._inbox, *self._outboxes):
            block.close()

    def close(self) -> None:
        self._end(GRACE)
        self._free()


@contextmanager
def _later(number: signal.Signals) -> Iterator[None]:
    """Hold a signal back, for us and for what is started meanwhile; it comes when we go on, and is never lost."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {number})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def as_a_worker_wants_it() -> Iterator[None]:
    """What a process started here inherits: Ctrl-C is for the parent alone, and memory comes in huge pages.

    With them, training spends up to 15 % less time on page faults. A user's own ``GLIBC_TUNABLES`` are left alone;
    other C libraries do not read the variable. The user's script is hidden: a process that finds it runs it again, and
    without ``if __name__ == "__main__"`` it would start workers of its own, and these again.
    """
    script = sys.modules["__main__"]
    ours = TUNABLES not in os.environ
    os.environ.setdefault(TUNABLES, "glibc.malloc.hugetlb=1")
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        with _later(signal.SIGINT):
            yield
    finally:
        sys.modules["__main__"] = script
        if ours:
            del os.environ[TUNABLES]
