"""Tables of gradients to select from."""

import numpy as np

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, PartState, Selection, Update
from entrofed.selectors.gradient_table import GradientTable

NO_COUNTERS = np.zeros(0, np.int64)


def filled(part: GradientTable, gradients: dict[int, np.ndarray]) -> PartState:
    """A table as it is after everybody has answered once."""
    width = len(next(iter(gradients.values()), []))
    start = Params(np.zeros(width, np.float32), NO_COUNTERS)
    updates = [
        Update(client, Params(-np.asarray(gradient, np.float32), NO_COUNTERS), 10, 1, 0.5, 0.5)
        for client, gradient in gradients.items()
    ]
    state = part.init(ClientTable(np.ones(100, np.int64), trainable=width), np.arange(100))
    return part.observe(state, start, updates)


def select(part: GradientTable, rows: object, size: int, among: list[int] | None = None, seed: int = 0) -> Selection:
    """From rows by client number; among everybody who has one, unless said otherwise."""
    gradients = rows if isinstance(rows, dict) else dict(enumerate(np.asarray(rows)))
    among = [*gradients] if among is None else among
    table = ClientTable(np.ones(100, np.int64))
    return part.select(filled(part, gradients), table, np.array(among, np.int64), size, np.random.default_rng(seed))
