"""What kind of samples arrays hold, and how they are stored."""

from collections.abc import Mapping
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Kind, Samples
from entrofed.errors import DataError, unknown

CHANNELS = (1, 3, 4)
"""Lengths of an axis that is taken for the channels of an image: gray, colour, colour and opacity."""
TRAINING, TEST, VALIDATION = "the training part", "the test part", "the validation part"


def stored(parts: Mapping[str, NDArray[Any]], kind: str | None) -> tuple[Kind, dict[str, Samples], float]:
    """The kind of the samples, each part as it is stored, and the greatest value that a pixel can have."""
    if kind is not None and kind not in get_args(Kind):
        raise unknown("kind", kind, get_args(Kind))
    train = parts[TRAINING]
    if train.ndim == 1:
        raise DataError(f"{TRAINING}, x: a single number per sample; give a table of one column, x.reshape(-1, 1)")
    if not train[0].size:
        raise DataError(f"{TRAINING}, x: samples of shape {train.shape[1:]} hold nothing")
    for part, x in parts.items():
        if x.shape[1:] != train.shape[1:]:
            raise DataError(
                f"samples of {part} have shape {x.shape[1:]}, those of {TRAINING} {train.shape[1:]}; they must agree"
            )
    kind = kind or _guess(train)
    if kind == "image":
        return "image", *_images(parts)
    if kind == "text":
        return "text", {part: _tokens(x, part) for part, x in parts.items()}, 1.0
    if kind == "table":
        if train.ndim != 2:
            raise DataError(f"a table has a row of features per sample, found samples of shape {train.shape[1:]}")
        return "table", {part: _floats(x, part) for part, x in parts.items()}, 1.0
    whole = train.dtype.kind in "iu"
    return (
        "tensor",
        {part: _as(x, np.int64) if whole else _floats(x, part) for part, x in parts.items()},
        1.0,
    )


def _guess(x: NDArray[Any]) -> Kind:
    if x.ndim == 2:
        return "table"
    pixels = x.min() >= 0 and x.max() <= 255
    if pixels and (x.ndim == 3 or (x.ndim == 4 and min(x.shape[1], x.shape[3]) in CHANNELS)):
        return "image"
    return "tensor"


def _images(parts: Mapping[str, NDArray[Any]]) -> tuple[dict[str, Samples], float]:
    """Pixels as ``[n, channels, height, width]``: bytes if they are, or could be; else in 0..1 or 0..255."""
    train = parts[TRAINING]
    if train.ndim not in (3, 4):
        raise DataError(f"an image has two or three dimensions, found samples of shape {train.shape[1:]}")
    most = {part: float(x.max()) for part, x in parts.items()}
    for part, x in parts.items():
        if x.min() < 0 or most[part] > 255:
            raise DataError(
                f"{part}, x: pixels lie in 0..1 or in 0..255, found {x.min():g} to {most[part]:g}; for samples "
                "that are to be left as they are say kind='tensor'"
            )
    full_scale = 255.0 if train.dtype == np.uint8 or most[TRAINING] > 1 else 1.0
    for part in parts:
        if most[part] > full_scale:
            raise DataError(f"pixels of {TRAINING} lie in 0..1, those of {part} reach {most[part]:g}; scale both alike")
    last = train.ndim == 4 and train.shape[3] < train.shape[1]
    whole = full_scale > 1 and all(x.dtype.kind != "f" or (x == np.round(x)).all() for x in parts.values())
    found: dict[str, Samples] = {}
    for part, x in parts.items():
        upright = x[:, None] if x.ndim == 3 else np.moveaxis(x, 3, 1) if last else x
        found[part] = np.ascontiguousarray(_as(upright, np.uint8 if whole else np.float32))
    return found, full_scale


def _tokens(x: NDArray[Any], part: str) -> Samples:
    if x.ndim != 2 or x.dtype.kind not in "iu" or x.min() < 0:
        raise DataError(
            f"{part}, x: text is a row of token numbers per sample, whole and from 0 on, all rows of one length; found "
            f"{x.dtype} of shape {x.shape}" + (f" with {x.min()}" if x.min() < 0 else "")
        )
    tokens: Samples = _as(x, np.uint8 if x.max() < 256 else np.int64)
    return tokens


def _as(x: NDArray[Any], dtype: type[Any]) -> Any:
    """A copy of that type; the array itself if it is of that type and nobody can change it, as one mapped from disk."""
    return x if x.dtype == dtype and not x.flags.writeable else x.astype(dtype)


def _floats(x: NDArray[Any], part: str) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):
        found: NDArray[np.float32] = _as(x, np.float32)
    if found is x:
        return found  # that it is finite was seen when it was read
    if not np.isfinite(found).all():
        raise DataError(f"{part}, x: {np.abs(x).max():g} is too large for 32-bit numbers; scale the feature")
    return found
