"""A model's state as one flat vector and its layout.

Between server and clients a model travels as :class:`Params`: a ``float32`` vector that holds the trainable
parameters first and the float buffers (BatchNorm's running mean and variance) behind them, and a short
``int64`` vector with the integer buffers (BatchNorm's batch counters). :class:`Layout` knows which stretch of
which vector is which tensor.

>>> layout = Layout.of(torch.nn.BatchNorm1d(2))
>>> layout.trainable, layout.floats, layout.counters
(4, 8, 1)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite, prod, sqrt
from typing import ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.errors import CheckpointError, ConfigError

Kind = Literal["trainable", "buffer", "counter"]
Floats = NDArray[np.float32]

MAX_BATCHES = 10**7
"""A client that says that it has seen more batches in one round is not believed."""

BLOCK = 1 << 13
"""Values looked at at a time: float64 copies stay small, and no BLAS shares the sum of so few among threads. The number
of threads would decide the last bits, and where all cores are busy they would wait for one another."""


@dataclass(frozen=True)
class Moved:
    """How far a model is from another: Euclidean distances, and those of the other from zero."""

    parameters: float
    buffers: float
    parameters_before: float
    buffers_before: float
    problem: str | None = None
    """What no training can have done to buffers."""


def distance(values: Floats, start: Floats | None = None) -> float:
    """``|values - start|``, in float64; from zero without ``start``; infinite if anything is not finite.

    >>> distance(np.array([3, 4], "f4")), distance(np.array([np.nan], "f4"))
    (5.0, inf)
    """
    total = 0.0
    for place in range(0, len(values), BLOCK):
        block = values[place : place + BLOCK].astype(np.float64)
        if start is not None:
            block -= start[place : place + BLOCK]
        total += float(np.vdot(block, block))
    return sqrt(total) if isfinite(total) else inf


@dataclass(frozen=True)
class Params:
    """One model's state. ``values`` is ``float32``: trainable parameters, then float buffers."""

    values: Floats
    counters: NDArray[np.int64]

    hidden: ClassVar[bool] = False
    """Whether nobody here can look at it; see :mod:`entrofed.privacy.secure`."""

    @property
    def nonfinite(self) -> int:
        """How many values are not finite; none if the sum of their squares is, which is looked at first."""
        if isfinite(np.vdot(self.values, self.values)):
            return 0
        return int(np.count_nonzero(~np.isfinite(self.values)))

    def problem(self, layout: "Layout") -> str | None:
        """Why this cannot be a model of that layout, or None."""
        for what, array, length, dtype in (
            ("parameters", self.values, layout.floats, np.float32),
            ("counters", self.counters, layout.counters, np.int64),
        ):
            if not isinstance(array, np.ndarray) or array.dtype != dtype:
                return f"{what} of type {getattr(array, 'dtype', type(array).__name__)}, expected {np.dtype(dtype)}"
            if array.shape != (length,):
                return f"{what} of shape {array.shape}, expected ({length},)"
        return None

    def moved(self, start: "Params", layout: "Layout") -> Moved:
        """How far this is from the model that training started from."""
        end = layout.trainable
        with np.errstate(all="ignore"):
            return Moved(
                distance(self.values[:end], start.values[:end]),
                distance(self.values[end:], start.values[end:]),
                *start.lengths(end),
                self._impossible(start, layout),
            )

    def lengths(self, trainable: int) -> tuple[float, float]:
        """Of the trainable parameters and of the rest, from zero; once: all of a round start from one model."""
        if trainable not in self._lengths:
            self._lengths[trainable] = distance(self.values[:trainable]), distance(self.values[trainable:])
        return self._lengths[trainable]

    @cached_property
    def _lengths(self) -> dict[int, tuple[float, float]]:
        return {}

    def _impossible(self, start: "Params", layout: "Layout") -> str | None:
        """A variance below zero, or batches that were counted backwards or by the million."""
        for entry in layout.of_batch_norm:
            place = slice(entry.start, entry.start + entry.size)
            if entry.kind == "buffer":
                if (lowest := float(self.values[place].min())) < 0:
                    return f"{entry.name} is a variance, and {lowest:g} is below zero"
            else:
                for new, old in zip(self.counters[place].tolist(), start.counters[place].tolist(), strict=True):
                    if not old <= new <= old + MAX_BATCHES:
                        return f"{entry.name} went from {old} to {new}"
        return None


