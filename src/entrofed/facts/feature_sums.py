"""What enters the output layer for a client's samples, summed by class."""

from dataclasses import dataclass
from math import isqrt
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.parts import Fact, ModelRuntime, When
from entrofed.core.types import ClientData
from entrofed.core.validation import as_numbers
from entrofed.errors import ConfigError
from entrofed.info.calibration import ClassSums


def output_layer(model: torch.nn.Module, classes: int | None = None) -> torch.nn.Linear:
    """The layer called ``output``, or else the last linear one, with biases and an output for each class."""
    layers = {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, torch.nn.Linear) and layer.bias is not None and classes in (None, layer.out_features)
    }
    if not layers:
        raise ConfigError(
            f"{type(model).__name__} has no linear output layer with biases, so that its features are not known; "
            "choose another model"
        )
    return layers.get("output", list(layers.values())[-1])


@dataclass(frozen=True)
class FeatureSums(Fact):
    """Of each class: number of samples, sum of features h, sum of ``h h^T``: a row ``[1 + d + d^2]``.

    Features are what enters the output layer of the last model. This says the same as number, mean and covariance,
    which the paper has; and of such sums a server needs no more than their sum over the clients.
    """

    name: ClassVar[str] = "feature_sums"
    when: ClassVar[When] = "at_end"
    reveals: ClassVar[str] = (
        "at the end, of each class: its number of samples, and mean and covariance of their features"
    )

    def measure(self, data: ClientData, model: ModelRuntime) -> NDArray[np.float64]:
        """One row per class."""
        entered: list[torch.Tensor] = []
        layer = output_layer(model.module, data.classes)
        hook = layer.register_forward_pre_hook(lambda _, inputs: entered.append(inputs[0].detach().cpu()))
        try:
            labels = torch.cat([y for _, y in model.predictions(data)])
        finally:
            hook.remove()
        return ClassSums.of(torch.cat(entered).double().numpy(), labels.numpy(), data.classes).packed()

    def problem(self, value: Any, classes: int) -> str | None:
        """Whole numbers of samples, finite sums, and second moments that can be some."""
        found = as_numbers(value)
        width = (isqrt(max(4 * found.shape[1] - 3, 0)) - 1) // 2 if found.ndim == 2 else 0
        if found.ndim != 2 or width < 1 or found.shape != (classes, 1 + width + width**2):
            return f"no sums of features of {classes} classes"
        if not np.isfinite(found).all():
            return "sums of features that are not finite"
        sums = ClassSums.unpacked(found)
        if not ((sums.counts >= 0) & (sums.counts == np.rint(sums.counts))).all():
            return "numbers of samples that are none"
        moments = sums.second
        if not np.allclose(moments, moments.transpose(0, 2, 1)) or (np.diagonal(moments, axis1=1, axis2=2) < 0).any():
            return "second moments that cannot be any"
        return None
