"""What :mod:`entrofed.client.optimizers` does, for several clients at once: the same formulas, client by client.

All clients of a stack have the same :class:`~entrofed.core.types.Training` but for their epochs, and their optimizers
have made as many steps before; so they have made as many at every step, and bias corrections are one number.
"""

from collections.abc import Sequence

import torch

from entrofed.client.model import Tensors
from entrofed.client.optimizers import KERNELS
from entrofed.client.stacked.stack import Models, Rows
from entrofed.core.types import PartState, Training

MOMENTS: dict[str, tuple[str, ...]] = {"sgd": ("velocity",), "adam": ("mean", "square"), "adamw": ("mean", "square")}
"""What each optimizer remembers of every parameter."""


def moments_of(training: Training, models: Models, states: Sequence[PartState]) -> dict[str, Tensors]:
    """What optimizers start from: zeros, or what clients have kept."""
    if training.optimizer == "sgd" and not training.momentum and not training.persist_optimizer:
        return {}
    return {
        name: models.split([state.get(name) for state in states])
        if any(name in state for state in states)
        else [torch.zeros_like(parameter) for parameter in models.parameters]
        for name in MOMENTS[training.optimizer]
    }


def step(training: Training, rows: Rows, slopes: Tensors, before: float) -> None:
    """Change the parameters by their gradients; ``before``: the steps that each optimizer has made until now."""
    if training.optimizer == "sgd":
        torch._fused_sgd_(
            rows.parameters,
            slopes,
            rows.moments["velocity"] if training.momentum else [],
            weight_decay=training.weight_decay,
            momentum=training.momentum,
            lr=training.lr,
            dampening=0.0,
            nesterov=training.nesterov,
            maximize=False,
            is_first_step=False,
        )
        return
    KERNELS[training.optimizer](
        rows.parameters,
        slopes,
        rows.moments["mean"],
        rows.moments["square"],
        [],
        [torch.tensor(before) for _ in slopes],
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.999,
        lr=training.lr,
        weight_decay=training.weight_decay,
        eps=1e-8,
        maximize=False,
    )


def steer(slopes: Tensors, rows: Rows, pull: float, most: float | None) -> None:
    """Change gradients in place: ``pull * (w - w_start)``, and clipping to the norm ``most`` of each client's own."""
    if rows.start:
        torch._foreach_add_(slopes, torch._foreach_sub(rows.parameters, rows.start), alpha=pull)
    if most is not None:
        _scale(slopes, torch.clamp(most / (norms(slopes) + 1e-6), max=1.0))


def uphill(parameters: Tensors, slopes: Tensors, distance: float) -> Tensors:
    """The parameters of each client moved by ``distance`` along its gradient."""
    steps = [slope.clone() for slope in slopes]
    _scale(steps, distance / (norms(slopes) + 1e-12))
    return [parameter + step for parameter, step in zip(parameters, steps, strict=True)]


def norms(slopes: Tensors) -> torch.Tensor:
    """The norm over all parameters together, of each client.

    >>> norms([torch.tensor([[3.0], [0.0]]), torch.tensor([[4.0], [1.0]])]).tolist()
    [5.0, 1.0]
    """
    each = torch.stack([torch.linalg.vector_norm(slope.flatten(1), dim=1) for slope in slopes])
    found: torch.Tensor = torch.linalg.vector_norm(each, dim=0)
    return found


def _scale(tensors: Tensors, factors: torch.Tensor) -> None:
    """Multiply each client's values, in place, by its factor."""
    for tensor in tensors:
        tensor.mul_(factors.view(-1, *[1] * (tensor.dim() - 1)))
