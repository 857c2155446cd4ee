"""A model laid out for fast local training: all parameters in one vector, all gradients in another.

Every parameter and its gradient are views of two flat tensors, so that an optimizer step is a handful of
vector operations whatever the number of layers. Convolution weights are stored channels-last, which is the
order the CPU kernels want; :meth:`Workbench.load` and :meth:`Workbench.dump` translate from and to the
ordinary order of :class:`~entrofed.params.Layout`. Stretches start at multiples of 64 bytes.
"""

from collections.abc import Callable

import numpy as np
import torch

from entrofed.params import Layout, Params
from entrofed.seeds import torch_stream

ALIGN = 16


def _view(flat: torch.Tensor, start: int, like: torch.Tensor) -> torch.Tensor:
    piece = flat[start : start + like.numel()]
    if like.dim() == 4:
        out, channels, height, width = like.shape
        return piece.view(out, height, width, channels).permute(0, 3, 1, 2)
    return piece.view(like.shape)


class Workbench:
    """One model, reused for every client that trains here."""

    def __init__(self, build: Callable[[], torch.nn.Module]) -> None:
        with torch_stream(0, "workbench"):
            self.model = build()
        self.layout = Layout.of(self.model)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        starts = np.cumsum([0] + [-(-p.numel() // ALIGN) * ALIGN for p in trained])
        self.weights = torch.zeros(int(starts[-1]))
        self.gradients = torch.zeros_like(self.weights)
        for parameter, start in zip(trained, starts, strict=False):
            parameter.data = _view(self.weights, int(start), parameter)
            parameter.grad = _view(self.gradients, int(start), parameter)
        self.has_batch_norm = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in self.model.modules())
        self._tensors = {
            **{name: p.data for name, p in self.model.named_parameters()},
            **dict(self.model.named_buffers()),
        }

    def load(self, params: Params) -> None:
        """Put a model's state on the bench."""
        for name, array in self.layout.split(params).items():
            self._tensors[name].copy_(torch.from_numpy(array))

    def dump(self) -> Params:
        """A copy of the state now on the bench."""
        return self.layout.join({e.name: self._tensors[e.name].numpy() for e in self.layout.entries})
