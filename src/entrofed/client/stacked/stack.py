"""The state of clients in training: every tensor of theirs as ``[clients, ...]``."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from entrofed.client.model import Tensors
from entrofed.core.params import Floats, Layout, Params

Members = Sequence[int]
"""Clients by their place in the stack; a range is the first so many."""


@dataclass(frozen=True)
class Rows:
    """What some clients, or all, train with; to change the tensors changes the clients."""

    parameters: Tensors
    """Those that are trained, and of the same length and order as the lists below."""
    others: dict[str, torch.Tensor]
    """What else the network is made of, by name."""
    moments: dict[str, Tensors] = field(default_factory=dict)
    """What optimizers remember."""
    start: Tensors = field(default_factory=list)
    """Where parameters started, if anything pulls them there."""
    correction: Tensors = field(default_factory=list)
    """What is added to gradients."""

    def of(self, members: Members) -> "Rows":
        """The first clients as views, any others as copies."""
        if isinstance(members, range):
            return self._each(lambda tensor: tensor[: len(members)])
        chosen = torch.tensor(members)
        return self._each(lambda tensor: tensor[chosen])

    def _each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> "Rows":
        def all_of(tensors: Tensors) -> Tensors:
            return [change(tensor) for tensor in tensors]

        others = {name: change(tensor) for name, tensor in self.others.items()}
        moments = {name: all_of(tensors) for name, tensors in self.moments.items()}
        return Rows(all_of(self.parameters), others, moments, all_of(self.start), all_of(self.correction))

    def put_back(self, members: Members, rows: "Rows") -> None:
        """Take over what training has changed in copies."""
        if isinstance(members, range):
            return
        chosen = torch.tensor(members)
        for name, tensor in rows.others.items():
            self.others[name][chosen] = tensor
        for mine, theirs in zip(self._changing, rows._changing, strict=True):
            mine[chosen] = theirs

    @property
    def _changing(self) -> Tensors:
        return [*self.parameters, *(tensor for tensors in self.moments.values() for tensor in tensors)]


class Models:
    """The models of the clients: tensors to train, and back."""

    def __init__(self, layout: Layout, models: Sequence[Params], used: Sequence[str], needed: Sequence[str]) -> None:
        self._entries = {entry.name: entry for entry in layout.entries}
        self._used, self._clients, self._trainable = list(used), len(models), layout.trainable
        self._values = np.empty((len(models), layout.floats), np.float32)
        self._counters = np.empty((len(models), layout.counters), np.int64)
        if all(model is models[0] for model in models):
            self._values[:], self._counters[:] = models[0].values, models[0].counters
        else:
            for k, model in enumerate(models):
                self._values[k], self._counters[k] = model.values, model.counters
        tensors = {name: self._tensor(name) for name in dict.fromkeys([*used, *needed])}
        self.parameters: Tensors = [tensors.pop(name) for name in used]
        self.others: dict[str, torch.Tensor] = tensors

    def _tensor(self, name: str) -> torch.Tensor:
        entry = self._entries[name]
        rows = self._counters if entry.kind == "counter" else self._values
        part = rows[:, entry.start : entry.start + entry.size]
        return torch.from_numpy(np.ascontiguousarray(part).reshape(-1, *entry.shape).copy())

    def split(self, vectors: Sequence[Floats | None]) -> Tensors:
        """What vectors of all trainable parameters, one for each client, hold for those that are trained."""
        rows = np.zeros((self._clients, self._trainable), np.float32)
        for row, vector in zip(rows, vectors, strict=True):
            if vector is not None:
                row[:] = vector
        entries = [self._entries[name] for name in self._used]
        return [torch.from_numpy(rows[:, e.start : e.start + e.size].reshape(-1, *e.shape).copy()) for e in entries]

    def join(self, tensors: Tensors) -> Floats:
        """The inverse of :meth:`split`: a row for each client, with zeros for parameters that do not matter."""
        rows = np.zeros((self._clients, self._trainable), np.float32)
        self._write(rows, dict(zip(self._used, tensors, strict=True)))
        return rows

    def _write(self, rows: Floats, tensors: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in tensors.items():
            entry = self._entries[name]
            rows[:, entry.start : entry.start + entry.size] = tensor.reshape(self._clients, -1).numpy()

    def params(self) -> list[Params]:
        """The models as they are now, each with arrays of its own."""
        others = {name: tensor for name, tensor in self.others.items() if self._entries[name].kind != "counter"}
        self._write(self._values, {**dict(zip(self._used, self.parameters, strict=True)), **others})
        for name, tensor in self.others.items():
            entry = self._entries[name]
            if entry.kind == "counter":
                self._counters[:, entry.start : entry.start + entry.size] = tensor.reshape(self._clients, -1).numpy()
        return [Params(v.copy(), c.copy()) for v, c in zip(self._values, self._counters, strict=True)]
