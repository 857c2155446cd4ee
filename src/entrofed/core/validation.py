"""What is wrong with an update, and what is done about it: refused, with a reason, before anything is weighed.

A refused update changes nothing but the record: it stretches no histogram, moves no median, enters no sum.
"""

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from entrofed.core.params import Layout, Params
from entrofed.core.types import Failure, Update
from entrofed.errors import EntrofedError

MOST_EXAMPLES = 10**9
"""A client that claims more training examples than this is not believed."""

NonFinite = Literal["drop", "raise", "propagate"]


def fault(update: Any, client: int, layout: Layout, nonfinite: NonFinite = "drop") -> str | None:
    """The first thing wrong with what a client sent, or None."""
    if isinstance(update, Failure):
        return update.reason
    if not isinstance(update, Update):
        return f"not an update: {type(update).__name__}"
    if update.client != client:
        return f"answer in the name of client {update.client}"
    if not isinstance(update.params, Params):
        return f"no model but {type(update.params).__name__}"
    for what, array, length, dtype in (
        ("parameters", update.params.values, layout.floats, np.float32),
        ("counters", update.params.counters, layout.counters, np.int64),
    ):
        if not isinstance(array, np.ndarray) or array.dtype != dtype:
            return f"{what} of type {getattr(array, 'dtype', type(array).__name__)}, expected {np.dtype(dtype)}"
        if array.shape != (length,):
            return f"{what} of shape {array.shape}, expected ({length},)"
    for what, number in (("examples", update.num_examples), ("steps", update.num_steps)):
        if not isinstance(number, int | np.integer) or isinstance(number, bool):
            return f"number of {what} is not an integer: {number!r}"
        if number < 0 or number > MOST_EXAMPLES:
            return f"absurd number of {what}: {number}"
        if number == 0:
            return f"no {what}"
    if nonfinite != "propagate" and not np.isfinite(update.params.values).all():
        return f"{np.count_nonzero(~np.isfinite(update.params.values))} non-finite parameters"
    for what, fact in update.facts.items():
        if not isinstance(fact, np.ndarray) or fact.dtype.kind not in "iuf" or not np.isfinite(fact).all():
            return f"{what} is not an array of finite numbers"
    return None


def admit(
    clients: Sequence[int], answers: Sequence[Any], layout: Layout, nonfinite: NonFinite = "drop"
) -> tuple[list[Update], dict[int, str]]:
    """Split answers into usable updates and refused clients with reasons.

    ``answers[i]`` came from ``clients[i]``; of several answers of one client the first is kept.
    """
    admitted: list[Update] = []
    refused: dict[int, str] = {}
    for client, answer in zip(clients, answers, strict=True):
        if client in refused or any(update.client == client for update in admitted):
            reason: str | None = "duplicate answer; the first was kept"
        else:
            reason = fault(answer, client, layout, nonfinite)
        if reason is None:
            admitted.append(answer)
        elif nonfinite == "raise" and isinstance(answer, Update) and reason.endswith("non-finite parameters"):
            raise EntrofedError(f"client {client} sent {reason}, and nonfinite = 'raise' was chosen")
        else:
            refused[client] = reason
    return admitted, refused
