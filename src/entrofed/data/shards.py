"""Which samples each client gets: a partition by its name or a function, and what came of it, checked."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from entrofed.core.plugins import announced
from entrofed.data import PARTITIONS
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
) -> list[Indices]:
    """The sorted samples of each client.

    >>> deal_out(np.array([0, 1, 0]), lambda labels, clients, rng: [[2], [0, 1]], 2, {}, np.random.default_rng(0))
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
        dealt = [np.asarray(shard) for shard in partition(labels, clients, rng, **options)]
    except EntrofedError:
        raise
    except Exception as error:
        raise ConfigError(f"{what} failed: {type(error).__name__}: {error}") from error
    if len(dealt) != clients:
        raise ConfigError(f"{what} must give the samples of {clients} clients, found those of {len(dealt)}")
    for client, shard in enumerate(dealt):
        if shard.ndim != 1 or (len(shard) and shard.dtype.kind not in "iu"):
            raise ConfigError(f"{what}: client {client} must get sample numbers, found {shard.dtype} {shard.shape}")
    shards = [np.sort(shard).astype(np.int64) for shard in dealt]
    owner = np.repeat(np.arange(clients), [len(shard) for shard in shards])
    sample = np.concatenate(shards)
    for wrong in np.flatnonzero((sample < 0) | (sample >= len(labels)))[:1]:
        raise ConfigError(
            f"{what}: client {owner[wrong]} holds sample {sample[wrong]}, but samples are 0..{len(labels) - 1}"
        )
    order = np.argsort(sample, kind="stable")
    for twice in order[1:][np.diff(sample[order]) == 0][:1]:
        others = owner[sample == sample[twice]]
        raise ConfigError(f"{what}: clients {others[0]} and {others[1]} both hold sample {sample[twice]}; one may")
    return shards
