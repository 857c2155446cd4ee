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
    """A model that can be filled with a state, trained and read out again."""

    def __init__(self, build: Callable[[], torch.nn.Module], *, compiled: bool = False) -> None:
        with torch_stream(0, "workbench"):
            model = build()
        self.layout = Layout.of(model)
        self.model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.has_batch_norm = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in self.model.modules())
        self._tensors = {
            **{name: parameter.data for name, parameter in self.model.named_parameters()},
            **dict(self.model.named_buffers()),
        }
        self._compiled = compiled
        self._gradients: dict[Objective, Gradients] = {}

    def load(self, params: Params) -> None:
        """Put a model's state on the bench."""
        for name, array in self.layout.split(params).items():
            self._tensors[name].copy_(torch.from_numpy(array))

    def dump(self) -> Params:
        """A copy of the state now on the bench."""
        return self.layout.join({e.name: self._tensors[e.name].numpy() for e in self.layout.entries})

    def gradients(self, objective: Objective, x: torch.Tensor, y: torch.Tensor) -> "Gradients":
        """How an objective is differentiated; ``x`` and ``y`` are any batch."""
        if objective not in self._gradients:
            self._gradients[objective] = Gradients(self.model, objective, x, y, compiled=self._compiled)
        return self._gradients[objective]


class Gradients:
    """Loss and gradients of an objective, for the parameters that it depends on."""

    def __init__(
        self, model: torch.nn.Module, objective: Objective, x: torch.Tensor, y: torch.Tensor, *, compiled: bool
    ) -> None:
        self._model, self._objective = model, objective
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        model.eval()  # a trial run, to see which parameters matter; it must leave no trace
        with torch.random.fork_rng(devices=[]):
            trial = torch.autograd.grad(objective.loss(model, x, y), list(named.values()), allow_unused=True)
        model.train()
        used = [name for (name, _), gradient in zip(named.items(), trial, strict=True) if gradient is not None]
        self.parameters: Tensors = [named[name] for name in used]
        self._compiled = _compile(model, objective, used) if compiled else None

    def __call__(self, x: torch.Tensor, y: torch.Tensor, *, whole: bool) -> tuple[torch.Tensor, Tensors]:
        """The loss of a batch, and the gradient of each of ``parameters``.

        Only whole batches are compiled: every size of a partial one would be compiled again.
        """
        if self._compiled is not None and whole:
            return self._compiled(x, y)
        loss = self._objective.loss(self._model, x, y)
        return loss.detach(), list(torch.autograd.grad(loss, self.parameters))


def _compile(
    model: torch.nn.Module, objective: Objective, used: list[str]
) -> Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, Tensors]]:
    """Loss and gradients as one compiled graph, forward and backward together."""
    named, buffers = dict(model.named_parameters()), dict(model.named_buffers())
    values = [named[name].detach() for name in used]
    names = [f"model.{name}" for name in (*used, *buffers)]
    module = _Loss(model, objective)

    def loss(values: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        changed = [buffer.clone() for buffer in buffers]
        state = dict(zip(names, values + changed, strict=True))
        return torch.func.functional_call(module, state, (x, y)), changed

    def gradients(values: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        found, (value, changed) = torch.func.grad_and_value(loss, has_aux=True)(values, buffers, x, y)
        for buffer, new in zip(buffers, changed, strict=True):
            buffer.copy_(new)
        return value, found

    function = torch.compile(gradients, dynamic=False)
    kept = list(buffers.values())

    def call(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, Tensors]:
        with torch.no_grad():
            return function(values, kept, x, y)

    return call


class _Loss(torch.nn.Module):
    """An objective's loss as a module, so that its model's parameters can be replaced by arguments."""

    def __init__(self, model: torch.nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.objective.loss(self.model, x, y)
