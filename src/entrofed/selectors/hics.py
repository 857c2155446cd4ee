"""Prefer clusters of clients whose labels seem to be balanced, by what training does to the output layer's bias."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Any, ClassVar

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, PartState, Selection, Update
from entrofed.errors import ConfigError
from entrofed.info.clusters import angles, ward_clusters
from entrofed.info.entropy import entropy
from entrofed.selectors.bias_table import NOT_ASKED, BiasTable, row_key

LEAST = 1e-100
"""The least probability of a cluster: all can be drawn if more are wanted than the others have."""


@dataclass(frozen=True)
class HierarchicalClusters(BiasTable):
    """Draws a cluster by its estimated heterogeneity, then a client of it by size, until the cohort is full.

    With the last move ``d_k`` of client k's output bias, its heterogeneity is ``H_k = H(softmax(d_k / temperature))``
    (nats; the larger, the more balanced), and ``arccos(cos(d_u, d_k)) + balance |H_u - H_k|`` is the distance by which
    Ward's method makes ``clusters`` groups (None: as many as the cohort has clients). A group is drawn with probability
    ``~ exp(g_t mean H)``, ``g_t = gamma (1 - t / T)`` in round t = 1 ... T: at first the most balanced, in the end all
    alike. Before that, whoever was never asked to train is, in random order.

    ``temperature`` belongs to the learning rate: the paper has 0.0025 for SGD at 0.001 and two epochs; if moves are
    much larger than it, every H is 0, and if much smaller, ``ln C``.

    As in the authors' program, Ward's method is applied to the rows of the matrix of distances. The program looks at
    the output layer's weights, too; this, as the paper says, at the bias. Differs from the paper: the last cohort of
    those never asked is filled up, and who was asked and never answered makes a group of its own, with the mean H.
    """

    name: ClassVar[str] = "hics"
    reference: ClassVar[str] = "Chen and Vikalo, HiCS-FL, NeurIPS 2024, Algorithm 1"

    temperature: float = 0.0025
    balance: float = 10.0
    gamma: float = 4.0
    clusters: int | None = None

    def __post_init__(self) -> None:
        where = f"selector {self.name!r}"
        if not (isfinite(self.temperature) and self.temperature > 0):
            raise ConfigError(f"{where}: temperature = {self.temperature} must be above 0")
        if not (isfinite(self.balance) and isfinite(self.gamma) and self.balance >= 0 and self.gamma >= 0):
            raise ConfigError(f"{where}: balance = {self.balance} and gamma = {self.gamma} must not be negative")
        if self.clusters is not None and self.clusters < 1:
            raise ConfigError(f"{where}: clusters = {self.clusters}: at least one is needed")

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nobody was asked."""
        return {**super().init(clients, participants), "round": np.zeros((), np.int64)}

    @property
    def by_rounds(self) -> bool:
        """Its temperature falls until the last round."""
        return True

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A cohort; the score of a pick is the mean heterogeneity of its cluster."""
        number = int(state["round"]) + 1
        new = self.new(state, among, size, rng)
        reasons: list[dict[str, Any]] = [{"client": client, "how": NOT_ASKED} for client in new]
        left = np.setdiff1d(among, new)
        if wanted := min(size - len(new), len(left)):
            groups, scores = self.groups(state, left, self.clusters or size)
            falling = 1 - number / clients.rounds if clients.rounds else 1.0
            odds = self.odds(groups, scores, clients.sizes[left].astype(np.float64), max(falling, 0.0))
            for place in rng.choice(len(left), wanted, replace=False, p=odds).tolist():
                cluster = int(groups[place])
                reasons.append({"client": int(left[place]), "cluster": cluster, "score": float(scores[cluster])})
        asked = np.union1d(state["asked"], np.array(new, np.int64))
        picked = [reason["client"] for reason in reasons]
        return Selection(picked, {**state, "asked": asked, "round": np.array(number)}, reasons)

    def groups(
        self, state: PartState, clients: NDArray[np.int64], wanted: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The number of each client's cluster, and the mean heterogeneity of each cluster."""
        known = np.array([row_key(client) in state for client in clients.tolist()])
        groups = np.zeros(len(clients), np.int64)
        if not known.any():
            return groups, np.zeros(1)
        moves = np.array([state[row_key(client)] for client in clients[known].tolist()])
        uneven = entropy(scipy.special.softmax(moves / self.temperature, axis=1))
        distances = angles(moves) + self.balance * np.abs(uneven[:, None] - uneven)
        groups[known] = ward_clusters(distances, wanted)
        count = int(groups.max()) + 1
        scores = np.bincount(groups[known], weights=uneven) / np.bincount(groups[known])
        groups[~known] = count
        return groups, np.append(scores, [uneven.mean()] * (not known.all()))

    def odds(
        self,
        groups: NDArray[np.int64],
        scores: NDArray[np.float64],
        sizes: NDArray[np.float64],
        falling: float,
    ) -> NDArray[np.float64]:
        """The probability of each client to be drawn next: of its cluster, times its share of the cluster's data."""
        of_group = np.maximum(scipy.special.softmax(self.gamma * falling * scores), LEAST)
        odds = of_group[groups] * sizes / np.bincount(groups, weights=sizes)[groups]
        return np.asarray(odds / odds.sum())

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """The last move of each client."""
        return {**state, **{row_key(client): move for client, move in self.moves(state, params, updates).items()}}
