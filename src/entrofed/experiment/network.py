"""The network of an experiment: by name, by reference, or a user's own callable or module.

A callable gets what its parameters are called after: the shape of a sample, the number of classes, the number of
features or channels; all else it needs is given as options, or has defaults. A module is copied, weights included.
Lazy layers are initialized, and a user's network is tried on a few samples before anything is run.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import partial
from inspect import Parameter
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

from entrofed.client.runtime import ClientRuntime
from entrofed.core.parts import Build
from entrofed.data.dataset import Dataset
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, blamed, unknown
from entrofed.models.networks import MODELS
from entrofed.models.networks import build as build_model
from entrofed.registry import lookup
from entrofed.registry.checks import name_of, parameters
from entrofed.registry.references import is_reference

SHAPE = ("shape", "input_shape", "sample_shape")
CLASSES = ("classes", "num_classes", "n_classes")
FEATURES = ("features", "in_features", "num_features", "n_features")
CHANNELS = ("channels", "in_channels", "num_channels")
"""Parameters that are filled in from the data, optional ones, too."""
TRIED = 4
"""Samples that a user's network is tried on."""


@dataclass(frozen=True, eq=False)
class OwnNetwork:
    """Builds a user's network, with its lazy layers initialized."""

    make: Callable[[], Any]
    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    channels_last: bool = True
    """Whether it works on images with channels last in memory, which is faster."""

    def __call__(self) -> torch.nn.Module:
        """A new one."""
        with blamed(f"model {self.name!r} cannot be built", ConfigError):
            model = self.make()
        if not isinstance(model, torch.nn.Module):
            raise ConfigError(f"model {self.name!r} gives {type(model).__name__!r}; an nn.Module is expected")
        if any(is_lazy(tensor) for tensor in (*model.parameters(), *model.buffers())):
            with torch.no_grad(), self.tried():
                model.eval()(torch.zeros(2, *self.shape, dtype=self.dtype))
            model.train()
        if not self.channels_last:
            vars(model)["channels_last"] = False
        return model

    def tried(self) -> AbstractContextManager[None]:
        """For a block in which the network is tried."""
        return blamed(f"model {self.name!r} cannot take samples of shape {self.shape}", ConfigError)

    def fitted(self, wrap: Callable[[Build], Build], federation: Federation) -> "OwnNetwork":
        """The same, in an order in memory that it can work with; a ConfigError if it gives no logits for samples."""
        try:
            self._try(wrap(self), federation)
        except ConfigError as error:
            if not isinstance(error.__cause__, RuntimeError):
                raise
            plain = replace(self, channels_last=False)
            plain._try(wrap(plain), federation)
            return plain
        return self

    def _try(self, build: Build, federation: Federation) -> None:
        runtime = ClientRuntime(federation, build, compiled=False)
        if not runtime.model.layout.trainable:
            raise ConfigError(f"model {self.name!r} has no parameters that can be trained")
        data = runtime.samples("train", np.arange(min(TRIED, len(federation.data.train_y))))
        with self.tried():
            logits, y = next(iter(runtime.model.predictions(data)))
        wanted = (len(y), data.classes)
        if not isinstance(logits, torch.Tensor):
            raise ConfigError(f"model {self.name!r} returns a {type(logits).__name__}; a tensor of logits is expected")
        if logits.shape != wanted:
            raise ConfigError(
                f"model {self.name!r} returns {tuple(logits.shape)} for {len(y)} samples; {data.classes} classes need "
                f"{wanted}"
            )
        if not logits.is_floating_point() or not logits.isfinite().all():
            found = "values that are not finite" if logits.is_floating_point() else str(logits.dtype)
            raise ConfigError(f"model {self.name!r} returns {found} for the first samples; finite logits are expected")


def builder(model: Any, data: Dataset) -> Build:
    """How the network for some data is built.

    ``model``: a name, a reference, a table of either and options, a callable that returns a module, or a module.
    """
    shape, classes = tuple(data.train_x.shape[1:]), len(data.classes)
    options: dict[str, Any] = {}
    name = name_of(model)
    if isinstance(model, str | Mapping):
        options = {"name": model} if isinstance(model, str) else dict(model)
        name = options.pop("name")
        if name in MODELS:
            return partial(build_model, name, shape, classes, **{**_of_data(name, data, options), **options})
        model = lookup("model", name)
        if not is_reference(name):
            return partial(model, shape, classes, **options)
    dtype = torch.int64 if _holds_tokens(data) else torch.float32
    if isinstance(model, torch.nn.Module):
        if options:
            raise ConfigError(f"model {name!r} is a module already and takes no options: {', '.join(options)}")
        return OwnNetwork(partial(deepcopy, deepcopy(model).cpu()), name, shape, dtype)
    if not callable(model):
        raise ConfigError(f"model: a name, a callable that returns an nn.Module, or one is expected, found {model!r}")
    return OwnNetwork(partial(model, **_arguments(model, name, options, shape, classes)), name, shape, dtype)


def _of_data(name: str, data: Dataset, options: Mapping[str, Any]) -> dict[str, Any]:
    """What one of our networks wants to know of the data besides shape and classes."""
    wanted = parameters(MODELS[name])
    found: dict[str, Any] = {"kind": data.kind} if "kind" in wanted else {}
    if "vocabulary" in wanted and "vocabulary" not in options and _holds_tokens(data):
        found["vocabulary"] = data.vocabulary
    return found


def _holds_tokens(data: Dataset) -> bool:
    return data.kind not in ("image", "table") and data.train_x.dtype.kind in "iu"


def _arguments(
    model: Callable[..., Any], name: str, options: Mapping[str, Any], shape: tuple[int, ...], classes: int
) -> dict[str, Any]:
    """What a callable is called with."""
    takes = parameters(model)
    fits = {**dict.fromkeys(SHAPE, shape), **dict.fromkeys(CLASSES, classes), **dict.fromkeys(CHANNELS, shape[0])}
    if len(shape) == 1:
        fits |= dict.fromkeys(FEATURES, shape[0])
    open_ended = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in takes.values())
    for option in options:
        if option not in takes and not open_ended:
            raise unknown(f"option of model {name!r}:", option, takes)
    given = {**{key: value for key, value in fits.items() if key in takes}, **options}
    for key, parameter in takes.items():
        if parameter.default is Parameter.empty and parameter.kind is not Parameter.VAR_KEYWORD and key not in given:
            raise ConfigError(
                f"model {name!r} needs {key!r}: give it as an option, a default, or call it 'shape' or 'classes' if it "
                "is the shape of a sample or the number of classes"
            )
    return given
