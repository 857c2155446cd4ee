"""The model that local training works on: one a worker, reused for every client.

Convolutions are kept channels-last, the order that the CPU kernels want; :meth:`Workbench.load` and
:meth:`Workbench.dump` translate from and to the ordinary order of :class:`~entrofed.params.Layout`.
"""

from collections.abc import Callable

import torch

from entrofed.params import Layout, Params
from entrofed.seeds import torch_stream
from entrofed.types import Objective

Tensors = list[torch.Tensor]


class Workbench:
    """A model, its parameters, and how to fill in their gradients."""

    def __init__(self, build: Callable[[], torch.nn.Module], *, compiled: bool = False) -> None:
        with torch_stream(0, "workbench"):
            model = build()
        self.layout = Layout.of(model)
        self.model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        self.has_batch_norm = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in self.model.modules())
        self._tensors = {
            **{name: parameter.data for name, parameter in self.model.named_parameters()},
            **dict(self.model.named_buffers()),
        }
        self._compiled: dict[Objective, _CompiledGradients] | None = {} if compiled else None

    def load(self, params: Params) -> None:
        """Put a model's state on the bench."""
        for name, array in self.layout.split(params).items():
            self._tensors[name].copy_(torch.from_numpy(array))

    def dump(self) -> Params:
        """A copy of the state now on the bench."""
        return self.layout.join({e.name: self._tensors[e.name].numpy() for e in self.layout.entries})

    def backward(self, objective: Objective, x: torch.Tensor, y: torch.Tensor, *, common_shape: bool) -> torch.Tensor:
        """Fill in the gradients of a batch and return its loss.

        Compiled, if the bench compiles and the batch has the one common shape: every further shape would be
        compiled again. A parameter that the loss does not depend on gets no gradient.
        """
        if self._compiled is None or not common_shape:
            loss = objective.loss(self.model, x, y)
            loss.backward()  # type: ignore[no-untyped-call]
            return loss.detach()
        if objective not in self._compiled:
            self._compiled[objective] = _CompiledGradients(self.model, objective, x, y)
        return self._compiled[objective](x, y)


class _CompiledGradients:
    """Loss and gradients as one compiled graph, forward and backward together."""

    def __init__(self, model: torch.nn.Module, objective: Objective, x: torch.Tensor, y: torch.Tensor) -> None:
        named = dict(model.named_parameters())
        model.eval()  # a trial run, to see which parameters matter; it must leave no trace
        with torch.random.fork_rng(devices=[]):
            trial = torch.autograd.grad(objective.loss(model, x, y), list(named.values()), allow_unused=True)
        model.train()
        used = [name for (name, _), gradient in zip(named.items(), trial, strict=True) if gradient is not None]
        self._parameters = [named[name] for name in used]
        self._values = [parameter.detach() for parameter in self._parameters]
        self._buffers = list(model.buffers())
        names = [f"model.{name}" for name in (*used, *dict(model.named_buffers()))]
        module = _Loss(model, objective)

        def loss(values: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
            changed = [buffer.clone() for buffer in buffers]
            state = dict(zip(names, values + changed, strict=True))
            return torch.func.functional_call(module, state, (x, y)), changed

        def gradients(
            values: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor
        ) -> tuple[Tensors, torch.Tensor]:
            found, (value, changed) = torch.func.grad_and_value(loss, has_aux=True)(values, buffers, x, y)
            for buffer, new in zip(buffers, changed, strict=True):
                buffer.copy_(new)
            return found, value

        self._function = torch.compile(gradients, dynamic=False)

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found, loss = self._function(self._values, self._buffers, x, y)
        for parameter, gradient in zip(self._parameters, found, strict=True):
            parameter.grad = gradient
        return loss


class _Loss(torch.nn.Module):
    """An objective's loss as a module, so that its model's parameters can be replaced by arguments."""

    def __init__(self, model: torch.nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.objective.loss(self.model, x, y)
