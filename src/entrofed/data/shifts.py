"""Feature shift: clients with the same labels whose samples look different.

Labels are dealt at random, and the samples of each client are changed once, when they are dealt: those it trains on
and its local test set alike. The server's test and validation sets stay as they are.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset, Samples
from entrofed.data.partition import Indices, Random, iid, require_positive
from entrofed.errors import ConfigError

Streams = Callable[[int], np.random.Generator]

QUARTERS = (0.0, 90.0, 180.0, 270.0)


@dataclass(frozen=True)
class FeatureShift:
    """By how much the samples of each client were changed."""

    what: str
    amounts: tuple[float, ...]


def feature_noise(labels: Indices, clients: int, rng: Random, *, sigma: float) -> Sequence[Indices]:
    """`iid`, and Gaussian noise of variance sigma k / K for the samples of the k-th of K clients, k = 1..K.

    Noise is in units of pixels in 0..1 for images (and not clipped), of each feature's standard deviation for tables.
    Reference: Li et al., Federated learning on non-IID data silos (ICDE 2022), "noise-based feature imbalance".
    Differs from their script, where it is the standard deviation that grows evenly, from 0 on.
    """
    require_positive("sigma", sigma)
    return iid(labels, clients, rng)


def rotation(labels: Indices, clients: int, rng: Random, *, angles: Sequence[float] = QUARTERS) -> Sequence[Indices]:
    """`iid`, and images of client k turned counterclockwise by the angle (in degrees) number k mod len(angles).

    Quarter turns only move pixels; other angles interpolate between pixels, and corners that come in are 0.
    """
    if not angles or not all(isfinite(angle) for angle in angles):
        raise ConfigError(f"angles must be one or more numbers of degrees, not {angles}")
    return iid(labels, clients, rng)


def _noisy(data: Dataset, shards: Sequence[Indices], streams: Streams, *, sigma: float) -> tuple[Samples, FeatureShift]:
    x = data.train_x
    if data.kind == "text" or x.dtype == np.int64:
        raise ConfigError(f"partition 'feature_noise' is for images and numbers; {data.name!r} holds whole numbers")
    unit = data.full_scale if data.kind == "image" else x.std(0, dtype=np.float64) if data.kind == "table" else 1.0
    changed = x.astype(np.float32)
    variances = tuple(sigma * (k + 1) / len(shards) for k in range(len(shards)))
    for k, (rows, variance) in enumerate(zip(shards, variances, strict=True)):
        noise = streams(k).normal(size=changed[rows].shape)
        changed[rows] += (noise * (np.sqrt(variance) * unit)).astype(np.float32)
    return changed, FeatureShift("Variance of the noise", variances)


def _turned(
    data: Dataset, shards: Sequence[Indices], _: Streams, *, angles: Sequence[float] = QUARTERS
) -> tuple[Samples, FeatureShift]:
    if data.kind != "image":
        raise ConfigError(f"partition 'rotation' is for images; {data.name!r} holds none")
    height, width = data.train_x.shape[2:]
    if height != width and any(angle % 180 for angle in angles):
        raise ConfigError(f"partition 'rotation' by these angles needs square images, not {height}x{width}: {angles}")
    changed = data.train_x.copy()
    turns = tuple(float(angles[k % len(angles)]) for k in range(len(shards)))
    for rows, angle in zip(shards, turns, strict=True):
        if len(rows):
            changed[rows] = _rotated(changed[rows], angle)
    return changed, FeatureShift("Rotation (degrees)", turns)


def _rotated(x: Samples, angle: float) -> Samples:
    if angle % 90 == 0:
        return np.rot90(x, int(angle // 90), axes=(2, 3))
    from scipy.ndimage import rotate

    turned: NDArray[np.float32] = rotate(x.astype(np.float32), angle, axes=(3, 2), reshape=False, order=1)
    return turned.round().clip(0, 255).astype(np.uint8) if x.dtype == np.uint8 else turned


SHIFTS: Mapping[str, Callable[..., tuple[Samples, FeatureShift]]] = {"feature_noise": _noisy, "rotation": _turned}
"""What a partition does to the training samples, by the name of the partition."""


def shifted(
    data: Dataset, partition: object, shards: Sequence[Indices], options: Mapping[str, Any], streams: Streams
) -> tuple[Samples, FeatureShift | None]:
    """The training samples as the clients of a partition see them; ``streams`` has a generator for each client."""
    if not isinstance(partition, str) or partition not in SHIFTS:
        return data.train_x, None
    return SHIFTS[partition](data, shards, streams, **options)
