"""What a stack computes gradients with, and which networks and objectives have which form.

A *chain* is a network of linear layers, elementwise functions and dropout, one after the other, whose objective is a
function of logits; its layers are batched matrix products. All else is *mapped* by :func:`torch.func.vmap`, if that
knows how.
"""

from typing import Any, Literal

import torch
from torch import nn

from entrofed.core.parts import Objective
from entrofed.models.classifier import Classifier

Form = Literal["chain", "mapped"]

ELEMENTWISE = (
    *(nn.ReLU, nn.LeakyReLU, nn.ELU, nn.SELU, nn.GELU, nn.SiLU, nn.Softplus),
    *(nn.Tanh, nn.Sigmoid, nn.Hardtanh, nn.ReLU6, nn.Identity),
)
"""Layers that do the same whatever the shape."""


class UnstackableError(Exception):
    """This cannot be stacked, and why; the clients are then trained one by one."""


def layers_of(module: nn.Module) -> list[nn.Module]:
    """The layers of a chain in their order; an UnstackableError, with the reason, if the network is none."""
    if module._forward_hooks or module._forward_pre_hooks or module._backward_hooks:
        raise UnstackableError(f"{type(module).__name__} has hooks")
    if type(module) is nn.Sequential:
        return [layer for part in module for layer in layers_of(part)]
    if isinstance(module, Classifier) and type(module).forward is Classifier.forward:
        return [*layers_of(module.encoder), *layers_of(module.output)]
    if type(module) is nn.Flatten and (module.start_dim, module.end_dim) == (1, -1):
        return [module]
    if type(module) in (nn.Linear, nn.Dropout, *ELEMENTWISE):
        return [module]
    raise UnstackableError(f"{type(module).__name__} is no layer of a chain")


def chain_of(module: nn.Module, sample: torch.Size | tuple[int, ...]) -> list[nn.Module]:
    """The layers of a chain for samples of this shape, without those that flatten, which must come first."""
    layers = layers_of(module)
    if len(sample) > 1 and type(layers[0]) is not nn.Flatten:
        raise UnstackableError(f"samples of shape {tuple(sample)} are not flattened first")
    layers = [layer for layer in layers if type(layer) is not nn.Flatten]
    if not layers or type(layers[-1]) is not nn.Linear:
        raise UnstackableError("its last layer is not linear")
    return layers


def of_logits(objective: Objective) -> bool:
    """Whether an objective says how it is computed of stacked logits.

    Whoever changes ``loss`` in a subclass, and not ``stacked_loss``, has said nothing.
    """
    if _owner(objective, "loss") is not _owner(objective, "stacked_loss"):
        return False
    wrapped: Objective | None = getattr(objective, "wrapped", None)
    if wrapped is not None:
        return of_logits(wrapped)
    return _owner(objective, "loss") is not Objective


def _owner(thing: Any, name: str) -> type:
    return next(kind for kind in type(thing).__mro__ if name in vars(kind))


def form_of(module: nn.Module, objective: Objective, sample: torch.Size | tuple[int, ...]) -> tuple[Form, str]:
    """The form of a stack, and why it is no chain, if it is none."""
    if not of_logits(objective):
        return "mapped", f"objective {objective.name!r} is no function of logits alone"
    try:
        chain_of(module, sample)
    except UnstackableError as reason:
        return "mapped", str(reason)
    return "chain", ""
