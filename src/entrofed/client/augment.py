"""Random changes to image batches, as batched tensor operations on values in 0..1, channels last.

Each is drawn from the client's own stream, once per sample. Names as they stand in experiment files:
``flip`` (horizontal, probability 1/2), ``crop`` (shift by up to 4 pixels over a black border), ``jitter``
(brightness, contrast, saturation and hue, strength 0.2 each), ``gray`` (probability 0.1).

Jitter and gray are affine maps of a pixel's colour, so that all of them together cost one small matrix
product a pixel. Values are clipped to 0..1 once, at the end, and hue turns in the YIQ plane.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

Augment = Callable[[torch.Tensor, np.random.Generator], torch.Tensor]
Augmented = Callable[[torch.Tensor, torch.Tensor, np.random.Generator], torch.Tensor]
"""From all samples of a client and the numbers of some to these, changed and standardized."""

STRENGTH = 0.2
GRAY_SHARE = 0.1
BORDER = 4
TOGETHER = 4
"""Pixels that one matrix changes: products of 3 x 3 matrices are slow, and of 12 x 12 with zeros four times as fast."""
LUMA = np.array([0.299, 0.587, 0.114])
_YIQ = np.array([LUMA, [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])
_RGB = np.linalg.inv(_YIQ)


def _change(x: torch.Tensor, which: NDArray[np.bool_], change: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
    """A copy of the images with some of them changed."""
    chosen = torch.from_numpy(which.nonzero()[0]).to(x.device)
    changed = x.clone()
    changed[chosen] = change(x[chosen])
    return changed


def _tensor(values: NDArray[np.float64], x: torch.Tensor) -> torch.Tensor:
    """Values as float32, where the images are."""
    return torch.from_numpy(values.astype(np.float32)).to(x.device)


def draw_flip(rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
    """Which of ``n`` images are mirrored."""
    return rng.random(n) < 0.5


def flip(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Mirror each image left to right with probability 1/2."""
    return _change(x, draw_flip(rng, len(x)), lambda chosen: chosen.flip(2))


def crop(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Shift each image by -4..4 pixels in both directions; what comes in from outside is 0."""
    n, height, width, _ = x.shape
    padded = torch.nn.functional.pad(x, (0, 0, BORDER, BORDER, BORDER, BORDER))
    offset = torch.from_numpy(rng.integers(0, 2 * BORDER + 1, size=(2, n))).to(x.device)
    samples, down, right = (torch.arange(length, device=x.device) for length in (n, height, width))
    rows = (offset[0][:, None] + down)[:, :, None]
    columns = (offset[1][:, None] + right)[:, None, :]
    return padded[samples[:, None, None], rows, columns]


def _blend(share: NDArray[np.float64], matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """``share * identity + (1 - share) * matrix`` for each sample."""
    share = share[:, None, None]
    return share * np.eye(3) + (1 - share) * matrix


def draw_jitter(rng: np.random.Generator, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What becomes of the colours of ``n`` images: ``matrix @ colour + level * luma of the image's mean``."""
    brightness, contrast, saturation = rng.uniform(1 - STRENGTH, 1 + STRENGTH, size=(3, n))
    angle = 2 * np.pi * rng.uniform(-STRENGTH, STRENGTH, size=n)
    turn = np.zeros((n, 3, 3))
    turn[:, 0, 0] = 1
    turn[:, 1, 1] = turn[:, 2, 2] = np.cos(angle)
    turn[:, 1, 2], turn[:, 2, 1] = -np.sin(angle), np.sin(angle)
    hue = _RGB @ turn @ _YIQ
    colour = hue @ _blend(saturation, np.tile(LUMA, (3, 1))) * brightness[:, None, None]
    return colour * contrast[:, None, None], (1 - contrast) * brightness


def jitter(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Change brightness, contrast, saturation and hue of colour images, each by up to the strength 0.2."""
    n = len(x)
    matrices, levels = draw_jitter(rng, n)
    matrix = _tensor(matrices, x).transpose(1, 2)
    level = (x.mean(dim=(1, 2)) @ _tensor(LUMA, x)) * _tensor(levels, x)
    together = TOGETHER if x[0].numel() % (3 * TOGETHER) == 0 else 1
    blocks = x.new_zeros(n, together, 3, together, 3)
    for i in range(together):
        blocks[:, i, :, i] = matrix
    width = 3 * together
    pixels = torch.baddbmm(level[:, None, None], x.reshape(n, -1, width), blocks.view(n, width, width))
    return pixels.clamp_(0, 1).view(x.shape)


def draw_gray(rng: np.random.Generator, n: int) -> NDArray[np.bool_]:
    """Which of ``n`` images lose their colour."""
    return rng.random(n) < GRAY_SHARE


def gray(x: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Take the colour out of an image with probability 0.1."""
    luma = _tensor(LUMA, x)
    return _change(x, draw_gray(rng, len(x)), lambda chosen: (chosen @ luma)[..., None])


AUGMENTS: dict[str, Augment] = {"flip": flip, "crop": crop, "jitter": jitter, "gray": gray}
NEED_COLOUR = frozenset({"jitter", "gray"})
