"""Choose the cohort whose labels, mixed by the best weights, have maximal entropy."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError
from entrofed.info.additions import TIE, Additions
from entrofed.info.maxent import Target, check_target, label_rows, target_distribution
from entrofed.selectors.buffered import BufferedGreedy, Scores


@dataclass(frozen=True)
class MaxEntGreedy(BufferedGreedy):
    """Picks one client after the other so that the best weights give the labels the largest entropy.

    The score of a cohort S is ``V(S) = max over the simplex of H(sum_k a_k p_k) - strength KL(a || 1/|S|)``, less
    ``ln C`` (nats, at most 0); with a ``target`` other than ``uniform`` (``pooled``, or a number per class),
    ``-KL(sum_k a_k p_k || target)`` takes the place of ``H - ln C``. It is what weigher ``maxent`` reaches on S
    with the same options: sizes do not count. FedEntOpt scores the pooled counts, as if weights were sizes. The first
    pick is random; the buffer, ``strict`` and ``random_ties`` are explained in
    :class:`~entrofed.selectors.buffered.BufferedGreedy`.

    For a given S the problem in ``a`` is concave and is solved. As a function of sets V is neither monotone (a further
    client may lower it: weights that leave it out are then far from equal) nor submodular: beside classes {0, 1} a
    client with class 1 is worth -0.038, after {0, 2} was added +0.041. So greedy picks have no guarantee. They fail
    where one client looks best early and stands in the way of a perfect set: after {0}, greedy takes {1, 2} and ends at
    -0.025, and {0}, {1}, {2} have 0. On small random federations they come within hundredths of a nat of the best set
    (tests). With more than 256 candidates the problem is solved for the 256 best by a lower bound: see
    :mod:`entrofed.info.additions`.
    """

    name: ClassVar[str] = "maxent"
    reference: ClassVar[str] = "our own; greedy as Lutz et al., FedEntOpt, Algorithm 1"

    strength: float = 0.1
    target: Target = "uniform"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1e-3 <= self.strength <= 1e3:
            raise ConfigError(f"selector {self.name!r}: strength = {self.strength} must be between 0.001 and 1000")
        check_target(f"selector {self.name!r}", self.target)

    def scores(self, counts: NDArray[np.float64], pool: NDArray[np.int64]) -> Scores:
        """V, of those picked and a candidate."""
        target = target_distribution(self.target, counts, f"selector {self.name!r}")
        return BestWeights(counts, pool, target, self.strength)


class BestWeights(Scores):
    """V of those picked together with a candidate."""

    tie = TIE

    def __init__(
        self, counts: NDArray[np.float64], pool: NDArray[np.int64], target: NDArray[np.float64], strength: float
    ) -> None:
        self._counts, self._pool = counts, pool
        self._rows = label_rows(counts[pool], np.ones(len(pool)))
        self._additions = Additions(self._rows, target, strength)
        self._picked: list[NDArray[np.float64]] = []

    def leaders(self, *, all_ties: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Of a shortlist, which all who tie with the best are on if there is room."""
        places, values = self._additions.leaders(np.array(self._picked))
        return self._pool[places], values

    def pick(self, client: int) -> None:
        """Add its label distribution."""
        place = int(np.searchsorted(self._pool, client))
        if place < len(self._pool) and self._pool[place] == client:
            self._additions.remove(place)
            self._picked.append(self._rows[place])
        else:
            self._picked.append(label_rows(self._counts[client][None], np.ones(1))[0])
