"""Choose the cohort whose pooled labels have maximal entropy."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.info.greedy import TIE
from entrofed.info.maxent import Target, check_target, target_distribution
from entrofed.info.screen import prepared
from entrofed.selectors.buffered import BufferedGreedy, Scores


@dataclass(frozen=True)
class LabelEntropyGreedy(BufferedGreedy):
    """Picks one client after the other so that the entropy of the pooled labels is as large as possible.

    The first pick is random; each further one maximizes ``H2((L + l_j) / |L + l_j|)`` over the clients that are neither
    picked nor in the buffer, where ``L`` is what the picked hold together (bits). The buffer, ``strict`` and
    ``random_ties`` are explained in :class:`~entrofed.selectors.buffered.BufferedGreedy`.

    ``target``: ``uniform``, as in the paper; ``pooled``, the labels of all clients together, or a number per class; the
    score is then ``-KL((L + l_j) / |L + l_j| || target)``, bits.
    """

    name: ClassVar[str] = "fedentopt"
    reference: ClassVar[str] = "Lutz et al., FedEntOpt, Algorithm 1"

    target: Target = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_target(f"selector {self.name!r}", self.target)

    def scores(self, counts: NDArray[np.float64], pool: NDArray[np.int64]) -> Scores:
        """Entropies of the pooled counts, or divergences from the target."""
        target = None
        if self.target != "uniform":
            target = target_distribution(self.target, counts, f"selector {self.name!r}")
        return Pooled(counts, pool, target)


class Pooled(Scores):
    """The entropy of what those picked and a candidate hold together."""

    tie = TIE

    def __init__(
        self, counts: NDArray[np.float64], pool: NDArray[np.int64], target: NDArray[np.float64] | None
    ) -> None:
        self._counts, self._pool = counts, pool
        self._candidates = prepared(counts, pool, target)
        self._pooled = np.zeros(counts.shape[1])

    def leaders(self, *, all_ties: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """By looking at all candidates."""
        return self._candidates.leaders(self._pooled, all_ties=all_ties)

    def pick(self, client: int) -> None:
        """Pool its counts."""
        place = np.searchsorted(self._pool, client)
        if place < len(self._pool) and self._pool[place] == client:
            self._candidates.remove(client)
        self._pooled += self._counts[client]