@dataclass(frozen=True)
class TensorEntry:
    """One tensor: the stretch ``start : start + size`` of ``values`` (or of ``counters``)."""

    name: str
    kind: Kind
    shape: tuple[int, ...]
    start: int
    size: int


@dataclass(frozen=True)
class Layout:
    """Where each tensor of a model lies: ``values[:trainable]`` is what an optimizer may change."""

    entries: tuple[TensorEntry, ...]
    trainable: int
    floats: int
    counters: int

    @classmethod
    def of(cls, model: torch.nn.Module) -> "Layout":
        """The layout of a model, in the order in which torch names its parameters and buffers."""
        persistent = model.state_dict().keys()
        tensors: dict[str, tuple[Kind, torch.Tensor]] = {
            name: ("trainable" if parameter.requires_grad else "buffer", parameter)
            for name, parameter in model.named_parameters()
        }
        for name, buffer in model.named_buffers():
            if name in persistent:
                tensors[name] = ("buffer" if buffer.is_floating_point() else "counter", buffer)
        for name, (kind, tensor) in tensors.items():
            expected = torch.int64 if kind == "counter" else torch.float32
            if tensor.dtype != expected:
                raise ConfigError(
                    f"model tensor {name!r} has type {tensor.dtype}; it must be {expected}. Convert it where the model "
                    "is built; a constant can be a buffer with persistent=False."
                )
        return cls.of_shapes({name: (kind, tuple(tensor.shape)) for name, (kind, tensor) in tensors.items()})

    @classmethod
    def of_shapes(cls, shapes: Mapping[str, tuple[Kind, tuple[int, ...]]]) -> "Layout":
        """The layout of tensors of which kind and shape are known, in their order."""
        entries: list[TensorEntry] = []
        ends: dict[Kind, int] = {"trainable": 0, "buffer": 0, "counter": 0}
        for kind in ends:
            ends[kind] = ends["trainable"] if kind == "buffer" else 0
            for name, (of_kind, shape) in shapes.items():
                if of_kind == kind:
                    entries.append(TensorEntry(name, kind, shape, ends[kind], prod(shape)))
                    ends[kind] += prod(shape)
        return cls(tuple(entries), ends["trainable"], ends["buffer"], ends["counter"])

    @cached_property
    def of_batch_norm(self) -> tuple[TensorEntry, ...]:
        """The variances and the numbers of batches, of which not every value can be."""
        known = {"buffer": "running_var", "counter": "num_batches_tracked"}
        return tuple(e for e in self.entries if e.kind in known and e.name.endswith(known[e.kind]) and e.size)

    @property
    def nbytes(self) -> int:
        """Bytes of one model on the wire."""
        return 4 * self.floats + 8 * self.counters

    def output_bias(self, classes: int) -> int | None:
        """Where the bias of the output layer begins in ``values``; None if no layer has one that is trained.

        It is the last ``NAME.bias`` of as many values as there are classes whose ``NAME.weight`` is a matrix.
        """
        shapes = {entry.name: entry.shape for entry in self.entries}
        found = None
        for entry in self.entries:
            weight = shapes.get(entry.name.removesuffix("bias") + "weight", ())
            if entry.kind == "trainable" and entry.name.endswith("bias") and entry.shape == (classes,):
                found = entry.start if len(weight) > 1 and weight[0] == classes else found
        return found

    def read(self, model: torch.nn.Module) -> Params:
        """The state of ``model``, copied."""
        tensors = {**dict(model.named_parameters()), **dict(model.named_buffers())}
        return self.join({entry.name: tensors[entry.name].detach().numpy() for entry in self.entries})

    def split(self, params: Params) -> dict[str, NDArray[np.float32] | NDArray[np.int64]]:
        """Tensors by name, as views of the vectors."""
        return {
            e.name: (params.counters if e.kind == "counter" else params.values)[e.start : e.start + e.size].reshape(
                e.shape
            )
            for e in self.entries
        }

    def join(self, tensors: Mapping[str, NDArray[np.float32] | NDArray[np.int64]]) -> Params:
        """The inverse of :meth:`split`; every tensor must be there with its shape."""
        params = Params(np.empty(self.floats, np.float32), np.empty(self.counters, np.int64))
        views = self.split(params)
        for name, view in views.items():
            if name not in tensors or tensors[name].shape != view.shape:
                found = tensors[name].shape if name in tensors else "nothing"
                raise CheckpointError(f"tensor {name!r} should have shape {view.shape}, found {found}")
            view[...] = tensors[name]
        return params
