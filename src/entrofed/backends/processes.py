"""Tasks done by persistent worker processes, one thread each.

The dataset lies once in shared memory. A worker has a block of shared memory for what comes in and one for what goes
out: every array of a task and of what comes of it is copied there, and nothing but small records goes through the pipe.
A user's own objects are sent once (:mod:`entrofed.backends.sending`), and the user's script is not run again.
Blocks grow as needed. The longest tasks go first, and a worker takes the next as soon as it is free. A worker that dies
is replaced and its task tried once more, then given up.
"""

import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, fields, replace
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import ForkingPickler
from types import ModuleType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.backends.base import Backend, Leaf, Workload, attach, detach
from entrofed.backends.sending import Outbox, forget, keep, packed, unpacked
from entrofed.backends.shared import Handle, SharedArrays, SharedBlock, Spec, placed
from entrofed.client.device import Precision
from entrofed.client.runtime import ClientRuntime
from entrofed.client.work import attempt, failure_of
from entrofed.core.params import Layout, Params
from entrofed.core.tasks import Task
from entrofed.core.types import Failure
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError

TUNABLES = "GLIBC_TUNABLES"
SHORT, TOGETHER, TURNS = 64, 16, 4
"""Samples up to which a task is short, how many of these go together at most, and how often each worker gets some."""
TRIES = 2
GRACE = 5.0
"""Seconds a worker is given to end by itself."""
SPARE = 1 << 16
"""Bytes of a new block beyond what is needed at once."""
ATTACHED = 6
"""Blocks that a worker keeps attached: its three, and those before they grew."""
START: Any = get_context("forkserver" if sys.platform == "linux" else "spawn")
"""Workers are copies of a process that has loaded torch and computed nothing: to load it takes seconds."""


class ProcessBackend(Backend):
    """A set of worker processes behind the backend interface."""

    def __init__(self, workers: int, *, timeout: float = 3600.0) -> None:
        self._timeout = timeout
        self._workers = [_Worker(number) for number in range(workers)]
        self._data: SharedArrays | None = None
        self._outbox = Outbox()

    def open(self, workload: Workload) -> None:
        """Give every worker the data and the model of an experiment."""
        federation, build = workload.federation, packed(workload.build)
        data = _fields(federation.data)
        arrays = {name: value for name, value in data.items() if isinstance(value, np.ndarray)}
        if self._data is not None:
            self._data.close()
        self._data = SharedArrays.create(list(arrays.values()))
        setting = _Setting(
            data={name: value for name, value in data.items() if name not in arrays},
            names=tuple(arrays),
            arrays=self._data.handle,
            federation={name: value for name, value in _fields(federation).items() if name != "data"},
            build=build,
            layout=workload.layout,
            compiled=workload.compiled,
            path=tuple(sys.path),
            device=workload.device,
            precision=workload.precision,
        )
        self._outbox = Outbox()
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

        def failed(bundle: list[int], reason: str, most: int) -> None:
            """Of several tasks nobody knows which it was: each is tried again by itself."""
            if len(bundle) > 1:
                waiting.extendleft([index] for index in reversed(bundle))
                return
            (index,) = bundle
            tries[index] += 1
            outcomes[index] = Failure(reason.format(times=tries[index]))
            if tries[index] < most:
                waiting.appendleft(bundle)

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
                        failed(bundle, f"no answer within {self._timeout:g} s", 1)
                    else:
                        try:
                            parcel = worker.take()
                        except EOFError:
                            failed(bundle, f"its worker died (exit code {worker.replace()}), {{times}} times", TRIES)
                    if waiting:
                        give(worker)  # before what it has made is looked at, so that it does not wait
                    else:
                        idle.append(worker)
                    if isinstance(parcel, Failure):
                        for index in bundle:
                            outcomes[index] = parcel
                    elif parcel is not None:
                        for index, outcome in zip(bundle, worker.unpack(parcel), strict=True):
                            outcomes[index] = outcome
        except ConfigError:  # a task that cannot be sent: nobody waits for the others
            for worker, _, _ in busy.values():
                worker.replace()
            raise
        return outcomes

    def _bundles(self, tasks: Sequence[Task]) -> list[list[int]]:
        """The tasks for workers, longest first; of many short ones several go together, for a message takes time."""
        order = sorted((i for i, task in enumerate(tasks) if not task.near), key=lambda i: -tasks[i].cost)
        long = [i for i in order if tasks[i].cost > SHORT]
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


