"""Loss and gradients of a batch as one compiled graph, forward and backward together.

The operations of a step are recorded once and compiled as they are. ``torch.compile`` would look before every step
whether the recording still holds, which takes a tenth of a small network's step; here shapes alone could change it.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from entrofed.client.loss_module import LossModule
from entrofed.core.parts import Given, Objective

Tensors = list[torch.Tensor]
Compiled = Callable[[torch.Tensor, torch.Tensor, Given], tuple[torch.Tensor, Tensors]]
"""The loss of a batch (or its terms), and its gradients."""

aten = torch.ops.aten


def _hidden(operation: torch._ops.OpOverload) -> torch._ops.OpOverload:
    """The same operation under a name that the compiler does not know, so that it calls it as it is."""
    name, arguments = str(operation._schema).removeprefix("aten::").split("(", 1)
    torch.library.define(f"entrofed::{name}", f"({arguments}")
    torch.library.impl(f"entrofed::{name}", "CPU", operation)
    torch.library.register_fake(f"entrofed::{name}", operation)
    return getattr(torch.ops.entrofed, name).default  # type: ignore[no-any-return]


_pool = _hidden(aten.max_pool2d_with_indices.default)


def _pool_by_two(
    x: torch.Tensor,
    kernel: list[int],
    stride: list[int] | None = None,
    padding: list[int] | int = 0,
    dilation: list[int] | int = 1,
    ceil: bool = False,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Max pooling with the place of each maximum (the first, if there are several), in operations that fuse."""
    two, stride = [2, 2], stride or kernel
    if [kernel, stride] != [two, two] or padding not in (0, [0, 0]) or dilation not in (1, [1, 1]) or ceil:
        return _pool(x, kernel, stride, padding, dilation, ceil)  # type: ignore[no-any-return]
    height, width = x.shape[-2] // 2 * 2, x.shape[-1] // 2 * 2
    (a, b), (c, d) = ([x[..., i:height:2, j:width:2] for j in (0, 1)] for i in (0, 1))
    above, below = torch.maximum(a, b), torch.maximum(c, d)
    down = below > above
    right = torch.where(down, d > c, b > a)
    row = torch.arange(0, height, 2)[:, None] + down.long()
    column = torch.arange(0, width, 2) + right.long()
    return torch.maximum(above, below), row * x.shape[-1] + column


FASTER: dict[torch._ops.OpOverload, Callable[..., Any]] = {
    aten.max_pool2d_with_indices.default: _pool_by_two,
    aten.max_pool2d_with_indices_backward.default: _hidden(aten.max_pool2d_with_indices_backward.default),
}
"""What is recorded in place of operations that the compiler would make several times slower."""


def compile_gradients(
    model: torch.nn.Module, objective: Objective, used: list[str], x: torch.Tensor, y: torch.Tensor, given: Given
) -> Compiled:
    """The loss (or its terms) and the gradients of the ``used`` parameters, for batches of the shape of this one.

    Random draws stay torch's own: compiled or not, dropout leaves out the same units.
    """
    module, keys = LossModule(model, objective), list(given)
    parameters, buffers = dict(module.named_parameters()), dict(module.named_buffers())
    moved = {f"model.{name}": parameters.pop(f"model.{name}").detach() for name in used}
    names, state = [*moved, *parameters, *buffers], [*moved.values(), *parameters.values(), *buffers.values()]

    def gradients(*arguments: torch.Tensor) -> Tensors:
        x, y, *extras = arguments[len(state) :]
        values, kept = arguments[: len(moved)], arguments[len(moved) : len(state)]
        counters = kept[len(parameters) :]

        def loss(values: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, tuple[torch.Tensor, Tensors]]:
            changed = [counter.clone() for counter in counters]
            replaced = dict(zip(names, (*values, *kept[: len(parameters)], *changed), strict=True))
            found = torch.func.functional_call(module, replaced, (x, y, dict(zip(keys, extras, strict=True))))
            return found.sum(), (found, changed)

        slopes, (_, (found, changed)) = torch.func.grad_and_value(loss, has_aux=True)(values)
        for counter, new in zip(counters, changed, strict=True):
            counter.copy_(new)
        return [found, *slopes]

    example: list[Any] = [*(tensor.detach().clone() for tensor in state), x, y, *given.values()]
    with torch.no_grad(), torch.random.fork_rng(devices=[]):  # what is recorded is also done, and must leave no trace
        graph = make_fx(gradients, decomposition_table=FASTER)(*example)
        function = torch._inductor.compile(graph, example, options={"fallback_random": True})

    def call(x: torch.Tensor, y: torch.Tensor, given: Given) -> tuple[torch.Tensor, Tensors]:
        with torch.no_grad():
            found, *slopes = function(*state, x, y, *(given[key] for key in keys))
        return found, slopes

    return call
