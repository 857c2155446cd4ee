"""Train a network for each cluster of clients, then one layer on top of all."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import ALL_CLIENTS, Build, ClientRule, Fact, Method, Sees, ServerRule
from entrofed.core.sums import weighted_sum
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientTable, Context, PartState, Training, Update, Weights
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.models.concatenated import Concatenated
from entrofed.servers.average import LARGEST, held

BRANCH = "branch"
"""The objective that trains a branch of a concatenated network."""


@dataclass(frozen=True)
class FewBatches(ClientRule):
    """A few mini-batches, once the encoders are frozen."""

    name: ClassVar[str] = "few_batches"

    batches: int = 3

    def max_steps(self, task: TrainTask) -> int | None:
        """In the second phase."""
        return self.batches if int(task.broadcast["phase"]) else None


@dataclass(frozen=True)
class Concat(ServerRule):
    """Clients are clustered by their labels; each cluster trains a network; a linear layer joins the frozen encoders.

    First phase, ``encoder_rounds`` rounds: inside each cluster the weighted average of its members' networks; a cluster
    without members in the cohort stays as it is. Second phase: clients train the joining layer on ``batches``
    mini-batches, and it is averaged with equal weights; the schedule of the learning rate starts anew. ``start`` is how
    that layer begins: at random, or as the clusters' output layers beside each other with their biases added. ``most``
    limits the size of a cluster to that many times the mean. The bytes recorded are those of the whole concatenated
    network.
    """

    name: ClassVar[str] = "concat"
    reference: ClassVar[str] = "Diao, Li and He, FedConcat, AAAI 2024"
    needs: ClassVar[frozenset[str]] = frozenset({ALL_CLIENTS})
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "models"
    """A sum for each cluster, which may have one member."""
    replaces_network: ClassVar[bool] = True

    clusters: int = 5
    encoder_rounds: int = 480
    batches: int = 3
    start: Literal["random", "outputs"] = "random"
    most: float | None = None

    def __post_init__(self) -> None:
        for what, value in (
            ("clusters", self.clusters),
            ("encoder_rounds", self.encoder_rounds),
            ("batches", self.batches),
        ):
            if value < 1:
                raise ConfigError(f"server rule {self.name!r}: {what} = {value} must be at least 1")
        if self.most is not None and not 1 <= self.most < float("inf"):
            raise ConfigError(f"server rule {self.name!r}: most = {self.most} must be at least 1 and finite")

    @property
    def client(self) -> FewBatches:
        """In the second phase clients make few steps."""
        return FewBatches(self.batches)

    def check(self, method: Method, training: Training) -> None:
        """Branches are trained by an objective of their own."""
        if method.objective.name != BRANCH:
            raise ConfigError(
                f"server rule {self.name!r} (FedConcat) trains branches, which objective {method.objective.name!r} "
                "cannot; leave out method.objective"
            )

    def network(self, build: Build) -> Build:
        """As many networks as clusters, and a layer on top."""
        return partial(Concatenated, build, self.clusters)

    def phase_round(self, number: int, rounds: int, state: PartState) -> tuple[int, int]:
        """Of the phase: the joining layer begins with the whole learning rate, however much it has decayed."""
        if self._second(state):
            return int(state["played"]) - self.encoder_rounds, max(rounds - self.encoder_rounds, 1)
        return number, min(self.encoder_rounds, rounds)

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """The cluster of each client."""
        counts = clients.told(LabelCounts.name, f"server rule {self.name!r}")
        if self.clusters > len(participants):
            raise ConfigError(
                f"server rule {self.name!r}: clusters = {self.clusters} is more than the {len(participants)} clients"
            )
        found = np.zeros(len(counts), np.int64)
        found[participants] = clustered(counts[participants], self.clusters, self.most)
        return {"clusters": found, "played": np.zeros((), np.int64)}

    def broadcast(self, state: PartState) -> PartState:
        """Who belongs to which cluster, and the phase."""
        return {"clusters": state["clusters"], "phase": np.array(self._second(state))}

    def _second(self, state: PartState) -> bool:
        return int(state["played"]) >= self.encoder_rounds

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """Average the branches, each over its cluster; or the joining layer, over everybody."""
        values = context.params.values.copy()
        counters = np.max([context.params.counters, *(update.params.counters for update in updates)], axis=0)
        after = Params(values, counters)
        following = {**state, "played": np.asarray(state["played"] + 1)}
        cluster = state["clusters"][[update.client for update in updates]]
        names = {"head.": np.full(len(updates), 1 / len(updates))}
        if not self._second(state):
            names = {f"branches.{j}.": np.where(cluster == j, weights, 0.0) for j in range(self.clusters)}
        for prefix, shares in names.items():
            if shares.sum() > 0:
                members = shares > 0
                rows = [update.params.values for update, member in zip(updates, members, strict=True) if member]
                for entry in context.layout.entries:
                    if entry.name.startswith(prefix) and entry.kind != "counter":
                        place = slice(entry.start, entry.start + entry.size)
                        values[place] = held(weighted_sum([row[place] for row in rows], shares[members] / shares.sum()))
        if self._second(following) and not self._second(state):
            self._join(after, context)
        return after, following

    def _join(self, params: Params, context: Context) -> None:
        """The second phase begins."""
        tensors = context.layout.split(params)
        tensors["phase"][...] = 1
        if self.start == "outputs":
            outputs = [f"branches.{j}.output" for j in range(self.clusters)]
            tensors["head.weight"][...] = np.concatenate([tensors[f"{name}.weight"] for name in outputs], axis=1)
            with np.errstate(over="ignore"):
                biases = np.sum([tensors[f"{name}.bias"] for name in outputs], axis=0)
            tensors["head.bias"][...] = biases.clip(-LARGEST, LARGEST)


def clustered(counts: NDArray[np.float64], clusters: int, most: float | None) -> NDArray[np.int64]:
    """Clusters of clients by k-means on their label frequencies; with ``most``, none above that many times the mean."""
    from sklearn.cluster import KMeans

    total = counts.sum(axis=1, keepdims=True)
    shares = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    found = KMeans(clusters, n_init=10, random_state=0).fit(shares)
    if most is None:
        return np.asarray(found.labels_, np.int64)
    room = np.full(clusters, max(int(most * len(counts) / clusters), -(-len(counts) // clusters)))
    distances = found.transform(shares)
    labels = np.full(len(counts), -1)
    for flat in np.argsort(distances, axis=None, kind="stable"):
        client, cluster = divmod(int(flat), clusters)
        if labels[client] < 0 and room[cluster]:
            labels[client], room[cluster] = cluster, room[cluster] - 1
    return labels
