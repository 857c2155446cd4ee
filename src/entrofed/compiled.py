"""Loss and gradients of a batch as one compiled graph, forward and backward together.

The operations of a step are recorded once and compiled as they are. ``torch.compile`` would look before every step
whether the recording still holds, which takes a tenth of a small network's step; here shapes alone could change it.
"""

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from entrofed.types import Given, Objective
from entrofed.workbench import Compiled, Tensors


def _hidden(operation: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The same operation under a name that the compiler does not know, so that it calls it as it is."""
    _, name = operation.name().split("::")
    _, arguments = str(operation._schema).split("(", 1)
    torch.library.define(f"entrofed::{name}", f"({arguments}")
    torch.library.impl(f"entrofed::{name}", "CPU", operation)
    torch.library.register_fake(f"entrofed::{name}", operation)
    return getattr(torch.ops.entrofed, name).default  # type: ignore[no-any-return]


AS_THEY_ARE = {
    operation: _hidden(operation)
    for operation in (
        torch.ops.aten.max_pool2d_with_indices.default,
        torch.ops.aten.max_pool2d_with_indices_backward.default,
    )
}
"""Operations that torch's own kernels carry out several times faster than what the compiler makes of them."""


def compile_gradients(
    model: torch.nn.Module, objective: Objective, parameters: Tensors, x: torch.Tensor, y: torch.Tensor, given: Given
) -> Compiled:
    """The loss (or its terms) and the gradients of ``parameters``, for batches of the shape of this one.

    Random draws stay torch's own: compiled or not, dropout leaves out the same units.
    """
    values, buffers = [parameter.detach() for parameter in parameters], list(model.buffers())
    places = {id(parameter): name for name, parameter in model.named_parameters()}
    names = [f"model.{name}" for name in (*(places[id(p)] for p in parameters), *dict(model.named_buffers()))]
    module, keys = _Loss(model, objective), list(given)

    def loss(
        values: Tensors, buffers: Tensors, x: torch.Tensor, y: torch.Tensor, given: Given
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, Tensors]]:
        changed = [buffer.clone() for buffer in buffers]
        state = dict(zip(names, values + changed, strict=True))
        found = torch.func.functional_call(module, state, (x, y, given))
        return found.sum(), (found, changed)

    def gradients(*arguments: torch.Tensor) -> Tensors:
        rest = list(arguments)
        values, buffers = [rest.pop(0) for _ in parameters], [rest.pop(0) for _ in model.buffers()]
        x, y, *extras = rest
        given = dict(zip(keys, extras, strict=True))
        found, (_, (value, changed)) = torch.func.grad_and_value(loss, has_aux=True)(values, buffers, x, y, given)
        for buffer, new in zip(buffers, changed, strict=True):
            buffer.copy_(new)
        return [value, *found]

    example = [*values, *(buffer.clone() for buffer in buffers), x, y, *given.values()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):  # recording carries the operations out; it leaves no trace
        graph = make_fx(gradients)(*example)
        for node in graph.graph.nodes:
            node.target = AS_THEY_ARE.get(node.target, node.target)
        graph.recompile()
        function = torch._inductor.compile(graph, example, options={"fallback_random": True})

    def call(x: torch.Tensor, y: torch.Tensor, given: Given) -> tuple[torch.Tensor, Tensors]:
        with torch.no_grad():
            value, *found = function(*values, *buffers, x, y, *(given[key] for key in keys))
        return value, found

    return call


class _Loss(torch.nn.Module):
    """An objective's loss as a module, so that its model's parameters can be replaced by arguments."""

    def __init__(self, model: torch.nn.Module, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        return self.objective.loss(self.model, x, y, given)
