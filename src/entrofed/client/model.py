"""The model that local training works on: one per worker, reused for every client.

Convolutions are kept channels-last, the order that the CPU kernels want; :meth:`LocalModel.load` and
:meth:`LocalModel.dump` translate from and to the ordinary order of :class:`~entrofed.core.params.Layout`. A module that
says ``channels_last = False`` is left in the ordinary order: ``view`` works with no other.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch.autograd.variable import Variable

from entrofed.client.augment import AUGMENTS, Augmented
from entrofed.client.device import Compile, Precision
from entrofed.core.params import Floats, Layout, Params
from entrofed.core.parts import Given, ModelRuntime, Objective
from entrofed.core.seeds import CPU, no_trace, torch_stream
from entrofed.core.types import ClientData

if TYPE_CHECKING:
    from entrofed.client.compiled import Compiled

Tensors = list[torch.Tensor]

EVALUATION_BATCH = 250
"""Samples that a model evaluates at a time."""

_backward = Variable._execution_engine.run_backward


class Inputs:
    """How samples become what the model takes: standardized as ``(x - shift) / scale``, images channels first."""

    def __init__(
        self,
        kind: str = "tensor",
        shift: Floats | None = None,
        scale: Floats | None = None,
        image: tuple[int, ...] = (),
    ) -> None:
        self._kind = kind
        self._image = image
        self.channels_last = True
        self._shift, self._scale = (self._whole(values, image) for values in (shift, scale))
        self.moments = shift, scale

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width of images; nothing else has a shape."""
        return () if self._shift is None else (self._shift.shape[-1], *self._image)

    def move(self, device: torch.device) -> None:
        """Standardize there from now on."""
        if self._shift is not None and self._scale is not None:
            self._shift, self._scale = self._shift.to(device), self._scale.to(device)

    def _whole(self, values: Floats | None, image: tuple[int, ...]) -> torch.Tensor | None:
        """A number per channel as one for every value of an image, which is six times as fast to subtract."""
        if values is None or self._kind in ("text", "tensor"):
            return None
        found = torch.from_numpy(values)
        return found.expand(*image, len(values)).contiguous() if self._kind == "image" else found

    def standardize(self, x: torch.Tensor) -> torch.Tensor:
        """``(x - shift) / scale``, per channel or feature; text, and what is said to be ready, stays as it is."""
        return x if self._shift is None or self._scale is None else (x - self._shift).div_(self._scale)

    def for_model(self, x: torch.Tensor) -> torch.Tensor:
        """The same samples in the shape that models take; a view, unless the order in memory matters."""
        if self._kind != "image":
            return x
        x = x.permute(0, 3, 1, 2)
        return x if self.channels_last else x.contiguous()


