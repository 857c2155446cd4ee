"""How a dataset is dealt out: rows of clients, what is set aside, who takes part; the same seed deals the same way."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from entrofed.core.seeds import stream
from entrofed.data.assignment import assignment
from entrofed.data.client_rows import ClientRows
from entrofed.data.dataset import Dataset
from entrofed.data.partition import by_role, hold_out, split_participants
from entrofed.data.shards import Partition, deal_out, name_of
from entrofed.data.shifts import FeatureShift, shifted
from entrofed.errors import ConfigError, DataError, check_options

BY_ROLE = "by_role"
"""The partition into natural owners."""
NATURAL = "natural"
"""Another name for it."""
ASSIGNMENT = "assignment"
"""The partition into the owners that the user names."""


class Deal(NamedTuple):
    """What to do with the rows of a dataset; :meth:`entrofed.data.federation.Federation.partition` says it in full."""

    partition: Partition = "iid"
    clients: int | None = None
    options: Mapping[str, Any] | None = None
    holdout: float = 0.0
    validation: float = 0.0
    participating: int | None = None
    normalize: str = "standard"
    seed: int = 0


class Dealt(NamedTuple):
    """The dataset, with validation set and shifts of features, and whose its rows are."""

    data: Dataset
    shards: ClientRows
    holdouts: ClientRows
    participants: NDArray[np.int64]
    names: tuple[str, ...]
    feature_shift: FeatureShift | None


def dealt_out(data: Dataset, how: Deal) -> Dealt:
    """The rows of each client."""
    partition, clients, seed, options = how.partition, how.clients, how.seed, dict(how.options or {})
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise ConfigError(f"seed must be a whole number from 0 on, not {seed!r}")
    name = name_of(partition)
    if partition == NATURAL:
        partition = BY_ROLE
    if partition == ASSIGNMENT and clients is not None:
        raise ConfigError(f"clients = {clients} does not apply to partition {name!r}; leave it out")
    names: tuple[str, ...] = ()
    if partition == ASSIGNMENT:
        check_options(f"partition {ASSIGNMENT!r}", assignment, options)
        owners, names = assignment(data.train_y, **options)
        data, partition = replace(data, roles=owners, role_names=names), BY_ROLE
    if how.validation:
        data = data.set_aside(how.validation, stream(seed, "validation"))
    if partition == BY_ROLE:
        if data.roles is None:
            raise ConfigError(
                f"data.partition = {name!r}: {data.name!r} has no natural owners of samples; name the column of a "
                "table that says them (client), or choose another partition and a number of clients"
            )
        dealt, names = by_role(data.roles, len(data.role_names)), data.role_names
        if clients is not None:
            dealt, names = _some(dealt, names, clients, stream(seed, "partition"))
    else:
        dealt = deal_out(data.train_y, partition, clients, options, stream(seed, "partition"))
    train_x, feature_shift = shifted(data, partition, dealt, options, partial(stream, seed, "shift"))
    data = replace(data, train_x=train_x)
    shards, holdouts = hold_out(dealt, how.holdout, stream(seed, "holdout"))
    participants = np.arange(len(shards))
    if how.participating is not None:
        participants, _ = split_participants(len(shards), how.participating, stream(seed, "participants"))
    if not shards.sizes[participants].any():
        raise DataError(f"none of the {len(participants)} clients that take part has samples to train on")
    return Dealt(data, shards, holdouts, participants, names, feature_shift)


def _some(
    dealt: ClientRows, names: tuple[str, ...], clients: int, rng: np.random.Generator
) -> tuple[ClientRows, tuple[str, ...]]:
    """So many of the natural owners, drawn at random; nobody trains on what the others have."""
    if not isinstance(clients, int | np.integer) or not 1 <= clients <= len(dealt):
        raise ConfigError(
            f"clients = {clients!r}, but of the natural owners a whole number from 1 to {len(dealt)} can be taken"
        )
    kept = np.sort(rng.permutation(len(dealt))[:clients]).tolist()
    return ClientRows.of([dealt[k] for k in kept]), tuple(names[k] for k in kept) if names else ()
