"""Tasks, and what comes of them, on their way to another process: arrays in shared memory, all else through a pipe."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.backends.base import Leaf, attach, detach
from entrofed.backends.shared import SharedBlock, Spec, placed
from entrofed.core.params import Params

Parcel = tuple[Any, str, tuple[Spec, ...], tuple[bool, ...]]
"""Tasks, or what came of them, without their arrays; the block in which these lie, the place of each, and for each leaf
whether it is a model, which is two arrays."""


def unpack(parcel: Parcel, view: Callable[[Spec], NDArray[Any]]) -> Any:
    """The tasks, or what came of them, with the arrays as ``view`` gives them."""
    content, _, specs, models = parcel
    arrays = iter([view(spec) for spec in specs])
    leaves: list[Leaf] = [Params(next(arrays), next(arrays)) if model else next(arrays) for model in models]
    return attach(content, leaves)


class Packer:
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

    def write(self, block: SharedBlock) -> Parcel:
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
