"""The clients of an experiment: a dataset dealt out among them."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from entrofed.core.seeds import stream
from entrofed.data import PARTITIONS
from entrofed.data.catalog import load
from entrofed.data.dataset import Dataset, scaling
from entrofed.data.partition import by_role, hold_out, label_counts, split_participants
from entrofed.errors import ConfigError
from entrofed.experiment.config import BY_ROLE, DataSection


@dataclass(frozen=True)
class Federation:
    """Who holds what.

    ``shards[k]`` and ``holdouts[k]`` are rows of the training part: what client ``k`` trains on and its local
    test set. ``participants`` are the clients that may ever train. Inputs are standardized as
    ``(x - shift) / scale`` after images are brought to 0..1.
    """

    data: Dataset
    shift: NDArray[np.float32]
    scale: NDArray[np.float32]
    shards: tuple[NDArray[np.int64], ...]
    holdouts: tuple[NDArray[np.int64], ...]
    participants: NDArray[np.int64]
    label_counts: NDArray[np.int64]
    """``[client, class]`` counts of the training labels."""

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Training samples of each client."""
        sizes: NDArray[np.int64] = self.label_counts.sum(axis=1)
        return sizes


def federate(section: DataSection, seed: int, directory: Path | None = None) -> Federation:
    """Load the data and deal it out; the same seed deals the same way for every method."""
    data = load(section.name, directory)
    if section.validation:
        data = data.set_aside(section.validation, stream(seed, "validation"))
    rng = stream(seed, "partition")
    if section.partition == BY_ROLE:
        if data.roles is None:
            raise ConfigError(f"data.partition = {BY_ROLE!r}: dataset {data.name!r} has no natural owners of samples")
        dealt = by_role(data.roles)
    else:
        dealt = PARTITIONS[section.partition](data.train_y, section.clients, rng, **section.partition_options())
    shards, holdouts = hold_out(dealt, section.holdout, stream(seed, "holdout"))
    participants = np.arange(len(shards))
    if section.participating is not None:
        participants, _ = split_participants(len(shards), section.participating, stream(seed, "participants"))
    shift, scale = scaling(data, section.normalize)
    return Federation(
        data=data,
        shift=shift,
        scale=scale,
        shards=tuple(shards),
        holdouts=tuple(holdouts),
        participants=participants,
        label_counts=label_counts(data.train_y, shards, len(data.classes)),
    )