def _fields(thing: Dataset | Federation) -> dict[str, Any]:
    return {field.name: getattr(thing, field.name) for field in fields(thing)}


@dataclass(frozen=True)
class _Setting:
    """A workload as the fields of its dataset and federation, with the dataset's arrays in shared memory."""

    data: dict[str, Any]
    names: tuple[str, ...]
    arrays: Handle
    federation: dict[str, Any]
    build: bytes
    layout: Layout
    compiled: bool
    path: tuple[str, ...]
    """Where modules are looked for."""
    device: str
    precision: Precision
    worker: int = 0

    def workload(self, arrays: list[NDArray[Any]]) -> Workload:
        """The workload, once the arrays are at hand."""
        data = Dataset(**{**self.data, **dict(zip(self.names, arrays, strict=True))})
        federation, build = Federation(data=data, **self.federation), unpacked(self.build)
        return Workload(federation, build, self.layout, self.compiled, self.device, self.precision)


_Parcel = tuple[Any, str, tuple[Spec, ...], tuple[bool, ...]]
"""Tasks, or what came of them, without their arrays; the block in which these lie, the place of each, and for each leaf
whether it is a model, which is two arrays."""


def _unpack(parcel: _Parcel, view: Callable[[Spec], NDArray[Any]]) -> Any:
    """The tasks, or what came of them, with the arrays as ``view`` gives them."""
    content, _, specs, models = parcel
    arrays = iter([view(spec) for spec in specs])
    leaves: list[Leaf] = [Params(next(arrays), next(arrays)) if model else next(arrays) for model in models]
    return attach(content, leaves)


class _Packer:
    """Writes parcels into a block; an array that lies there already, in its place, is not copied again."""

    def __init__(self) -> None:
        self._held: list[NDArray[Any]] = []
        self._specs: tuple[Spec, ...] = ()
        self.content: Any = None

    def lay_out(self, thing: Any) -> int:
        """Take the arrays out of a thing, and find a place for each; returns the bytes that they take."""
        leaves: list[Leaf] = []
        self.content = detach(thing, leaves, _plain)
        self._models = tuple(isinstance(leaf, Params) for leaf in leaves)
        self._arrays = [array for leaf in leaves for array in _arrays(leaf)]
        self._places, size = placed(self._arrays)
        return size

    def write(self, block: SharedBlock) -> _Parcel:
        """Copy the arrays into a block that is large enough."""
        for i, (array, spec) in enumerate(zip(self._arrays, self._places, strict=True)):
            if i >= len(self._held) or self._held[i] is not array or self._specs[i] != spec:
                block.view(spec)[...] = array
        self._held, self._specs = self._arrays, self._places
        return self.content, block.name, self._places, self._models

    def forget(self) -> None:
        """Nothing lies in the block any more, or it is another."""
        self._held = []


def _arrays(leaf: Leaf) -> tuple[NDArray[Any], ...]:
    return (leaf.values, leaf.counters) if isinstance(leaf, Params) else (leaf,)


def _plain(leaf: Leaf) -> bool:
    """Whether a leaf can lie in shared memory; all else goes through the pipe, to be refused later."""
    return all(isinstance(array, np.ndarray) and array.dtype.kind in "biufc" for array in _arrays(leaf))


