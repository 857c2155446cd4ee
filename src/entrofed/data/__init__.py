"""Datasets, and the ways to deal them out among clients."""

from collections.abc import Callable

from entrofed.data.partition import (
    Indices,
    contiguous,
    dirichlet_balanced,
    dirichlet_mixed,
    dirichlet_plain,
    iid,
    label_quantity,
)
from entrofed.data.replay import fedklentropy_replay

PARTITIONS: dict[str, Callable[..., list[Indices]]] = {
    partition.__name__: partition
    for partition in (
        iid,
        contiguous,
        dirichlet_balanced,
        dirichlet_plain,
        dirichlet_mixed,
        label_quantity,
        fedklentropy_replay,
    )
}
