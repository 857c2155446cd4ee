"""The model of a run for other programs: ``.safetensors`` (tensors), ``.pt2`` (torch.export) and ``.onnx``.

The first is the run's own ``model.safetensors`` and runs no code. The others hold the computation, too: from raw
samples (pixels as they are stored, features of a table after encoding, token numbers) to probabilities, with scaling
inside. To make one, the network is built and traced, which runs its code: also that of a file that the experiment
names. All carry the same facts (:mod:`entrofed.experiment.model_file`) as JSON: in the metadata ``entrofed`` of
safetensors and ONNX, in the extra file ``entrofed.json`` of a ``.pt2``.
"""

import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load
from torch.export import Dim

from entrofed.data.dataset import Dataset
from entrofed.errors import CheckpointError, ConfigError, EntrofedError
from entrofed.experiment.config import Experiment
from entrofed.experiment.model_file import KEY, NAME, model_facts
from entrofed.experiment.network import builder
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.sections.method import MethodSection
from entrofed.files import write_whole
from entrofed.models.concatenated import Concatenated
from entrofed.models.networks import MODELS
from entrofed.registry import build as build_part
from entrofed.tracking.optional import needed

Build = Callable[[], torch.nn.Module]
TYPES = {kind.__name__: kind for kind in (np.uint8, np.float32, np.int64)}
INPUT, OUTPUT = "x", "probabilities"
FIXED = "specialized it to be a constant"
"""What torch.export says of a batch whose size is a number in the network's code."""


class FromRaw(torch.nn.Module):
    """A network with what comes before and after it: raw samples to probabilities."""

    shift: torch.Tensor
    scale: torch.Tensor

    def __init__(self, network: torch.nn.Module, facts: Mapping[str, Any]) -> None:
        super().__init__()
        self.network, self.kind, self.full_scale = network, facts["kind"], facts["full_scale"]
        shape = (-1, 1, 1) if self.kind == "image" else (-1,)
        for name in ("shift", "scale"):
            self.register_buffer(name, torch.tensor(facts[name], dtype=torch.float32).reshape(shape))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Samples [batch, ...] to probabilities [batch, classes]."""
        if self.kind == "text":
            x = x.long()
        elif self.kind in ("image", "table"):
            x = x.float() / self.full_scale if self.kind == "image" else x
            x = (x - self.shift) / self.scale
        probabilities: torch.Tensor = self.network(x).softmax(dim=1)
        return probabilities


def export_model(run: RunFolder, path: Path, build: Build | None = None) -> str:
    """Write the model of a run to a file; returns what was done, in words.

    ``build`` makes the network, where it is at hand; otherwise it is made as the experiment says.
    """
    if path.suffix not in SUFFIXES:
        raise ConfigError(f"{path}: a model is written as one of {', '.join(SUFFIXES)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}; make it first")
    source = run.path / NAME
    if not source.exists():
        raise CheckpointError(f"{run.path}: there is no {NAME} in it; 'entrofed resume {run.path}' writes it")
    facts = model_facts(source)
    words = f"{path}: the model after round {facts.get('round')} of {run.label}: {facts.get('reason')}"
    if path.suffix == ".safetensors":
        write_whole(path, source.read_bytes())
        return words
    experiment = run.experiment()
    if build is None and experiment.was_given("model"):
        raise ConfigError(
            f"the network {experiment.model!r} was handed over from Python, or is a Flower app's, and its code is "
            "not known here; export it there: result.export('model.pt2'). .safetensors works always"
        )
    like = _like(facts, source)
    if build is None:
        build = _build(experiment, like)
        words += f"; built by the code of {experiment.model}" if _is_foreign(experiment) else ""
    model = _whole(build(), facts, source)
    sample = torch.from_numpy(like.train_x)
    with _quiet():
        write_whole(path, TRACED[path.suffix](model, sample, json.dumps(facts)))
    return words


def _build(experiment: Experiment, like: Dataset) -> Build:
    """How the network is built, by what the experiment says of it."""
    section = experiment.method
    if experiment.was_given("method"):
        server = build_part("server", section.server or "average")
    else:
        server = MethodSection(name=section.name, server=section.server).recipe.server
    found: Build = server.network(builder(experiment.model, like))
    return found


def _is_foreign(experiment: Experiment) -> bool:
    """Whether the network is none of ours."""
    name = experiment.model if isinstance(experiment.model, str) else experiment.model.get("name")
    return name not in MODELS


def _like(facts: Mapping[str, Any], source: Path) -> Dataset:
    """Two samples that stand for the data, which is not needed to build the network, nor to trace it."""
    try:
        x = np.full((2, *facts["shape"]), (facts["vocabulary"] or 1) - 1, TYPES[facts["dtype"]])
        return Dataset("", facts["kind"], x, np.zeros(2, np.int64), x, np.zeros(2, np.int64), tuple(facts["classes"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: its facts are damaged: {type(error).__name__}: {error}") from None


def _whole(network: torch.nn.Module, facts: Mapping[str, Any], source: Path) -> FromRaw:
    """The network with its state, and with what comes before and after it."""
    try:
        network.load_state_dict(load(source.read_bytes()))
        whole = FromRaw(network, facts)
    except (RuntimeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{source}: not a model of {type(network).__name__}: {error}") from None
    if isinstance(network, Concatenated):
        network.settle()
    return whole.eval()


def _pt2(model: FromRaw, sample: torch.Tensor, facts: str) -> bytes:
    raw = io.BytesIO()
    torch.export.save(_traced(model, sample), raw, extra_files={f"{KEY}.json": facts})
    return raw.getvalue()


def _onnx(model: FromRaw, sample: torch.Tensor, facts: str) -> bytes:
    for module in ("onnx", "onnxscript"):
        needed(module, "onnx")
    program = torch.onnx.export(
        _traced(model, sample), input_names=[INPUT], output_names=[OUTPUT], dynamo=True, verbose=False
    )
    if program is None:
        raise EntrofedError("torch.onnx.export returned nothing")
    proto = program.model_proto
    proto.metadata_props.add(key=KEY, value=facts)
    return bytes(proto.SerializeToString())


def _traced(model: FromRaw, sample: torch.Tensor) -> torch.export.ExportedProgram:
    """For batches of any size."""
    try:
        with torch.no_grad():
            return torch.export.export(model, (sample,), dynamic_shapes={INPUT: {0: Dim("batch")}})
    except Exception as error:
        said = str(error)
        why = "its code fixes the size of a batch; write x.shape[0] in place of len(x)" if FIXED in said else said
        raise EntrofedError(
            f"torch.export cannot trace the network {type(model.network).__name__}: {why.splitlines()[0]}. "
            ".safetensors works always"
        ) from error


TRACED: dict[str, Callable[[FromRaw, torch.Tensor, str], bytes]] = {".pt2": _pt2, ".onnx": _onnx}
SUFFIXES = (".safetensors", *TRACED)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch's exporters say about themselves."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
