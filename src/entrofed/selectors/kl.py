"""Choose a fixed cohort whose clipped data is close to uniform."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.divergence import kl


@dataclass(frozen=True)
class KLSelection(Selector):
    """Adds the largest client that holds the scarcest label, and clips its data; the same cohort every round.

    The largest client comes first with all its data ``v``; ``m = max(v)``. Then, by falling size (ties by lower
    number), the next client that holds the scarcest label of ``v`` gives ``a = min(m - v, l)`` of each label, and so
    on, from the start again after the last, until M are together, ``KL(v / |v| || uniform) < theta`` (nats), nobody
    holds the scarcest label, or every label is at ``m``: the cohort may stay smaller than M. Clients train on the ``a``
    only, unless ``clip`` is false. Counts that are not whole, because they were noised, are rounded down.

    ``KL(p || uniform) = ln C - H(p)``: what FedEntOpt maximizes, with a fixed start, clipped data and no buffer.
    """

    name: ClassVar[str] = "kl"
    reference: ClassVar[str] = "Seol and Kim, Sensors 2023, 23(3):1152, Algorithm 2"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    theta: float = 0.0
    clip: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.theta < float("inf"):
            raise ConfigError(f"kl: theta = {self.theta}: a divergence is a finite number from 0 upwards")

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The cohort, with the divergence after each pick and what each client is to use."""
        counts = np.floor(clients.told(LabelCounts.name, f"selector {self.name!r}")[among]).astype(np.int64)
        order = np.lexsort((among, -counts.sum(axis=1)))
        ranked, counts = among[order], counts[order]
        ceiling = counts[:1].max(initial=0)
        unused: NDArray[np.bool_] = counts.sum(axis=1) > 0
        pooled = np.zeros(counts.shape[1], np.int64)
        place, divergence = 0, np.inf
        limits: dict[int, NDArray[np.int64]] = {}
        reasons: list[dict[str, Any]] = []
        while len(limits) < size and divergence >= self.theta and pooled.min() < ceiling:
            holders = np.flatnonzero(unused & ((counts[:, pooled.argmin()] > 0) | (not limits)))
            if not len(holders):
                break
            place = int(holders[np.searchsorted(holders, place) % len(holders)])
            client, given = int(ranked[place]), np.minimum(ceiling - pooled, counts[place])
            pooled += given
            divergence = float(kl(pooled / pooled.sum(), np.full(len(pooled), 1 / len(pooled))))
            used, left = int(given.sum()), int(unused.sum())
            reasons.append({"client": client, "score": divergence, "used": used, "pool": left})
            limits[client] = given
            unused[place] = False
        return Selection(list(limits), state, reasons, limits if self.clip else {})
