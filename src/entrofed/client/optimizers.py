"""The optimizers of local training, and what else moves parameters."""

from functools import partial

import numpy as np
import torch
from torch.optim.adam import adam

from entrofed.client.model import Gradients, Tensors
from entrofed.core.parts import Correction
from entrofed.core.types import PartState, Training


class SGD:
    """``g += decay * w;  m = momentum * m + g;  w -= lr * m``, one fused pass per parameter."""

    def __init__(self, gradients: Gradients, training: Training, client_state: PartState) -> None:
        self.gradients, self.velocity = gradients, _restore(client_state, "velocity", gradients)
        self._kernel = partial(
            torch._fused_sgd_,
            weight_decay=training.weight_decay,
            momentum=training.momentum,
            lr=training.lr,
            dampening=0.0,
            nesterov=False,
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


class Adam:
    """Adam with torch's defaults (betas 0.9 and 0.999, epsilon 1e-8, bias-corrected, L2 weight decay)."""

    def __init__(self, gradients: Gradients, training: Training, client_state: PartState) -> None:
        self.gradients, self.training = gradients, training
        self.mean = _restore(client_state, "mean", gradients)
        self.square = _restore(client_state, "square", gradients)
        taken = float(client_state.get("steps", np.zeros(())))
        self.steps = [torch.tensor(taken) for _ in gradients.parameters]

    def step(self, slopes: Tensors) -> None:
        """Change the parameters by their gradients."""
        adam(
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
        return {"mean": flat(self.mean), "square": flat(self.square), "steps": self.steps[0].numpy()}


OPTIMIZERS: dict[str, type[SGD] | type[Adam]] = {"sgd": SGD, "adam": Adam}


def _restore(client_state: PartState, name: str, gradients: Gradients) -> Tensors:
    if name in client_state:
        return gradients.tensors(client_state[name])
    return [torch.zeros_like(parameter) for parameter in gradients.parameters]


class Steering:
    """What moves parameters besides the gradient of the loss: ``pull * (w - w_start)``, and a rule's correction."""

    def __init__(self, gradients: Gradients, pull: float, correction: Correction | None, lr: float) -> None:
        self._parameters, self._pull, self._lr = gradients.parameters, pull, lr
        self._start = [parameter.clone() for parameter in gradients.parameters] if pull else []
        self._correction = gradients.tensors(correction.values) if correction is not None else []
        self._outside = correction is not None and correction.outside

    def before_step(self, slopes: Tensors) -> None:
        """Change the gradients in place."""
        if self._start:
            torch._foreach_add_(slopes, torch._foreach_sub(self._parameters, self._start), alpha=self._pull)
        if self._correction and not self._outside:
            torch._foreach_add_(slopes, self._correction)

    def after_step(self) -> None:
        """Change the parameters, where the correction is outside of the optimizer."""
        if self._outside:
            torch._foreach_add_(self._parameters, self._correction, alpha=-self._lr)
