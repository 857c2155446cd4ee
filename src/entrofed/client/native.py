"""The convolutional blocks of small networks in C++, compiled for this machine (``engine.compile = "native"``).

Torch's kernels want channels by the dozen; LeNet-5 has 3, 6 and 16, and gets a quarter of what a processor can do.
``native.cpp`` puts samples side by side instead and gets nearly all of it, and leaves out three quarters of the
products of a weight's gradient, which max pooling makes zero. It knows one kind of block: convolution (stride 1, no
padding), 2x2 max pooling, ReLU. The leading blocks of an encoder are replaced, and the augmentation of colour images
(``native_augment.py``); what comes after them, the objective and the optimizer stay torch's. Parameters, their names
and their order stay what they are, and results agree with torch's within rounding.

Libraries lie in ``entrofed/native`` of the user's cache, named by all that decides on their content.
"""

import ctypes
import os
import platform
import shlex
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import nn

from entrofed.errors import ConfigError, EntrofedError
from entrofed.files import cache_folder, write_whole

SOURCE = Path(__file__).with_name("native.cpp")
FLAGS = ("-O3", "-march=native", "-std=c++17", "-shared", "-fPIC")
MOST_WEIGHTS = 1 << 15
"""Of one convolution: its sums are kept beside each other, and larger ones are torch's business."""


@dataclass(frozen=True)
class Block:
    """Sizes of a block: what comes in, channels that go out, side of the kernel."""

    channels: int
    height: int
    width: int
    outputs: int
    kernel: int

    @property
    def pooled(self) -> tuple[int, int]:
        """Height and width of what goes out."""
        return (self.height - self.kernel + 1) // 2, (self.width - self.kernel + 1) // 2

    @property
    def size(self) -> int:
        """Values of a sample that go out."""
        return self.outputs * self.pooled[0] * self.pooled[1]


def replace_blocks(model: nn.Module, shape: tuple[int, ...]) -> None:
    """Let compiled code compute the leading blocks of the model's encoders, for images [channels, height, width].

    A ConfigError if no encoder begins with such a block.
    """
    encoders = [module for module in model.modules() if isinstance(module, nn.Sequential)]
    if not sum(_replace(encoder, shape) for encoder in encoders):
        raise ConfigError(
            "engine.compile = 'native' is for images, and for networks with a Sequential that begins with blocks of a "
            "convolution without padding, 2x2 max pooling and ReLU, and a Flatten, such as 'lenet5'; choose "
            "engine.compile = true for others"
        )


def _replace(encoder: nn.Sequential, shape: tuple[int, ...]) -> bool:
    """Do so for one of them, if it fits; whether it does."""
    layers, blocks, convolutions, inside = list(encoder), [], [], shape
    while block := _block(layers[:3], inside):
        blocks.append(block)
        convolutions.append(layers[0])
        layers, inside = layers[3:], (block.outputs, *block.pooled)
    if not blocks or not layers or type(layers[0]) is not nn.Flatten:
        return False
    rest, compiled, size = nn.Sequential(*layers[1:]), _Compiled(blocks), blocks[-1].size
    plain: Callable[[torch.Tensor], torch.Tensor] = encoder.forward

    def forward(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1:] != shape:
            return plain(x)
        parameters = [p for convolution in convolutions for p in (convolution.weight, convolution.bias)]
        features = _Blocks.apply(compiled, size, x, *parameters)  # type: ignore[no-untyped-call]
        return rest(features)  # type: ignore[no-any-return]

    vars(encoder)["forward"] = forward
    return True


def _block(layers: list[nn.Module], shape: tuple[int, ...]) -> Block | None:
    """The block that these layers are, if they are one."""
    if [type(layer) for layer in layers] != [nn.Conv2d, nn.MaxPool2d, nn.ReLU] or len(shape) != 3:
        return None
    convolution, pool, _ = layers
    assert isinstance(convolution, nn.Conv2d)  # noqa: S101
    block = Block(*shape, convolution.out_channels, convolution.kernel_size[0])
    plain = nn.Conv2d(block.channels, block.outputs, block.kernel)
    fits = all(
        getattr(convolution, name) == getattr(plain, name)
        for name in ("in_channels", "kernel_size", "stride", "padding", "dilation", "groups")
    )
    fits &= convolution.bias is not None and convolution.weight.numel() <= MOST_WEIGHTS and min(block.pooled) > 0
    return block if fits and str(pool) == str(nn.MaxPool2d(2)) else None


class _Blocks(torch.autograd.Function):
    """Blocks one after the other: images [samples, channels, height, width] to features [samples, size]."""

    @staticmethod
    def forward(ctx: Any, compiled: "_Compiled", size: int, x: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        samples = len(x)
        groups = -(-samples // compiled.lanes)
        x = x.permute(0, 2, 3, 1).contiguous()
        features = torch.empty(samples, size)
        images = torch.empty(groups * compiled.images + compiled.lanes)
        images[-compiled.lanes :] = 0
        places = torch.empty(groups, compiled.places, compiled.lanes, dtype=torch.int32)
        parameters = tuple(parameter.detach().contiguous() for parameter in parameters)
        compiled.forward(samples, _of(x), _all(parameters), _of(features), size, _of(images), _of(places))
        ctx.save_for_backward(x, images, places, *parameters)
        ctx.compiled = compiled
        return features

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        x, images, places, *parameters = ctx.saved_tensors
        slope, gradients = slopes[0].contiguous(), [torch.empty_like(parameter) for parameter in parameters]
        size, given, found = slope.shape[1], _all(parameters), _all(gradients)
        ctx.compiled.backward(len(x), _of(x), given, _of(slope), size, _of(images), _of(places), found)
        return None, None, None, *gradients


def _of(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _all(tensors: Sequence[torch.Tensor]) -> Any:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))


class _Compiled:
    """The compiled code of blocks, and what a group of samples leaves for the way back."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        words = (f"Block<{b.channels},{b.height},{b.width},{b.outputs},{b.kernel}>" for b in blocks)
        code = library(SOURCE, BLOCKS=",".join(words))
        self.lanes, self.places, self.images = code.lanes(), code.places(), code.images()
        self.forward, self.backward = code.forward, code.backward


@cache
def library(source: Path, **constants: int | str) -> ctypes.CDLL:
    """The compiled code of a file, with these constants."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    call = [*compiler, *FLAGS, *(f"-D{name}={value}" for name, value in constants.items())]
    asked = [source.read_text(), *call, _run([*compiler, "-march=native", "-Q", "--help=target"]), platform.machine()]
    folder = cache_folder() / "native"
    path = folder / f"{sha256(chr(0).join(asked).encode()).hexdigest()}.so"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with tempfile.TemporaryDirectory() as aside:
            built = Path(aside) / "built.so"
            _run([*call, str(source), "-o", str(built)])
            write_whole(path, built.read_bytes())
    return ctypes.CDLL(str(path))


def _run(call: list[str]) -> str:
    done = subprocess.run(call, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise EntrofedError(f"engine.compile = 'native': {call[0]} failed: {done.stderr.strip()[-500:]}")
    return done.stdout
