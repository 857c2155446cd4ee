"""Loss and gradients of any network and objective that :func:`torch.func.vmap` can map over clients."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import nn

from entrofed.client.loss_module import LossModule
from entrofed.client.model import LocalModel, Tensors
from entrofed.client.stacked.forms import UnstackableError
from entrofed.core.parts import Given, Objective


class _Masked(nn.Module):
    """Dropout that multiplies by masks which were drawn before."""

    def __init__(self, p: float, masks: list[torch.Tensor], shapes: list[tuple[float, torch.Size]]) -> None:
        super().__init__()
        self.p, self._masks, self._shapes = p, masks, shapes

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """With no masks at hand it notes the shape that one needs."""
        if self._masks:
            return x * self._masks.pop(0)
        self._shapes.append((self.p, x.shape))
        return x


class Mapped:
    """How the losses of a stack's batches, all of one size, are differentiated."""

    padded = False

    def __init__(
        self,
        model: LocalModel,
        objective: Objective,
        used: Sequence[str],
        x: torch.Tensor,
        y: torch.Tensor,
        given: Given,
    ) -> None:
        self.used, self.needed = list(used), [entry.name for entry in model.layout.entries]
        self._masks: list[torch.Tensor] = []
        shapes: list[tuple[float, torch.Size]] = []
        module = deepcopy(model.module)
        for parent in list(module.modules()):
            for name, layer in parent.named_children():
                if type(layer) is nn.Dropout and layer.p > 0:
                    setattr(parent, name, _Masked(layer.p, self._masks, shapes))
        module.eval()
        with torch.no_grad():
            objective.loss(module, x, y, given)
        module.train()
        if any(len(shape) != 2 or shape[0] != len(x) for _, shape in shapes):
            raise UnstackableError("dropout of more than a vector per sample")
        self.drops = [(p, shape[1]) for p, shape in shapes]

        def loss(
            parameters: tuple[torch.Tensor, ...],
            others: dict[str, torch.Tensor],
            x: torch.Tensor,
            y: torch.Tensor,
            given: dict[str, torch.Tensor],
            masks: tuple[torch.Tensor, ...],
        ) -> tuple[torch.Tensor, Any]:
            changed = {name: tensor.clone() for name, tensor in others.items()}
            tensors = {**changed, **dict(zip(self.used, parameters, strict=True))}
            replaced = {f"model.{name}": tensor for name, tensor in tensors.items()}
            self._masks[:] = [mask.transpose(0, 1) for mask in masks]
            found = torch.func.functional_call(LossModule(module, objective), replaced, (x, y, given))
            return found.sum(), (found, changed)

        self._gradients = torch.func.vmap(torch.func.grad(loss, has_aux=True))

    def __call__(
        self,
        parameters: Tensors,
        others: Mapping[str, torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        given: Given,
        masks: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, Tensors]:
        """As :class:`~entrofed.client.stacked.chain.Chain` does; buffers among ``others`` change in place."""
        with torch.no_grad():
            slopes, (losses, changed) = self._gradients(
                tuple(parameters), dict(others), x, y, dict(given), tuple(masks)
            )
            for name, tensor in changed.items():
                others[name].copy_(tensor)
        return losses, list(slopes)
