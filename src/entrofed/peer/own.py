"""The federation as one peer has it: its own samples, and nothing of anybody else's."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from entrofed.data.client_rows import ClientRows
from entrofed.data.federation import Federation
from entrofed.data.partition import label_counts
from entrofed.errors import ConfigError, DataError


def share_of(federation: Federation, node: int) -> Federation:
    """Of data that is dealt out to all peers, what this one holds; the others' samples are let go."""
    nodes = len(federation.shards)
    if node >= nodes:
        raise ConfigError(f"number = {node}: the experiment deals its data out to {nodes} peers, 0 to {nodes - 1}")
    return _alone(federation, federation.shards[node], federation.holdouts[node], node, nodes)


def whole_of(federation: Federation, node: int, nodes: int) -> Federation:
    """Of data that is all this peer's own, everything."""
    return _alone(federation, np.sort(federation.shards.rows), np.sort(federation.holdouts.rows), node, nodes)


def _alone(
    federation: Federation, shard: NDArray[np.int64], holdout: NDArray[np.int64], node: int, nodes: int
) -> Federation:
    if not len(shard):
        raise DataError(f"peer number {node} has no samples to train on")
    data, empty = federation.data, np.empty(0, np.int64)
    data = replace(
        data,
        train_x=data.train_x[np.concatenate([shard, holdout])],
        train_y=data.train_y[np.concatenate([shard, holdout])],
        roles=None,
        role_names=(),
    )
    rows = np.arange(len(shard)), np.arange(len(shard), len(shard) + len(holdout))
    shards, holdouts = (ClientRows.of([mine if k == node else empty for k in range(nodes)]) for mine in rows)
    return replace(
        federation,
        data=data,
        shards=shards,
        holdouts=holdouts,
        participants=np.array([node]),
        label_counts=label_counts(data.train_y, shards, len(data.classes)),
        names=(),
        feature_shift=None,
    )
