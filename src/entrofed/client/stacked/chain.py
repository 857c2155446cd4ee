"""Loss and gradients of a chain of layers, for several clients at once.

Activations are ``[clients, features, batch]``: linear layers are then products ``W x`` of matrices as they are stored,
and a softmax over few classes runs along the batch, where there is more to vectorize.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import nn
from torch.autograd.variable import Variable

from entrofed.client.model import LocalModel, Tensors
from entrofed.client.stacked.forms import UnstackableError, chain_of
from entrofed.core.parts import Given, Objective

_backward = Variable._execution_engine.run_backward


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
        width, self.drops = sample.numel(), list[tuple[float, int]]()
        for layer in self._layers:
            if isinstance(layer, nn.Linear):
                width = layer.out_features
            elif isinstance(layer, nn.Dropout) and layer.p > 0:
                self.drops.append((layer.p, width))
        self._one = torch.ones(())

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
        leaves = [parameter.detach().requires_grad_() for parameter in parameters]
        tensors = {**others, **dict(zip(self.used, leaves, strict=True))}
        value, left = x.flatten(2).transpose(1, 2), iter(masks)
        for layer, names in zip(self._layers, self._names, strict=True):
            if isinstance(layer, nn.Linear):
                weight, *bias = (tensors[name] for name in names)
                value = torch.baddbmm(bias[0].unsqueeze(2), weight, value) if bias else torch.bmm(weight, value)
            elif isinstance(layer, nn.Dropout):
                value = value * next(left) if layer.p > 0 else value
            else:
                value = layer(value)
        losses = self._objective.stacked_loss(value, y, given)
        slopes = _backward((losses.sum(),), (self._one,), False, False, tuple(leaves), False, accumulate_grad=False)
        return losses.detach(), list(slopes)
