"""The model that local training works on: one a worker, reused for every client.

Convolutions are kept channels-last, the order that the CPU kernels want; :meth:`Workbench.load` and
:meth:`Workbench.dump` translate from and to the ordinary order of :class:`~entrofed.core.params.Layout`.
"""

from collections.abc import Callable

import numpy as np
import torch
from torch.autograd.variable import Variable

from entrofed.core.params import Floats, Layout, Params
from entrofed.core.seeds import torch_stream
from entrofed.core.types import Given, Objective

Tensors = list[torch.Tensor]
Compiled = Callable[[torch.Tensor, torch.Tensor, Given], tuple[torch.Tensor, Tensors]]

_ONE = torch.ones(())
_backward = Variable._execution_engine.run_backward


class Workbench:
    """A model that can be filled with a state, trained and read out again."""

    def __init__(self, build: Callable[[], torch.nn.Module], *, compiled: bool = False) -> None:
        self._build, self._compiled = build, compiled
        self.model = self._new()
        self.layout = Layout.of(self.model)
        self.has_batch_norm = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in self.model.modules())
        self._gradients: dict[tuple[Objective, frozenset[str]], Gradients] = {}
        self._frozen: dict[str, torch.nn.Module] = {}

    def _new(self) -> torch.nn.Module:
        with torch_stream(0, "workbench"):
            return self._build().to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def load(self, params: Params) -> None:
        """Put a model's state on the bench."""
        self._fill(self.model, params)

    def _fill(self, model: torch.nn.Module, params: Params) -> None:
        tensors = _tensors(model)
        for name, array in self.layout.split(params).items():
            tensors[name].copy_(torch.from_numpy(array))

    def dump(self) -> Params:
        """A copy of the state now on the bench."""
        tensors = _tensors(self.model)
        return self.layout.join({e.name: tensors[e.name].numpy() for e in self.layout.entries})

    def frozen(self, role: str, params: Params) -> torch.nn.Module:
        """Another model with this state, in evaluation mode, to compare with; one a role, reused."""
        if role not in self._frozen:
            self._frozen[role] = self._new().eval()
        self._fill(self._frozen[role], params)
        return self._frozen[role]

    def gradients(self, objective: Objective, x: torch.Tensor, y: torch.Tensor, given: Given) -> "Gradients":
        """How an objective is differentiated; ``x``, ``y`` and ``given`` are any batch."""
        key = objective, frozenset(given)
        if key not in self._gradients:
            self._gradients[key] = Gradients(self.model, self.layout, objective, x, y, given, compiled=self._compiled)
        return self._gradients[key]


def _tensors(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    parameters = {name: parameter.data for name, parameter in model.named_parameters()}
    return {**parameters, **dict(model.named_buffers())}


class Gradients:
    """Loss and gradients of an objective, for the parameters that it depends on."""

    def __init__(
        self,
        model: torch.nn.Module,
        layout: Layout,
        objective: Objective,
        x: torch.Tensor,
        y: torch.Tensor,
        given: Given,
        *,
        compiled: bool,
    ) -> None:
        self._model, self._objective = model, objective
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        model.eval()  # a trial run, to see which parameters matter; it must leave no trace
        with torch.random.fork_rng(devices=[]):
            loss = objective.loss(model, x, y, given).sum()
            trial = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        model.train()
        used = [name for (name, _), gradient in zip(named.items(), trial, strict=True) if gradient is not None]
        self._used, self._inputs = used, tuple(named[name] for name in used)
        self.parameters: Tensors = [parameter.detach() for parameter in self._inputs]
        """The values that gradients are asked for; to change them changes the model."""
        places = {entry.name: slice(entry.start, entry.start + entry.size) for entry in layout.entries}
        self._places, self._length = [places[name] for name in used], layout.trainable
        recurrent = any(isinstance(module, torch.nn.RNNBase) for module in model.modules())
        self._compile = compiled and not recurrent  # unrolled, a recurrent network is slower than torch's own kernel
        self._compiled: dict[torch.Size, Compiled] = {}

    def __call__(self, x: torch.Tensor, y: torch.Tensor, given: Given, *, whole: bool) -> tuple[torch.Tensor, Tensors]:
        """The loss of a batch (or its terms), and the gradient of each of ``parameters``.

        Only whole batches are compiled: every size of a partial one would be compiled again.
        """
        if self._compile and whole:
            if x.shape not in self._compiled:
                from entrofed.client.compiled import compile_gradients  # takes seconds

                self._compiled[x.shape] = compile_gradients(self._model, self._objective, self._used, x, y, given)
            return self._compiled[x.shape](x, y, given)
        loss = self._objective.loss(self._model, x, y, given)
        return loss.detach(), self._differentiate(loss.sum() if loss.ndim else loss)

    def _differentiate(self, loss: torch.Tensor) -> Tensors:
        """What :func:`torch.autograd.grad` returns; its checks take 5 % of a small network's step."""
        return list(_backward((loss,), (_ONE,), False, False, self._inputs, False, accumulate_grad=False))

    def tensors(self, flat: Floats) -> Tensors:
        """What a vector of all trainable parameters holds for ``parameters``, in their memory format."""
        tensors = [torch.empty_like(parameter) for parameter in self.parameters]
        for tensor, place in zip(tensors, self._places, strict=True):
            tensor.copy_(torch.from_numpy(flat[place]).view(tensor.shape))
        return tensors

    def flat(self, tensors: Tensors) -> Floats:
        """The inverse of :meth:`tensors`, with zeros for parameters that do not matter."""
        flat = np.zeros(self._length, np.float32)
        for tensor, place in zip(tensors, self._places, strict=True):
            flat[place] = tensor.reshape(-1).numpy()
        return flat
