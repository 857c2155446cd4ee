"""Loss and gradients of a chain of layers, for several clients at once.

Activations are ``[clients, features, batch]``: linear layers are then products ``W x`` of matrices as they are stored,
and a softmax over few classes runs along the batch, where there is more to vectorize.

The way back is written out: to record these few calls for autograd, and to have it replay them, takes longer than they
do. Only what other elementwise layers than ReLU do, and objectives that have no formula for it, is left to autograd,
each for itself.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import nn

from entrofed.client.model import LocalModel, Tensors
from entrofed.client.stacked.forms import UnstackableError, chain_of
from entrofed.core.parts import Given, Objective

_relu_back = torch.ops.aten.threshold_backward.default


class Chain:
    """How the losses of a stack's batches are differentiated, if the network is a chain."""

    padded = True
    """Batches may be of different sizes: whatever is labelled -100 counts for nothing."""

    def __init__(self, model: LocalModel, objective: Objective, used: Sequence[str], sample: torch.Size) -> None:
        self._objective, self.used = objective, list(used)
        self._layers = chain_of(model.module, sample)
        named = {id(parameter): name for name, parameter in model.module.named_parameters()}
        self._names = [[named[id(p)] for p in layer.parameters()] for layer in self._layers]
        self.needed = list(dict.fromkeys(name for names in self._names for name in names))
        if strange := set(used) - set(self.needed):
            raise UnstackableError(f"the loss depends on {min(strange)}, which is in no layer of the chain")
        self._first = next(i for i, names in enumerate(self._names) if not set(used).isdisjoint(names))
        width, self.drops = sample.numel(), list[tuple[float, int]]()
        for layer in self._layers:
            if isinstance(layer, nn.Linear):
                width = layer.out_features
            elif isinstance(layer, nn.Dropout) and layer.p > 0:
                self.drops.append((layer.p, width))

    def __call__(
        self,
        parameters: Tensors,
        others: Mapping[str, torch.Tensor],
        x: torch.Tensor,
        y: torch.Tensor,
        given: Given,
        masks: Sequence[torch.Tensor],
    ) -> tuple[torch.Tensor, Tensors]:
        """The losses ``[clients]`` or ``[clients, terms]``, and the gradients of the ``parameters`` that are used.

        ``x [clients, batch, ...]``; ``masks`` are what dropout multiplies by, ``[clients, features, batch]``.
        """
        tensors = {**others, **dict(zip(self.used, parameters, strict=True))}
        samples, left = x.flatten(2), iter(masks)
        value, kept = samples.transpose(1, 2).contiguous(), list[tuple[torch.Tensor, torch.Tensor]]()
        for layer, names in zip(self._layers, self._names, strict=True):
            before = value
            if isinstance(layer, nn.Linear):
                weight, *bias = (tensors[name] for name in names)
                value = torch.baddbmm(bias[0].unsqueeze(2), weight, value) if bias else torch.bmm(weight, value)
            elif isinstance(layer, nn.Dropout):
                if layer.p > 0:
                    before = next(left)
                    value = value * before
            elif type(layer) is nn.ReLU:
                value = torch.relu(value)
            else:
                before = value.detach().requires_grad_()
                value = layer(before)
            kept.append((before, value))
            value = value.detach()
        losses, slope = self._objective.stacked_slopes(value, y, given)
        found: dict[str, torch.Tensor] = {}
        for i in range(len(kept) - 1, self._first - 1, -1):
            layer, (before, after) = self._layers[i], kept[i]
            if isinstance(layer, nn.Linear):
                weight_slope = torch.bmm(slope, before.transpose(1, 2) if i else samples)
                for name, one in zip(self._names[i], (weight_slope, slope.sum(dim=2)), strict=False):
                    found[name] = found[name] + one if name in found else one
                if i > self._first:
                    slope = torch.bmm(tensors[self._names[i][0]].transpose(1, 2), slope)
            elif isinstance(layer, nn.Dropout):
                slope = slope * before if layer.p > 0 else slope
            elif type(layer) is nn.ReLU:
                slope = _relu_back(slope, after, 0)
            else:
                (slope,) = torch.autograd.grad(after, before, slope)
        return losses, [found[name] for name in self.used]
