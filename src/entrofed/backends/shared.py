"""Arrays in named blocks of shared memory, to be seen by several processes without copying."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from platform import node
from secrets import token_hex
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGN = 64
MEMORY = Path("/dev/shm")  # noqa: S108 (where Linux shows blocks as files)

Spec = tuple[tuple[int, ...], str, int]
"""Shape, type and offset of an array in its block."""


def placed(arrays: Sequence[NDArray[Any]]) -> tuple[tuple[Spec, ...], int]:
    """A place for each array, one behind the other, and the bytes that all of them take.

    >>> placed([np.zeros(3), np.zeros((2, 2), np.int8)])
    ((((3,), '<f8', 0), ((2, 2), '|i1', 64)), 128)
    """
    specs: list[Spec] = []
    end = 0
    for array in arrays:
        specs.append((array.shape, array.dtype.str, end))
        end += -(-array.nbytes // ALIGN) * ALIGN
    return tuple(specs), end


def in_file(array: NDArray[Any]) -> tuple[str, int] | None:
    """The file that an array is mapped from, unchanged, and where in it; None if it is not, or not as a whole piece."""
    root: Any = array
    while isinstance(root, np.ndarray) and not (isinstance(root, np.memmap) and not isinstance(root.base, np.ndarray)):
        root = root.base
    if not isinstance(root, np.memmap) or not array.flags.c_contiguous or root.mode != "r" or root.filename is None:
        return None
    return str(root.filename), int(root.offset + array.ctypes.data - root.ctypes.data)


def _family() -> str:
    """What the names of our blocks begin with, before the number of the process: those of one kernel's processes."""
    try:
        place = os.readlink("/proc/self/ns/pid")
    except OSError:
        place = ""
    return f"ef{sha256(f'{node()} {place}'.encode()).hexdigest()[:6]}-"


def _new_name() -> str:
    return f"{_family()}{os.getpid()}-{token_hex(3)}"


def sweep_blocks() -> int:
    """Remove the blocks of processes that are dead: who is killed cannot. Returns how many there were."""
    removed = 0
    for path in MEMORY.glob(f"{_family()}*-*") if MEMORY.is_dir() else ():
        owner = path.name.removeprefix(_family()).partition("-")[0]
        if owner.isdecimal() and not _alive(int(owner)):
            path.unlink(missing_ok=True)
            removed += 1
    return removed


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


class SharedBlock:
    """A block of shared memory. The process that creates it also removes it; others attach to it by its name."""

    def __init__(self, *, size: int = 0, name: str | None = None) -> None:
        self._owner = name is None
        self._block = SharedMemory(name or _new_name(), create=name is None, size=max(size, 1))
        self.name, self.size = self._block.name, self._block.size

    def view(self, spec: Spec) -> NDArray[Any]:
        """The array in that place."""
        shape, dtype, offset = spec
        return np.ndarray(shape, np.dtype(dtype), buffer=self._block.buf, offset=offset)

    def close(self) -> None:
        """Let go of the block; views of it must not be used any more."""
        with suppress(BufferError):  # somebody still holds a view; the memory goes with the process
            self._block.close()
        if self._owner:
            self._block.unlink()


@dataclass(frozen=True)
class Handle:
    """How another process finds arrays: the block's name, and the place of each; or the file that it is mapped from."""

    name: str
    specs: tuple[Spec, ...]
    files: tuple[str, ...]
    """Empty where an array lies in the block."""


class SharedArrays:
    """Arrays for several processes: copies in a block of their own, and as they are what is mapped from a file."""

    def __init__(self, block: SharedBlock, handle: Handle) -> None:
        self._block, self.handle = block, handle
        self.arrays = [
            np.memmap(file, spec[1], "r", spec[2], spec[0]) if file else block.view(spec)
            for spec, file in zip(handle.specs, handle.files, strict=True)
        ]

    @classmethod
    def create(cls, like: Sequence[NDArray[Any]]) -> "SharedArrays":
        """A new block with copies of the given arrays, but for those that lie in a file."""
        mapped = [in_file(array) for array in like]
        copied = [array for array, place in zip(like, mapped, strict=True) if place is None]
        places, size = placed(copied)
        inside = iter(places)
        specs = [
            next(inside) if place is None else (array.shape, array.dtype.str, place[1])
            for array, place in zip(like, mapped, strict=True)
        ]
        files = ["" if place is None else place[0] for place in mapped]
        block = SharedBlock(size=size)
        shared = cls(block, Handle(block.name, tuple(specs), tuple(files)))
        for target, source, file in zip(shared.arrays, like, files, strict=True):
            if not file:
                target[...] = source
        return shared

    @classmethod
    def attach(cls, handle: Handle) -> "SharedArrays":
        """The arrays of another process."""
        return cls(SharedBlock(name=handle.name), handle)

    def close(self) -> None:
        """Let go of the block; its arrays must not be used any more."""
        self.arrays.clear()
        self._block.close()
