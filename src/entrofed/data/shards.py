"""Which samples each client gets: a partition by its name or a function, and what came of it, checked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from entrofed.core.plugins import announced
from entrofed.data import PARTITIONS
from entrofed.data.client_rows import ClientRows
from entrofed.data.partition import Indices
from entrofed.errors import ConfigError, EntrofedError, check_options, unknown

Partition = str | Callable[..., Sequence[Any]]
"""The name of a partition, or a function of labels, number of clients, random generator and options that returns the
sample numbers of each client."""


def partitions() -> dict[str, Callable[..., Sequence[Any]]]:
    """All partitions by name: ours, and those of other packages (entry points ``entrofed.partitions``)."""
    return {**announced("partition"), **PARTITIONS}


def name_of(partition: Partition) -> str:
    """How a partition is called."""
    return partition if isinstance(partition, str) else getattr(partition, "__name__", type(partition).__name__)


def deal_out(
    labels: Indices, partition: Partition, clients: int | None, options: Mapping[str, Any], rng: np.random.Generator
) -> ClientRows:
    """The sorted samples of each client.

    >>> list(deal_out(np.array([0, 1, 0]), lambda labels, clients, rng: [[2], [0, 1]], 2, {}, np.random.default_rng(0)))
    [array([2]), array([0, 1])]
    """
    what = f"partition {name_of(partition)!r}"
    if isinstance(partition, str):
        if partition not in partitions():
            raise unknown("partition", partition, partitions())
        partition = partitions()[partition]
        check_options(what, partition, options)
    if not isinstance(clients, int | np.integer):
        raise ConfigError(f"{what} needs clients, a whole number; found {clients!r}")
    try:
        found = partition(labels, clients, rng, **options)
        dealt = found if isinstance(found, ClientRows) else [np.asarray(shard) for shard in found]
    except EntrofedError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} failed: {type(error).__name__}: {error}") from error
    if len(dealt) != clients:
        raise ConfigError(f"{what} must give the samples of {clients} clients, found those of {len(dealt)}")
    for client, shard in enumerate(() if isinstance(dealt, ClientRows) else dealt):
        if shard.ndim != 1 or (len(shard) and shard.dtype.kind not in "iu"):
            raise ConfigError(f"{what}: client {client} must get sample numbers, found {shard.dtype} {shard.shape}")
    shards = ClientRows.of([shard.astype(np.int64) for shard in dealt]) if isinstance(dealt, list) else dealt
    sample, owner = shards.rows, shards.owners
    if len(sample) and (sample.min() < 0 or sample.max() >= len(labels)):
        wrong = np.flatnonzero((sample < 0) | (sample >= len(labels)))[0]
        raise ConfigError(
            f"{what}: client {owner[wrong]} holds sample {sample[wrong]}, but samples are 0..{len(labels) - 1}"
        )
    times = np.bincount(sample, minlength=1)
    if times.max() > 1:
        twice = int(times.argmax())
        others = owner[sample == twice]
        raise ConfigError(f"{what}: clients {others[0]} and {others[1]} both hold sample {twice}; one may")
    return shards if shards is dealt else ClientRows.of_owners(sample, owner, clients)
