"""The model of a run, for use elsewhere: ``model.safetensors``.

Tensors carry the names of the network's own ``state_dict``. The metadata has one key, ``entrofed``, a JSON table of
what the model's inputs and outputs need: ``kind``, ``shape`` and ``dtype`` of a sample, ``full_scale``, ``shift`` and
``scale``, ``vocabulary``, ``preprocessing``, ``classes``; and which model it is: ``round``, ``accuracy``, ``reason``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from entrofed.core.params import Layout
from entrofed.core.seeds import torch_stream
from entrofed.core.types import State
from entrofed.data.federation import Federation
from entrofed.errors import CheckpointError
from entrofed.experiment.judge import Best
from entrofed.experiment.manifest import read_listed, write_listed

NAME = "model.safetensors"
AT_END = "model-at-end.safetensors"
"""The model that a server rule makes at the end, beside the other."""
KEY = "entrofed"


def state_names(model: torch.nn.Module) -> dict[str, str]:
    """The layout's name of each tensor of the state dictionary; tied ones have several there, and one here.

    >>> one = torch.nn.Linear(2, 2, bias=False)
    >>> state_names(torch.nn.Sequential(one, one))
    {'0.weight': '0.weight', '1.weight': '0.weight'}
    """
    first = {id(tensor): name for name, tensor in [*model.named_parameters(), *model.named_buffers()]}
    return {name: first[id(tensor)] for name, tensor in model.state_dict(keep_vars=True).items()}


def input_facts(federation: Federation) -> dict[str, Any]:
    """What a model of this federation needs to know of its inputs, and what its outputs are."""
    data = federation.data
    tokens = data.kind not in ("image", "table") and data.train_x.dtype.kind in "iu"
    return {
        "kind": data.kind,
        "shape": list(data.train_x.shape[1:]),
        "dtype": str(data.train_x.dtype),
        "vocabulary": data.vocabulary if tokens else None,
        "full_scale": data.full_scale if data.kind == "image" else None,
        "shift": federation.shift.tolist(),
        "scale": federation.scale.tolist(),
        "preprocessing": dict(data.preprocessing),
        "classes": list(data.classes),
    }


@dataclass(frozen=True)
class ModelFile:
    """Writes the model of one run."""

    path: Path
    layout: Layout
    names: Mapping[str, str]
    facts: Mapping[str, Any]

    @classmethod
    def of(cls, folder: Path, build: Callable[[], torch.nn.Module], federation: Federation) -> "ModelFile":
        """In the folder of a run with this network and data."""
        with torch_stream(0, "model"):
            network = build()
        return cls(folder / NAME, Layout.of(network), state_names(network), input_facts(federation))

    def write(self, state: State, reason: str, accuracy: float | None = None) -> None:
        """Store the model of a state; ``accuracy`` is that by which it is the best."""
        tensors = self.layout.split(state.params)
        which = {"round": state.round, "accuracy": accuracy, "reason": reason}
        raw = save(
            {name: np.asarray(tensors[of], order="C") for name, of in self.names.items()},
            {KEY: json.dumps({**self.facts, **which})},  # one key: of several, the order is not always the same
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_listed(self.path, raw)

    def best(self) -> Best:
        """Which model is stored as the best; nothing is better than none."""
        try:
            facts = model_facts(self.path)
            return Best(float(facts["accuracy"]), int(facts["round"]))
        except (CheckpointError, KeyError, TypeError, ValueError):
            return Best()


def model_facts(path: Path) -> dict[str, Any]:
    """The metadata of a stored model; a CheckpointError if there is none."""
    try:
        read_listed(path)
        with safe_open(path, "numpy") as file:
            facts: dict[str, Any] = json.loads((file.metadata() or {})[KEY])
    except FileNotFoundError:
        raise CheckpointError(f"{path}: there is no model yet") from None
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a model of a run: {error}") from None
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path}: not a model of a run: its metadata is no table")
    return facts