class LocalModel(ModelRuntime):
    """A model that can be filled with a state, trained and read out again."""

    def __init__(
        self,
        build: Callable[[], torch.nn.Module],
        inputs: Inputs | None = None,
        *,
        compiled: Compile = False,
        device: torch.device = CPU,
        precision: Precision = "float32",
    ) -> None:
        self._build, self._compiled, self.device, self._precision = build, compiled, device, precision
        self.inputs = inputs or Inputs()
        self.inputs.move(device)
        self._tensors: dict[torch.nn.Module, dict[str, torch.Tensor]] = {}
        self.module = self._new()
        self.inputs.channels_last = compiled == "native" or _is_channels_last(self.module)
        self.layout = Layout.of(self.module)
        self.has_batch_norm = any(isinstance(m, torch.nn.modules.batchnorm._BatchNorm) for m in self.module.modules())
        self._gradients: dict[tuple[Objective, frozenset[str]], Gradients] = {}
        self._frozen: dict[str, torch.nn.Module] = {}

    def _new(self) -> torch.nn.Module:
        with torch_stream(0, "model"):
            model = self._build()
        if self._compiled == "native":
            from entrofed.client.native import replace_blocks  # takes seconds, once on a machine

            replace_blocks(model, self.inputs.shape)
            return model
        if not _is_channels_last(model):
            return model.to(self.device)
        return model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]

    def augmented(self, names: tuple[str, ...]) -> Augmented | None:
        """What takes samples out of a client's, changes them at random and standardizes them; None without changes."""
        if not names:
            return None
        if self._compiled == "native":
            from entrofed.client.native_augment import fused

            if (one_pass := fused(names, self.inputs.shape, *self.inputs.moments)) is not None:
                return one_pass

        def changed(x: torch.Tensor, chosen: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
            batch = x.index_select(0, chosen)
            for name in names:
                batch = AUGMENTS[name](batch, rng)
            return self.inputs.standardize(batch)

        return changed

    def load(self, params: Params) -> None:
        """Fill the model with a state."""
        self._fill(self.module, params)

    def _fill(self, model: torch.nn.Module, params: Params) -> None:
        tensors = self._tensors_of(model)
        for name, array in self.layout.split(params).items():
            tensors[name].copy_(torch.from_numpy(array))

    def dump(self) -> Params:
        """A copy of the model's state."""
        tensors = self._tensors_of(self.module)
        return self.layout.join({e.name: tensors[e.name].cpu().numpy() for e in self.layout.entries})

    def _tensors_of(self, model: torch.nn.Module) -> dict[str, torch.Tensor]:
        """By name; looked up once, because they only ever change in place."""
        if model not in self._tensors:
            parameters = {name: parameter.data for name, parameter in model.named_parameters()}
            self._tensors[model] = {**parameters, **dict(model.named_buffers())}
        return self._tensors[model]

    def frozen(self, role: str, params: Params) -> torch.nn.Module:
        """Another model with this state, in evaluation mode, to compare with; one per role, reused."""
        if role not in self._frozen:
            self._frozen[role] = self._new().eval()
        self._fill(self._frozen[role], params)
        return self._frozen[role]

    def predictions(self, data: ClientData) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Logits and labels, batch by batch and on the CPU, in evaluation mode and without gradients."""
        self.module.eval()
        samples = torch.split(data.x.to(self.device), EVALUATION_BATCH)
        for x, y in zip(samples, torch.split(data.y, EVALUATION_BATCH), strict=True):
            with torch.inference_mode():
                logits = self.module(self.inputs.for_model(self.inputs.standardize(x)))
            yield logits if self.device.type == "cpu" else logits.cpu(), y

    def gradients(self, objective: Objective, x: torch.Tensor, y: torch.Tensor, given: Given) -> "Gradients":
        """How an objective is differentiated; ``x``, ``y`` and ``given`` are any batch."""
        key = objective, frozenset(given)
        if key not in self._gradients:
            self._gradients[key] = Gradients(
                self.module,
                self.layout,
                objective,
                x,
                y,
                given,
                compiled=self._compiled is True,
                precision=self._precision,
            )
        return self._gradients[key]


def _is_channels_last(model: torch.nn.Module) -> bool:
    """Whether no part of it minds, and nothing has five axes, for which there is another order."""
    minds = any(getattr(module, "channels_last", True) is False for module in model.modules())
    return not minds and all(parameter.dim() < 5 for parameter in model.parameters())


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
        precision: Precision = "float32",
    ) -> None:
        self._model, self._objective, self._loss = model, objective, objective.loss
        if precision == "bf16":
            self._loss = torch.autocast(x.device.type, torch.bfloat16)(objective.loss)
        self._one = torch.ones((), device=x.device)
        named = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
        model.eval()  # a trial run, to see which parameters matter; it must leave no trace
        with no_trace(x.device):
            loss = self._loss(model, x, y, given).sum()
            trial = torch.autograd.grad(loss, list(named.values()), allow_unused=True)
        model.train()
        used = [name for (name, _), gradient in zip(named.items(), trial, strict=True) if gradient is not None]
        self.used, self._inputs = used, tuple(named[name] for name in used)
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

                self._compiled[x.shape] = compile_gradients(self._model, self._objective, self.used, x, y, given)
            return self._compiled[x.shape](x, y, given)
        loss = self._loss(self._model, x, y, given)
        return loss.detach(), self._differentiate(loss.sum() if loss.ndim else loss)

    def _differentiate(self, loss: torch.Tensor) -> Tensors:
        """What :func:`torch.autograd.grad` returns; its checks take 5 % of a small network's step."""
        return list(_backward((loss,), (self._one,), False, False, self._inputs, False, accumulate_grad=False))

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
            flat[place] = tensor.reshape(-1).cpu().numpy()
        return flat
