"""What every dataset looks like once it is read."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError, unknown

Kind = Literal["image", "table", "text", "tensor"]
Scaling = Literal["standard", "minmax", "half", "unit"]
Samples = NDArray[np.uint8] | NDArray[np.float32] | NDArray[np.int64]

PIECE = 1 << 16
"""Rows of a table that are converted at a time."""
CELLS = 1 << 16
"""Values of a table whose moments are computed at a time."""
SCALINGS: tuple[str, ...] = get_args(Scaling)
_UNFIT = {
    ("half", "table"): "images, whose values lie in 0..1; {} is a table",
    ("minmax", "image"): "tables; {} holds images, whose values lie in 0..1 already",
}


@dataclass(frozen=True)
class Dataset:
    """Samples and labels in memory, split as the dataset's authors (or a paper) split them.

    Inputs keep their compact stored form: images ``uint8`` or ``float32 [n, channels, height, width]``, tables
    ``float32 [n, features]``, text ``uint8`` or ``int64 [n, length]`` token numbers, and tensors ``float32`` or
    ``int64`` of any shape, which a model gets as they are. Labels are ``int64`` in ``0..len(classes)-1``. ``valid_*``
    is a validation set that belongs to the server, where there is one. ``roles`` names the natural owner of each
    training sample (a hospital, the speaking role of a play), if there is one. ``full_scale`` is the greatest value a
    pixel can have; images are divided by it before anything else. ``preprocessing`` says how columns became features,
    as JSON can.
    """

    name: str
    kind: Kind
    train_x: Samples
    train_y: NDArray[np.int64]
    test_x: Samples
    test_y: NDArray[np.int64]
    classes: tuple[str, ...]
    valid_x: Samples | None = None
    valid_y: NDArray[np.int64] | None = None
    roles: NDArray[np.int64] | None = None
    role_names: tuple[str, ...] = ()
    full_scale: float = 255.0
    preprocessing: Mapping[str, Any] = field(default_factory=dict)

    @property
    def validation_size(self) -> int:
        """Samples of the validation set; 0 if there is none."""
        return 0 if self.valid_y is None else len(self.valid_y)

    @property
    def vocabulary(self) -> int:
        """Token numbers of a text, counted from 0 to the greatest that occurs in any part."""
        parts = (self.train_x, self.test_x, self.valid_x)
        return 1 + max(int(x.max(initial=0)) for x in parts if x is not None)

    def set_aside(self, share: float, rng: np.random.Generator) -> "Dataset":
        """The same data with a random share of the training part as the server's validation set."""
        if self.valid_y is not None:
            raise ConfigError(
                f"data.validation = {share}: {self.name!r} has a validation set of its own, "
                f"{self.validation_size} samples; leave the key out"
            )
        order = rng.permutation(len(self.train_y))
        size = round(share * len(order))
        if not 0 < size < len(order):
            raise ConfigError(f"data.validation = {share} is {size} of {len(order)} training samples; change the share")
        valid, train = np.sort(order[:size]), np.sort(order[size:])
        return replace(
            self,
            train_x=self.train_x[train],
            train_y=self.train_y[train],
            valid_x=self.train_x[valid],
            valid_y=self.train_y[valid],
            roles=None if self.roles is None else self.roles[train],
        )


def scaling(dataset: Dataset, how: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Shift and scale, per channel or feature, such that ``x' = (x - shift) / scale``.

    Images are meant after division by ``full_scale``. ``standard`` is the mean and the (population) standard
    deviation of the training part; ``minmax`` is its least value and its range, for tables only; a feature that never
    changes keeps scale 1. ``half`` is (x - 0.5) / 0.5, for images only; ``unit`` leaves x as it is. Text and tensors
    are never scaled: they get 0 and 1, whatever ``how``.

    >>> table = np.array([[1, 7], [3, 7]], np.float32)
    >>> y = np.array([0, 1])
    >>> scaling(Dataset("tiny", "table", table, y, table, y, ("a", "b")), "standard")
    (array([2., 7.], dtype=float32), array([1., 1.], dtype=float32))
    """
    if how not in SCALINGS:
        raise unknown("scaling", how, SCALINGS)
    if (how, dataset.kind) in _UNFIT:
        why = _UNFIT[how, dataset.kind].format(dataset.name)
        raise ConfigError(f"scaling {how!r} is for {why}. Choose another of {', '.join(SCALINGS)}.")
    x, scaled = dataset.train_x, dataset.kind in ("image", "table")
    width = x.shape[1] if scaled else 1
    if how == "unit" or not scaled:
        return np.zeros(width, np.float32), np.ones(width, np.float32)
    if how == "half":
        return np.full(width, 0.5, np.float32), np.full(width, 0.5, np.float32)
    if how == "minmax":
        least = x.min(0).astype(np.float64)
        return _shift_and_scale(least, x.max(0) - least)
    if dataset.kind == "image":
        return _shift_and_scale(*(_pixel_statistics(dataset) if x.dtype == np.uint8 else _value_statistics(dataset)))
    return _shift_and_scale(*_column_statistics(x))


def _shift_and_scale(
    shift: NDArray[np.float64], scale: NDArray[np.float64]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    return shift.astype(np.float32), np.where(scale == 0, 1.0, scale).astype(np.float32)


def _column_statistics(x: Samples) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column of a table, without a copy of all of it."""
    mean = _column_sums(x, 0.0, 1) / len(x)
    squares = sum(_column_sums(x[start : start + PIECE], mean, 2) for start in range(0, len(x), PIECE))
    return mean, np.sqrt(squares / len(x))


def _column_sums(x: Samples, shift: Any, power: int) -> NDArray[np.float64]:
    """``sum_i (x_i - shift)^power`` of each column, row after row in float64, a few rows at a time: they stay in cache.

    The bits are those of one sum over all rows.
    """
    step = max(1, CELLS // max(x.shape[1], 1))
    rows = np.empty((min(step, len(x)) + 1, x.shape[1]))
    total: NDArray[np.float64] | None = None
    for start in range(0, len(x), step):
        part = x[start : start + step]
        block = rows[1 : len(part) + 1]
        np.subtract(part, shift, out=block, dtype=np.float64)
        if power == 2:
            np.multiply(block, block, out=block)
        if total is not None:
            rows[0], block = total, rows[: len(part) + 1]
        total = block.sum(0)
    return np.zeros(x.shape[1]) if total is None else total


def _pixel_statistics(dataset: Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each channel, from counts of the 256 values instead of a float copy."""
    counts = np.zeros((dataset.train_x.shape[1], 256), np.int64)
    for start in range(0, len(dataset.train_x), 4096):
        for channel, pixels in enumerate(np.moveaxis(dataset.train_x[start : start + 4096], 1, 0)):
            counts[channel] += np.bincount(pixels.ravel(), minlength=256)
    share = counts / counts.sum(1, keepdims=True)
    value = np.arange(256) / dataset.full_scale
    mean = share @ value
    return mean, np.sqrt((share * (value - mean[:, None]) ** 2).sum(1))


def _value_statistics(dataset: Dataset) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The same for pixels that are no bytes; in pieces, because float64 takes twice their memory."""
    pieces = [dataset.train_x[start : start + 4096] for start in range(0, len(dataset.train_x), 4096)]
    values = dataset.train_x[:, 0].size
    mean = sum(piece.sum((0, 2, 3), dtype=np.float64) for piece in pieces) / values
    variance = sum(((piece - mean[:, None, None]) ** 2).sum((0, 2, 3)) for piece in pieces) / values
    return mean / dataset.full_scale, np.sqrt(variance) / dataset.full_scale
