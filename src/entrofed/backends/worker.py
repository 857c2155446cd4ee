"""What a worker process does, from its start to its end."""

import pickle
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.backends.base import Workload
from entrofed.backends.parcels import Packer, Parcel, unpack
from entrofed.backends.sending import forget, keep, unpacked
from entrofed.backends.shared import Handle, SharedArrays, SharedBlock
from entrofed.client.device import Compile, Precision
from entrofed.client.runtime import ClientRuntime
from entrofed.client.work import attempt, failure_of
from entrofed.core.params import Layout
from entrofed.core.types import Failure
from entrofed.data.client_rows import ClientRows
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation

ROWS, STARTS = "rows of clients", "starts of clients"
"""The names of two arrays beside those of the dataset."""
ATTACHED = 6
"""Blocks that a worker keeps attached: its three, and those before they grew."""


@dataclass(frozen=True)
class Setting:
    """What a worker needs of a workload: samples, who has which, and their scaling; arrays are in shared memory."""

    data: dict[str, Any]
    names: tuple[str, ...]
    arrays: Handle
    scaling: tuple[NDArray[np.float32], NDArray[np.float32]]
    build: bytes
    layout: Layout
    compiled: Compile
    path: tuple[str, ...]
    """Where modules are looked for."""
    device: str
    precision: Precision
    worker: int = 0

    def workload(self, arrays: list[NDArray[Any]]) -> Workload:
        """The workload, once the arrays are at hand."""
        found = dict(zip(self.names, arrays, strict=True))
        shards, nobody = ClientRows(found.pop(ROWS), found.pop(STARTS)), np.zeros(0, np.int64)
        data, build = Dataset(**{**self.data, **found}), unpacked(self.build)
        federation = Federation(data, *self.scaling, shards, ClientRows.of(()), nobody, nobody)
        return Workload(federation, build, self.layout, self.compiled, self.device, self.precision)


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
            message = unpacked(raw)
        except Exception as error:  # tasks with something that cannot be loaded here
            return failure_of(error)
        if isinstance(message, Setting | list):
            try:
                self._set_up(message)
            except Exception as error:
                self._failure = failure_of(error)  # is told when tasks come
            return None
        if self._failure is not None:
            return self._failure
        parcel, outbox = message
        tasks = unpack(parcel, self.blocks.find(parcel[1]).view)
        return tuple([attempt(task, self._runtime) for task in tasks]), outbox

    def _set_up(self, message: Setting | list[bytes]) -> None:
        """An experiment, or own objects for its tasks."""
        if not isinstance(message, Setting):
            keep(message)
            return
        forget()
        self._failure, self._runtime = None, None
        sys.path[:] = message.path
        self._data = SharedArrays.attach(message.arrays)
        self._runtime = message.workload(self._data.arrays).runtime(message.worker)


def work(connection: Connection) -> None:
    """A worker's life: set up a runtime, do tasks, end when the parent lets go of the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)
    desk, packer = _Desk(), Packer()
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


def _answer(parcel: Parcel) -> bytes:
    """What goes back; a user's part may have made something that cannot."""
    try:
        return pickle.dumps(parcel, pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        return pickle.dumps(failure_of(error))