class _Worker:
    """The parent's side of one worker: its process, its end of the pipe, and its blocks: one for what comes in, and two
    for what goes out by turns, so that one can be read while the worker goes on.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._setting: _Setting | None = None
        self._inbox, self._packer = SharedBlock(size=SPARE), _Packer()
        self._outboxes, self._turn = [SharedBlock(size=SPARE), SharedBlock(size=SPARE)], 0
        self._start()

    def _start(self) -> None:
        START.set_forkserver_preload([__name__])
        self.connection, theirs = START.Pipe()
        self._process: BaseProcess = START.Process(target=_work, args=(theirs,), daemon=True)
        with _as_a_worker_wants_it():
            self._process.start()
        theirs.close()
        self._packer.forget()
        if self._setting is not None:
            self.open(self._setting, self._outbox)

    def _send(self, message: Any) -> None:
        with suppress(OSError):  # if it is dead, the next read says so
            self.connection.send(message)

    def open(self, setting: _Setting, outbox: Outbox) -> None:
        """Set up an experiment; the own objects of its tasks go to the ``outbox``."""
        self._setting, self._outbox, self._has = replace(setting, worker=self._number), outbox, 0
        self._packer.forget()
        self._send(self._setting)

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
            self._send(self._outbox.contents[self._has :])
            self._has = len(self._outbox.contents)
        with suppress(OSError):
            self.connection.send_bytes(message)

    def take(self) -> _Parcel | Failure:
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
        parcel: _Parcel | Failure = found
        return parcel

    def unpack(self, parcel: _Parcel) -> Any:
        """What came of tasks, as copies; before those after the next are given."""
        block = next(block for block in self._outboxes if block.name == parcel[1])
        return _unpack(parcel, lambda spec: block.view(spec).copy())

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

    def close(self) -> None:
        self._end(GRACE)
        for block in (self._inbox, *self._outboxes):
            block.close()


@contextmanager
def _as_a_worker_wants_it() -> Iterator[None]:
    """What a process started here inherits: Ctrl-C is for the parent alone, and memory comes in huge pages.

    With them, training spends up to 15 % less time on page faults. A user's own ``GLIBC_TUNABLES`` are left alone;
    other C libraries do not read the variable. The user's script is hidden: a process that finds it runs it again, and
    without ``if __name__ == "__main__"`` it would start workers of its own, and these again.
    """
    script = sys.modules["__main__"]
    in_main_thread = threading.current_thread() is threading.main_thread()  # elsewhere signals cannot be set
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if in_main_thread else None
    ours = TUNABLES not in os.environ
    os.environ.setdefault(TUNABLES, "glibc.malloc.hugetlb=1")
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script
        if ours:
            del os.environ[TUNABLES]
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


class _Blocks:
    """A worker's view of the parent's blocks; the last few stay attached."""

    def __init__(self) -> None:
        self._known: dict[str, SharedBlock] = {}

    def find(self, name: str) -> SharedBlock:
        """The block of that name."""
        if name not in self._known:
            if len(self._known) >= ATTACHED:
                self._known.pop(next(iter(self._known))).close()
            self._known[name] = SharedBlock(name=name)
        return self._known[name]


class _Desk:
    """A worker's side: a runtime, and tasks that are done with it."""

    def __init__(self) -> None:
        self.blocks = _Blocks()
        self._runtime: ClientRuntime | None = None
        self._data: SharedArrays | None = None
        self._failure: Failure | None = None

    def do(self, raw: bytes) -> tuple[tuple[Any, ...], str] | Failure | None:
        """What came of the tasks in a message, and the block that it goes to; None of a message without tasks."""
        try:
            message = ForkingPickler.loads(raw)
        except Exception as error:  # tasks with something that cannot be loaded here
            return failure_of(error)
        if isinstance(message, _Setting | list):
            try:
                self._set_up(message)
            except Exception as error:
                self._failure = failure_of(error)  # is told when tasks come
            return None
        if self._failure is not None:
            return self._failure
        parcel, outbox = message
        tasks = _unpack(parcel, self.blocks.find(parcel[1]).view)
        return tuple([attempt(task, self._runtime) for task in tasks]), outbox

    def _set_up(self, message: _Setting | list[bytes]) -> None:
        """An experiment, or own objects for its tasks."""
        if not isinstance(message, _Setting):
            keep(message)
            return
        forget()
        self._failure, self._runtime = None, None
        sys.path[:] = message.path
        self._data = SharedArrays.attach(message.arrays)
        self._runtime = message.workload(self._data.arrays).runtime(message.worker)


def _work(connection: Connection) -> None:
    """A worker's life: set up a runtime, do tasks, end when the parent lets go of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    desk, packer = _Desk(), _Packer()
    with suppress(EOFError, OSError):
        while True:
            found = desk.do(connection.recv_bytes())
            if found is None:
                continue
            if isinstance(found, Failure):
                connection.send(found)
                continue
            outcomes, outbox = found
            size, target = packer.lay_out(outcomes), desk.blocks.find(outbox)
            if size > target.size:
                connection.send(size)
                target = desk.blocks.find(connection.recv())
            packer.forget()
            connection.send_bytes(_answer(packer.write(target)))


def _answer(parcel: _Parcel) -> Any:
    """What goes back; a user's part may have made something that cannot."""
    try:
        return ForkingPickler.dumps(parcel)
    except Exception as error:
        return ForkingPickler.dumps(failure_of(error))
