"""What every backend is set up with, and how the arrays of tasks and of their results travel apart from the rest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.device import Compile, Precision, place
from entrofed.client.evaluate import ConfusionSums
from entrofed.client.runtime import ClientRuntime
from entrofed.core.params import Layout, Params
from entrofed.core.round import Pooled
from entrofed.core.tasks import Backend, Stacked
from entrofed.core.types import Update
from entrofed.data.federation import Federation

__all__ = ["Backend", "Leaf", "Workload", "attach", "detach"]

Leaf = NDArray[Any] | Params
"""What travels apart."""


@dataclass(frozen=True)
class Workload:
    """The data and the model of an experiment."""

    federation: Federation
    build: Callable[[], torch.nn.Module]
    layout: Layout
    compiled: Compile = False
    device: str = "cpu"
    """As ``engine.device`` names it; each worker finds its own."""
    precision: Precision = "float32"
    rounds: int = 1
    """Of the experiment."""

    def runtime(self, worker: int = 0) -> ClientRuntime:
        """Where tasks are done; ``worker`` is the number of who does them."""
        device = place(self.device, worker)
        return ClientRuntime(
            self.federation, self.build, compiled=self.compiled, device=device, precision=self.precision
        )


@dataclass(frozen=True)
class _Slot:
    """Stands for the leaf of this number."""

    number: int


RESULTS: dict[type[Any], tuple[str, ...]] = {
    ConfusionSums: ("logits", "labels"),
    Update: ("params", "client_state", "facts"),
    Pooled: ("params", "server"),
    Stacked: ("outcomes",),
}
"""The fields of results that hold arrays; a task names its own."""


def detach(thing: Any, leaves: list[Leaf], wanted: Callable[[Leaf], bool] = lambda leaf: True) -> Any:
    """The thing with a slot in place of each array or model in the fields that hold some; these go to ``leaves``.

    Leaves that are not ``wanted`` stay where they are.

    >>> leaves = []
    >>> detach(({"a": np.ones(2)}, 7), leaves), len(leaves)
    (({'a': _Slot(number=0)}, 7), 1)
    """

    known: dict[int, _Slot] = {}  # what stands in several places travels once

    def take(leaf: Leaf) -> Leaf | _Slot:
        if id(leaf) not in known:
            if not wanted(leaf):
                return leaf
            leaves.append(leaf)
            known[id(leaf)] = _Slot(len(leaves) - 1)
        return known[id(leaf)]

    return _exchange(thing, (np.ndarray, Params), take)


def attach(thing: Any, leaves: list[Leaf]) -> Any:
    """The inverse of :func:`detach`."""
    return _exchange(thing, (_Slot,), lambda slot: leaves[slot.number])


def _exchange(thing: Any, kinds: tuple[type[Any], ...], change: Callable[[Any], Any]) -> Any:
    """The thing with all of these kinds changed: itself, in tuples, in mappings, and in the fields that hold arrays."""
    if isinstance(thing, kinds):
        return change(thing)
    if type(thing) is tuple:
        return tuple([_exchange(inner, kinds, change) for inner in thing])
    if thing is None or isinstance(thing, np.ndarray) or (type(thing) is dict and not thing):
        return thing
    fields = RESULTS.get(type(thing)) or getattr(thing, "arrays", None)
    if fields is None:
        found = type(thing) is dict or isinstance(thing, Mapping)
        return {key: _exchange(inner, kinds, change) for key, inner in thing.items()} if found else thing
    changed = object.__new__(type(thing))  # a copy of a frozen dataclass, without checking its fields again
    changed.__dict__.update(thing.__dict__)
    changed.__dict__.update({name: _exchange(getattr(thing, name), kinds, change) for name in fields})
    return changed
