"""Choose a fixed cohort whose clipped data is close to uniform."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError
from entrofed.info.divergence import kl
from entrofed.types import LABEL_COUNTS, Ledger, PartState, Selection, Selector


@dataclass(frozen=True)
class KLSelection(Selector):
    """Adds the largest client that holds the scarcest label, and clips its data; the same cohort every round.

    The largest client comes first with all its data ``v``; ``m = max(v)``. Then, by falling size, each client that
    holds the scarcest label of ``v`` gives ``a = min(m - v, l)`` of each label (nothing to give: skipped), until M are
    together or ``KL(v / |v| || uniform) < theta`` (nats). Passes over those not used are repeated while they add
    somebody, so the cohort may stay smaller than M. Clients train on the ``a`` only, unless ``clip`` is false.

    ``KL(p || uniform) = ln C - H(p)``: what FedEntOpt maximizes, with a fixed start, clipped data and no buffer.
    """

    name: ClassVar[str] = "kl"
    reference: ClassVar[str] = "Seol and Kim, Sensors 2023, 23(3):1152, Algorithm 2"
    needs: ClassVar[frozenset[str]] = frozenset({LABEL_COUNTS})

    theta: float = 0.0
    clip: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.theta < float("inf"):
            raise ConfigError(f"kl: theta = {self.theta}: a divergence is a number from 0 upwards")

    def select(
        self, state: PartState, ledger: Ledger, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The cohort, with the divergence after each pick and what each client is to use."""
        if ledger.label_counts is None:
            raise ConfigError("kl: the clients released no label counts")
        counts = np.floor(ledger.label_counts).astype(np.int64)
        waiting = among[np.lexsort((among, -counts[among].sum(axis=1)))].tolist()
        pooled = np.zeros(counts.shape[1], np.int64)
        limits: dict[int, NDArray[np.int64]] = {}
        reasons: list[dict[str, Any]] = []
        added = True
        while added and waiting:
            added = False
            for client in list(waiting):
                if len(limits) == size or (limits and _divergence(pooled) < self.theta):
                    waiting = []
                    break
                given = np.minimum(_ceiling(limits) - pooled, counts[client]) if limits else counts[client]
                if limits and (counts[client, pooled.argmin()] == 0 or not given.any()):
                    continue
                limits[client] = given
                pooled = pooled + given
                waiting.remove(client)
                added = True
                reasons.append(
                    {"client": client, "score": _divergence(pooled), "used": int(given.sum()), "pool": len(waiting) + 1}
                )
        return Selection(list(limits), state, reasons, limits if self.clip else {})


def _ceiling(limits: dict[int, NDArray[np.int64]]) -> int:
    """The largest count of the first client: nobody adds to a label beyond it."""
    return int(next(iter(limits.values())).max())


def _divergence(pooled: NDArray[np.int64]) -> float:
    """``KL(v / |v| || uniform)`` in nats; infinite while nothing is there."""
    if not pooled.any():
        return float("inf")
    return float(kl(pooled / pooled.sum(), np.full(len(pooled), 1 / len(pooled))))
