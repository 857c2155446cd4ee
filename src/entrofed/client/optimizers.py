"""The optimizers of local training, and what else moves parameters."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch.optim.adam import adam
from torch.optim.adamw import adamw

from entrofed.client.model import Gradients, Tensors
from entrofed.core.parts import Correction
from entrofed.core.types import PartState, Training


class SGD:
    """``g += decay * w;  m = momentum * m + g;  w -= lr * m``, one fused pass per parameter.

    ``nesterov``: ``w -= lr * (g + momentum * m)``.
    """

    def __init__(self, gradients: Gradients, training: Training, client_state: PartState) -> None:
        self.gradients, self.velocity = gradients, _restore(client_state, "velocity", gradients)
        self._kernel = partial(
            torch._fused_sgd_,
            weight_decay=training.weight_decay,
            momentum=training.momentum,
            lr=training.lr,
            dampening=0.0,
            nesterov=training.nesterov,
            maximize=False,
            is_first_step=False,
        )
        self._moving = self.velocity if training.momentum else []

    def step(self, slopes: Tensors) -> None:
        """Change the parameters by their gradients.

        The kernel is called directly: what :func:`torch.optim.sgd.sgd` does around it takes 5 % of a small
        network's step.
        """
        self._kernel(self.gradients.parameters, slopes, self._moving)

    def client_state(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        return {"velocity": self.gradients.flat(self.velocity)}


KERNELS: dict[str, Callable[..., None]] = {"adam": adam, "adamw": adamw}
"""Torch's own, by the names of ``method.optimizer``."""


class Adam:
    """Adam with torch's defaults (betas 0.9 and 0.999, epsilon 1e-8, bias-corrected, L2 weight decay).

    ``adamw``: weight decay, ``w -= lr * decay * w``, stays out of the moments (Loshchilov and Hutter, ICLR 2019).
    """

    def __init__(self, gradients: Gradients, training: Training, client_state: PartState) -> None:
        self.gradients, self.training = gradients, training
        self.mean = _restore(client_state, "mean", gradients)
        self.square = _restore(client_state, "square", gradients)
        taken = float(client_state.get("steps", np.zeros(())))
        self.steps = [torch.tensor(taken, device=parameter.device) for parameter in gradients.parameters]

    def step(self, slopes: Tensors) -> None:
        """Change the parameters by their gradients."""
        KERNELS[self.training.optimizer](
            self.gradients.parameters,
            slopes,
            self.mean,
            self.square,
            [],
            self.steps,
            fused=True,
            amsgrad=False,
            beta1=0.9,
            beta2=0.999,
            lr=self.training.lr,
            weight_decay=self.training.weight_decay,
            eps=1e-8,
            maximize=False,
        )

    def client_state(self) -> PartState:
        """What the next participation starts from, if the optimizer persists."""
        flat = self.gradients.flat
        return {"mean": flat(self.mean), "square": flat(self.square), "steps": self.steps[0].cpu().numpy()}


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam, "adamw": Adam}


def _restore(client_state: PartState, name: str, gradients: Gradients) -> Tensors:
    if name in client_state:
        return gradients.tensors(client_state[name])
    return [torch.zeros_like(parameter) for parameter in gradients.parameters]


def clip(slopes: Tensors, most: float) -> None:
    """Scale gradients, in place, to the norm ``most`` over all of them together, if it is larger.

    What :func:`torch.nn.utils.clip_grad_norm_` does with the gradients that parameters hold.

    >>> slopes = [torch.tensor([3.0]), torch.tensor([4.0])]
    >>> clip(slopes, 1.0)
    >>> [round(float(slope), 4) for slope in slopes]
    [0.6, 0.8]
    """
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes)))
    torch._foreach_mul_(slopes, torch.clamp(most / (norm + 1e-6), max=1.0))


@contextmanager
def uphill(module: torch.nn.Module, gradients: Gradients, slopes: Tensors, distance: float) -> Iterator[None]:
    """The parameters are moved by ``distance`` along the gradient; they and all buffers are put back afterwards."""
    tensors = [*gradients.parameters, *module.buffers()]
    kept = [tensor.clone() for tensor in tensors]
    norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(slopes)))
    torch._foreach_add_(gradients.parameters, torch._foreach_mul(slopes, distance / (norm + 1e-12)))
    yield
    for tensor, before in zip(tensors, kept, strict=True):
        tensor.copy_(before)


class Steering:
    """What changes a gradient before the optimizer gets it, in this order: ``pull * (w - w_start)``, clipping, and a
    server rule's correction, which is not clipped.
    """

    def __init__(self, gradients: Gradients, pull: float, correction: Correction | None, training: Training) -> None:
        self._parameters, self._pull, self._lr = gradients.parameters, pull, training.lr
        self._most = training.clip_gradients
        self._start = [parameter.clone() for parameter in gradients.parameters] if pull else []
        self._correction = gradients.tensors(correction.values) if correction is not None else []
        self._outside = correction is not None and correction.outside

    def before_step(self, slopes: Tensors) -> None:
        """Change the gradients in place."""
        if self._start:
            torch._foreach_add_(slopes, torch._foreach_sub(self._parameters, self._start), alpha=self._pull)
        if self._most is not None:
            clip(slopes, self._most)
        if self._correction and not self._outside:
            torch._foreach_add_(slopes, self._correction)

    def after_step(self) -> None:
        """Change the parameters, where the correction is outside of the optimizer."""
        if self._outside:
            torch._foreach_add_(self._parameters, self._correction, alpha=-self._lr)
