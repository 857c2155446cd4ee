"""Calibrate the output layer at the end, from class statistics of all clients."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from entrofed.core.params import Layout, Params
from entrofed.core.parts import ALL_CLIENTS, Build, Fact, Sees, ServerRule
from entrofed.core.seeds import no_trace
from entrofed.core.types import Context
from entrofed.core.wrapped_server import WrappedServer
from entrofed.errors import ConfigError, EntrofedError
from entrofed.facts.feature_sums import FeatureSums, output_layer
from entrofed.info.calibration import ClassSums, softmax_regression, virtual_features
from entrofed.servers.average import Average


@dataclass(frozen=True)
class CCVR(WrappedServer):
    """Another server rule; at the end, its model with an output layer fitted to virtual features.

    Clients tell the sums of their features by class on the last model. The server makes a Gaussian of each class, over
    all clients, draws ``samples`` features from each, and fits the output layer to them by cross entropy plus ``decay /
    2 ||W||^2``, from where it is, with at most ``steps`` iterations of L-BFGS. The rest of the network stays. It is
    evaluated beside the model itself (``at_end`` in the summary).

    Differs from the paper: sums are sent instead of means and covariances, which say the same; L-BFGS on all virtual
    features instead of SGD; as many features of each class, whatever its size.
    """

    name: ClassVar[str] = "ccvr"
    reference: ClassVar[str] = "Luo et al., CCVR, NeurIPS 2021, Algorithm 1"

    samples: Annotated[int, Field(ge=1)] = 500
    decay: Annotated[float, Field(ge=0)] = 1e-3
    steps: Annotated[int, Field(ge=1)] = 200
    server: ServerRule = Average()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if isinstance(self.server, CCVR):
            raise ConfigError(f"server {self.name!r}: calibrated twice; name one of them only")

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The features' sums, and what the other rule asks for."""
        return (*self.server.facts, FeatureSums())

    @property
    def sees(self) -> Sees:
        """Of each client, the sums of its features."""
        return "models" if self.server.sees == "models" else "scalars"

    @property
    def needs(self) -> frozenset[str]:
        """A server, besides: peers have no common end."""
        return self.server.needs | {ALL_CLIENTS}

    def network(self, build: Build) -> Build:
        """The other rule's; a ConfigError unless it ends with a linear layer."""
        made = self.server.network(build)
        with no_trace():
            output_layer(made())
        return made

    def finish(self, params: Params, context: Context) -> Params:
        """The model with another output layer."""
        told = context.clients.told(FeatureSums.name, f"server {self.name!r}")
        rows = [value for value in told if value is not None]
        if not rows:
            raise EntrofedError("no client told the sums of its features; there is nothing to calibrate by")
        sums = ClassSums.unpacked(np.sum(rows, axis=0))
        features, labels = virtual_features(sums, self.samples, context.stream("virtual features"))
        tensors = dict(context.layout.split(params))
        layer = output_name(context.layout, *sums.first.shape)
        weight, bias = (tensors[f"{layer}.{part}"].astype(np.float64) for part in ("weight", "bias"))
        weight, bias = softmax_regression(features, labels, weight, bias, decay=self.decay, steps=self.steps)
        calibrated = {f"{layer}.weight": weight.astype(np.float32), f"{layer}.bias": bias.astype(np.float32)}
        return context.layout.join({**tensors, **calibrated})


def output_name(layout: Layout, classes: int, features: int) -> str:
    """What :func:`~entrofed.facts.feature_sums.output_layer` is called."""
    shapes = {entry.name: entry.shape for entry in layout.entries}
    names = [name.removesuffix(".weight") for name, shape in shapes.items() if shape == (classes, features)]
    found = [name for name in names if shapes.get(f"{name}.bias") == (classes,)]
    if not found:
        raise EntrofedError(f"the network has no linear layer from {features} features to {classes} classes")
    return "output" if "output" in found else found[-1]
