"""Arrays with an entry for each client, once clients have joined."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def widened(array: NDArray[Any], clients: int, fill: float = 0) -> NDArray[Any]:
    """The array with a last entry, or column, for each client: on Flower, some may have joined since.

    >>> widened(np.array([3, 1]), 4).tolist()
    [3, 1, 0, 0]
    """
    shape = (*array.shape[:-1], clients - array.shape[-1])
    return np.concatenate([array, np.full(shape, fill, array.dtype)], axis=-1)
