"""Datasets, and the ways to deal them out among clients."""

from collections.abc import Callable, Sequence

from entrofed.data.partition import (
    Indices,
    contiguous,
    dirichlet_balanced,
    dirichlet_mixed,
    dirichlet_plain,
    iid,
    label_quantity,
)
from entrofed.data.quantity import label_and_quantity, quantity
from entrofed.data.replay import fedklentropy_replay
from entrofed.data.shifts import feature_noise, rotation

PARTITIONS: dict[str, Callable[..., Sequence[Indices]]] = {
    partition.__name__: partition
    for partition in (
        iid,
        contiguous,
        dirichlet_balanced,
        dirichlet_plain,
        dirichlet_mixed,
        label_quantity,
        quantity,
        label_and_quantity,
        feature_noise,
        rotation,
        fedklentropy_replay,
    )
}
