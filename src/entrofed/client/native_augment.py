"""Jitter, flip and gray of colour images in one pass of compiled code: a fifth of the time of the tensor operations.

What is drawn, and in which order, is what :mod:`entrofed.client.augment` draws; values agree within rounding.
"""

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.client.augment import Augmented, draw_flip, draw_gray, draw_jitter
from entrofed.client.native import library
from entrofed.core.params import Floats

SOURCE = Path(__file__).with_name("native_augment.cpp")


def fused(
    names: tuple[str, ...], shape: tuple[int, ...], shift: Floats | None, scale: Floats | None
) -> Augmented | None:
    """These changes of images [channels, height, width] in one pass, and ``(x - shift) / scale``.

    None where that is not possible: a crop, gray before jitter, images that are not coloured.
    """
    gray_first = "gray" in names and "jitter" in names[names.index("gray") :]
    if len(set(names)) < len(names) or not set(names) <= {"jitter", "flip", "gray"} or gray_first:
        return None
    if shift is None or scale is None or shape[:1] != (3,):
        return None
    _, height, width = shape
    code = library(SOURCE, H=height, W=width)
    moments = [np.ascontiguousarray(values, np.float32) for values in (shift, scale)]

    def augmented(x: torch.Tensor, chosen: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
        n = len(chosen)
        matrices, levels = np.tile(np.eye(3, dtype=np.float32), (n, 1, 1)), np.zeros(n, np.float32)
        gray = flip = np.zeros(n, np.bool_)
        for name in names:
            if name == "jitter":
                matrices, levels = (np.ascontiguousarray(drawn, np.float32) for drawn in draw_jitter(rng, n))
            elif name == "flip":
                flip = draw_flip(rng, n)
            else:
                gray = draw_gray(rng, n)
        x, rows = x.contiguous(), chosen.numpy().astype(np.int64, copy=False)
        batch = torch.empty(n, height, width, 3)
        arrays: tuple[NDArray[Any], ...] = (rows, matrices, levels, gray, flip, *moments)
        pointers = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        code.augment(n, ctypes.c_void_p(x.data_ptr()), *pointers, ctypes.c_void_p(batch.data_ptr()))
        return batch

    return augmented
