"""What updates do to the output layer's bias, which tells of a client's labels."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.types import Update
from entrofed.errors import ConfigError


def check_bias(output_bias: int | None, classes: int, where: str) -> int:
    """Where the output layer's bias begins; a ConfigError if that is not known. ``where``: who wants to know."""
    if classes < 1:
        raise ConfigError(f"{where} looks at the output layer; say how many classes there are, for example classes=10")
    if output_bias is None:
        raise ConfigError(
            f"{where} looks at the bias of the output layer, and no trained layer of the network has a bias of "
            f"{classes} values, one per class: give its last layer a bias, as nn.Linear has, or choose another part"
        )
    return output_bias


def bias_moves(start: int, classes: int, params: Params, updates: Iterable[Update]) -> dict[int, NDArray[np.float64]]:
    """How training from ``params`` moved the ``classes`` values from ``start`` on, by client.

    Without updates that moved nothing there, or diverged.
    """
    bias = slice(start, start + classes)
    before = params.values[bias].astype(np.float64)
    moves = {update.client: update.params.values[bias].astype(np.float64) - before for update in updates}
    return {client: move for client, move in moves.items() if np.isfinite(move).all() and move.any()}
