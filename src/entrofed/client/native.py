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
from collections.abc import Callable
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
    rest, libraries = nn.Sequential(*layers[1:]), [_library(block) for block in blocks]
    plain: Callable[[torch.Tensor], torch.Tensor] = encoder.forward

    def forward(x: torch.Tensor) -> torch.Tensor:
        if x.shape[1:] != shape:
            return plain(x)
        parameters = [p for convolution in convolutions for p in (convolution.weight, convolution.bias)]
        features = _Blocks.apply(blocks, libraries, x, *parameters)  # type: ignore[no-untyped-call]
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
    def forward(
        ctx: Any, blocks: list[Block], libraries: list[ctypes.CDLL], x: torch.Tensor, *parameters: torch.Tensor
    ) -> torch.Tensor:
        samples, lanes = len(x), libraries[0].lanes()
        batches = -(-samples // lanes)
        image = _image(samples, x[0].numel(), lanes)
        image[:-lanes].view(samples, *x.shape[2:], x.shape[1]).copy_(x.permute(0, 2, 3, 1))
        value = torch.empty(batches, *x.shape[1:], lanes)
        libraries[0].pack(samples, x.shape[1], x[0, 0].numel(), _of(image), _of(value))
        parameters = tuple(parameter.detach().contiguous() for parameter in parameters)
        images, places = [image], []
        for block, library, weight, bias in zip(blocks, libraries, parameters[::2], parameters[1::2], strict=True):
            below, value = value, torch.empty(batches, block.outputs, *block.pooled, lanes)
            place = torch.empty(value.shape, dtype=torch.int32)
            library.forward(batches, _of(below), _of(weight), _of(bias), _of(value), _of(place))
            images.append(_image(samples, block.size, lanes))
            channels = 1 if block is blocks[-1] else block.outputs  # features are in the order of Flatten
            library.unpack(samples, channels, block.size // channels, _of(value), _of(images[-1]))
            places.append(place)
        ctx.save_for_backward(*parameters, *images[:-1], *places)
        ctx.blocks, ctx.libraries = blocks, libraries
        return images[-1][:-lanes].view(samples, -1)

    @staticmethod
    def backward(ctx: Any, *slopes: torch.Tensor) -> Any:
        blocks, libraries = ctx.blocks, ctx.libraries
        parameters, kept = ctx.saved_tensors[: 2 * len(blocks)], ctx.saved_tensors[2 * len(blocks) :]
        images, places = kept[: len(blocks)], kept[len(blocks) :]
        flat, slope = slopes[0].contiguous(), torch.empty(places[-1].shape)
        libraries[0].pack(len(flat), 1, blocks[-1].size, _of(flat), _of(slope))
        gradients: list[torch.Tensor] = []
        for k in reversed(range(len(blocks))):
            weight, bias = (torch.empty_like(p) for p in parameters[2 * k : 2 * k + 2])
            below = torch.empty(places[k - 1].shape) if k else None
            pointers = map(_of, (images[k], parameters[2 * k], places[k], slope, weight, bias))
            libraries[k].backward(len(flat), *pointers, None if below is None else _of(below))
            gradients = [weight, bias, *gradients]
            slope = below if below is not None else slope
        return None, None, None, *gradients


def _image(samples: int, size: int, more: int) -> torch.Tensor:
    """Room for images one after the other, and for what is read beyond the last one."""
    room = torch.empty(samples * size + more)
    room[-more:] = 0
    return room


def _of(tensor: torch.Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


def _library(block: Block) -> ctypes.CDLL:
    return library(SOURCE, C=block.channels, H=block.height, W=block.width, O=block.outputs, K=block.kernel)


@cache
def library(source: Path, **sizes: int) -> ctypes.CDLL:
    """The compiled code of a file for these sizes, which are constants to it."""
    compiler = shlex.split(os.environ.get("CXX", "g++"))
    call = [*compiler, *FLAGS, *(f"-D{name}={size}" for name, size in sizes.items())]
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
