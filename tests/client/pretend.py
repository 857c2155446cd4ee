"""A device that is not there: every tensor on it is known, and none is computed.

Every operation of torch is looked at. One that gets tensors of both devices, be it a single number, fails; only what
moves tensors from one to the other may. What comes back from the pretended device is zero.

``cuda`` is pretended by fake tensors (:class:`torch._subclasses.FakeTensorMode`). A torch that was built without CUDA
ends the process as soon as it differentiates those, so that their gradients are zeros, which nobody computed. ``meta``
is torch's own device without memory, on which it differentiates.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

aten = torch.ops.aten


class MixedDevicesError(AssertionError):
    """An operation got tensors of two devices."""


class Pretended(TorchDispatchMode):
    """While it is on, tensors of ``device`` can be worked with; ``seen`` says by which operations they were."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.device, self.fakes = torch.device(device), FakeTensorMode()
        self.seen: list[str] = []
        self.moved: list[torch.Tensor] = []
        """What was sent to the device."""

    def there(self, tensor: torch.Tensor) -> bool:
        return isinstance(tensor, FakeTensor) or tensor.is_meta

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.overloadpacket in (aten._to_copy, aten.to):
            return self._to(func, args, kwargs)
        if func is aten.copy_.default:
            return self._copy(*args)
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        places = {self.there(tensor) for tensor in tensors} or {kwargs.get("device") == self.device}
        if len(places) > 1:
            raise MixedDevicesError(f"{func} on {', '.join(f'{t.device} {tuple(t.shape)}' for t in tensors)}")
        if places == {False}:
            return func(*args, **kwargs)
        self.seen.append(func.name())
        if func.overloadpacket in (aten._local_scalar_dense, aten.item):  # a number that is read
            return 0
        if func is aten._fused_sgd_.default:  # it has neither a fake form nor one for meta tensors
            return None
        return self._away(func, args, kwargs)

    def _away(self, func: Any, args: Any, kwargs: Any) -> Any:
        if self.device.type == "meta":
            return func(*args, **kwargs)
        with self.fakes:
            return func(*args, **kwargs)

    def _to(self, func: Any, args: Any, kwargs: dict[str, Any]) -> torch.Tensor:
        tensor, target = args[0], kwargs.get("device") or args[0].device
        if self.there(tensor) and target.type == "cpu":
            return torch.zeros(tensor.shape, dtype=kwargs.get("dtype") or tensor.dtype)
        if target != self.device:
            return func(*args, **kwargs)  # type: ignore[no-any-return]
        if not self.there(tensor):
            self.moved.append(tensor)
            tensor = tensor if self.device.type == "meta" else self.fakes.from_tensor(tensor)
        return self._away(func, (tensor, *args[1:]), kwargs)  # type: ignore[no-any-return]

    def _copy(self, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
        assert torch.broadcast_shapes(target.shape, source.shape) == target.shape
        if self.there(target):
            if not self.there(source):
                self.moved.append(source)
            return target
        return target.zero_() if self.there(source) else aten.copy_.default(target, source)


def _zeros(*asked: Any, inputs: int, **_: Any) -> list[torch.Tensor]:
    """Gradients that nobody computed."""
    return [torch.zeros_like(tensor) for tensor in asked[inputs]]


@contextmanager
def _no_driver() -> Iterator[None]:
    """Torch looks for a driver before it looks at tensors; let it find one that does nothing, that of ``meta``.

    Where torch was built with CUDA, and there is none, it does so itself.
    """
    if not hasattr(torch._C, "_ensureCUDADeviceGuardSet"):
        pytest.skip(f"torch {torch.__version__} cannot pretend CUDA")
    torch._C._ensureCUDADeviceGuardSet()
    if torch.backends.cuda.is_built():
        yield
        return
    library = ctypes.CDLL(str(next(Path(torch.__file__).parent.glob("lib/*c10.*"))))
    drivers = (ctypes.c_void_p * 21).in_dll(library, "_ZN3c104impl26device_guard_impl_registryE")
    drivers[1] = drivers[14]  # the numbers of cuda and meta in c10::DeviceType
    try:
        yield
    finally:
        drivers[1] = None


@contextmanager
def pretending(device: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pretended]:
    """Within the block, ``cuda:0`` or ``meta`` can be worked on; the generator of ``cuda:0`` is one of the CPU's."""
    pretended = Pretended(device)
    if device == "meta":
        with torch.random.fork_rng(devices=[]), pretended:
            yield pretended
        return
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "default_generators", (torch.Generator(),))
    monkeypatch.setattr(torch.autograd, "grad", partial(_zeros, inputs=1))
    monkeypatch.setattr("entrofed.client.model._backward", partial(_zeros, inputs=4))
    before = torch._C._only_lift_cpu_tensors()
    torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(1, device="cuda") is made here and then moved
    try:
        with torch.no_grad(), _no_driver(), pretended:
            yield pretended
    finally:
        torch._C._set_only_lift_cpu_tensors(before)
