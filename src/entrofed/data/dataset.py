"""What every dataset looks like once it is read."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError, unknown

SCALINGS = ("standard", "half", "unit")


@dataclass(frozen=True)
class Dataset:
    """Samples and labels in memory, split as the dataset's authors (or a paper) split them.

    Inputs keep their compact stored form: images ``uint8 [n, channels, height, width]``, tables
    ``float32 [n, features]``, text ``uint8 [n, length]`` token numbers. Labels are ``int64`` in
    ``0..len(classes)-1``. ``valid_*`` is a validation set that belongs to the server, where there is one.
    ``roles`` names the natural owner of each training sample (the speaking role of a play), if there is one.
    ``full_scale`` is the greatest value a pixel can have; images are divided by it before anything else.
    """

    name: str
    kind: Literal["image", "table", "text"]
    train_x: NDArray[np.uint8] | NDArray[np.float32]
    train_y: NDArray[np.int64]
    test_x: NDArray[np.uint8] | NDArray[np.float32]
    test_y: NDArray[np.int64]
    classes: tuple[str, ...]
    valid_x: NDArray[np.uint8] | NDArray[np.float32] | None = None
    valid_y: NDArray[np.int64] | None = None
    roles: NDArray[np.int64] | None = None
    role_names: tuple[str, ...] = ()
    full_scale: float = 255.0

    @property
    def validation_size(self) -> int:
        """Samples of the validation set; 0 if there is none."""
        return 0 if self.valid_y is None else len(self.valid_y)

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
    deviation of the training part, and a feature that never changes keeps scale 1; ``half`` is
    (x - 0.5) / 0.5, for images only; ``unit`` leaves x as it is. Text is never scaled: it gets 0 and 1,
    whatever ``how``.

    >>> table = np.array([[1, 7], [3, 7]], np.float32)
    >>> y = np.array([0, 1])
    >>> scaling(Dataset("tiny", "table", table, y, table, y, ("a", "b")), "standard")
    (array([2., 7.], dtype=float32), array([1., 1.], dtype=float32))
    """
    if how not in SCALINGS:
        raise unknown("scaling", how, SCALINGS)
    if how == "half" and dataset.kind == "table":
        raise ConfigError(
            f"scaling 'half' is for images, whose values lie in 0..1; {dataset.name} is a table. "
            f"Choose another of {', '.join(SCALINGS)}."
        )
    width = 1 if dataset.kind == "text" else dataset.train_x.shape[1]
    if how == "unit" or dataset.kind == "text":
        return np.zeros(width, np.float32), np.ones(width, np.float32)
    if how == "half":
        return np.full(width, 0.5, np.float32), np.full(width, 0.5, np.float32)
    if dataset.kind == "image":
        mean, deviation = _pixel_statistics(dataset)
    else:
        mean, deviation = dataset.train_x.mean(0, dtype=np.float64), dataset.train_x.std(0, dtype=np.float64)
    return mean.astype(np.float32), np.where(deviation == 0, 1.0, deviation).astype(np.float32)


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
