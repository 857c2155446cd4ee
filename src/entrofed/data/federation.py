"""The clients of an experiment: a dataset dealt out among them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset


@dataclass(frozen=True)
class Federation:
    """Who holds what.

    ``shards[k]`` and ``holdouts[k]`` are rows of the training part: what client ``k`` trains on and its local
    test set. ``participants`` are the clients that may ever train. Inputs are standardized as
    ``(x - shift) / scale`` after images are brought to 0..1.
    """

    data: Dataset
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    shards: tuple[NDArray[np.int64], ...]
    holdouts: tuple[NDArray[np.int64], ...]
    participants: NDArray[np.int64]
    label_counts: NDArray[np.int64]
    """``[client, class]`` counts of the training labels."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Training samples of each client."""
        sizes: NDArray[np.int64] = self.label_counts.sum(axis=1)
        return sizes
