"""Arrays in a named block of shared memory, to be seen by several processes without copying."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGN = 64


@dataclass(frozen=True)
class Handle:
    """How another process finds the arrays: the block's name, and shape, type and offset of each array."""

    name: str
    arrays: tuple[tuple[tuple[int, ...], str, int], ...]


class SharedArrays:
    """Arrays of one block. The process that creates it also removes it."""

    def __init__(self, block: SharedMemory, handle: Handle, *, owner: bool) -> None:
        self.handle, self._block, self._owner = handle, block, owner
        self.arrays: list[NDArray[Any]] = [
            np.ndarray(shape, np.dtype(dtype), buffer=block.buf, offset=offset)
            for shape, dtype, offset in handle.arrays
        ]

    @classmethod
    def create(cls, like: Sequence[NDArray[Any]]) -> "SharedArrays":
        """A new block with copies of the given arrays."""
        places: list[tuple[tuple[int, ...], str, int]] = []
        end = 0
        for array in like:
            places.append((array.shape, array.dtype.str, end))
            end += -(-array.nbytes // ALIGN) * ALIGN
        block = SharedMemory(create=True, size=max(end, 1))
        shared = cls(block, Handle(block.name, tuple(places)), owner=True)
        for target, source in zip(shared.arrays, like, strict=True):
            target[...] = source
        return shared

    @classmethod
    def attach(cls, handle: Handle) -> "SharedArrays":
        """The block of another process."""
        return cls(SharedMemory(handle.name), handle, owner=False)

    def close(self) -> None:
        """Let go of the block; views of its arrays must not be used any more."""
        self.arrays.clear()
        with suppress(BufferError):  # somebody still holds a view; the memory goes with the process
            self._block.close()
        if self._owner:
            self._block.unlink()
