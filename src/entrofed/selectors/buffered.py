"""One client after the other, each the best beside those before it; clients used lately rest in a buffer."""

import logging
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.selectors.joined import widened

log = logging.getLogger("entrofed")


class Scores(Protocol):
    """What a client is worth beside those already picked."""

    tie: float
    """Scores that differ by no more are the same."""

    def leaders(self, *, all_ties: bool) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Clients of the pool, ascending, and their scores: the two best at least, or all who tie with the best."""
        ...

    def pick(self, client: int) -> None:
        """Add a client, of the pool or not, to those picked."""
        ...


@dataclass(frozen=True)
class BufferedGreedy(Selector):
    """The first pick is random, each further one has the best score beside those before it.

    A FIFO ``buffer`` of the clients used last rests them: a whole number is its capacity Q, a fraction a share of the
    clients, None the choice of FedEntOpt's paper (70 % for "label_quantity" partitions, else 50 %). With Q <= K - M the
    pool always suffices; a larger Q is cut to that, or refused if ``strict``. Ties go to the lower number, or are drawn
    with ``random_ties``.

    ``most``: nobody is chosen more than this many times as often as everybody would be by turns; a bound on what a
    client gains that claims whatever is always chosen (uniform counts). Those above it come last, after the buffer.

    Who drops out of the buffer during a round waits for the next one: as in the paper, the set of available clients
    only shrinks within a round. Differs from the paper: if that set runs empty because clients left, those in the
    buffer who have rested longest are taken.
    """

    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    buffer: int | float | None = None
    random_ties: bool = False
    strict: bool = False
    most: float | None = None

    def __post_init__(self) -> None:
        if self.most is not None and not 1 <= self.most < float("inf"):
            raise ConfigError(f"{self.name}: most = {self.most}: it is a multiple of everybody's share, 1 or more")
        if self.buffer is None:
            return
        share = isinstance(self.buffer, float)
        if not self.buffer >= 0 or (share and not self.buffer <= 1):
            raise ConfigError(
                f"{self.name}: buffer = {self.buffer}: it is a number of clients (0, 1, 2 ...) or a share (0.0 to 1.0)"
            )

    @abstractmethod
    def scores(self, counts: NDArray[np.float64], pool: NDArray[np.int64]) -> Scores:
        """Of the clients in the ``pool``, with nobody picked."""

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """An empty buffer."""
        number = len(participants)
        capacity = self._chosen_capacity(clients.partition, number)
        chosen = {} if self.most is None else {"chosen": np.zeros(len(clients.sizes), np.int64)}
        return {"buffer": np.zeros(0, np.int64), "capacity": np.array(capacity), "clients": np.array(number), **chosen}

    def _chosen_capacity(self, partition: str, number: int) -> int:
        """Q as it was chosen, for so many clients."""
        buffer = self.buffer
        if buffer is None:
            buffer = 0.7 if partition == "label_quantity" else 0.5
        return int(buffer * number + 1e-9) if isinstance(buffer, float) else min(buffer, number)

    def gap(self, clients: ClientTable, participants: int, size: int) -> int:
        """``floor(Q / M) + 1``: a client is free again once Q others were picked after it.

        Where clients leave and the pool runs empty, those who rest are taken before.
        """
        capacity = min(self._chosen_capacity(clients.partition, participants), max(participants - size, 0))
        return capacity // size + 1

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A cohort, each pick with its score and what would have been picked in its place."""
        counts = clients.told(LabelCounts.name, f"selector {self.name!r}")
        capacity, buffer = self._capacity(state, size), state["buffer"]
        free = np.zeros(len(counts), np.bool_)
        free[among] = True
        resting = buffer[free[buffer]]
        free[resting] = False
        if self.most is not None:
            chosen = widened(state["chosen"], len(counts))
            barred = np.flatnonzero(free & (chosen >= self._limit(state, size)))
            free[barred] = False
            resting = np.concatenate([resting, barred])
        pool = np.flatnonzero(free)
        scores = self.scores(counts, pool)
        picked: list[int] = []
        reasons: list[dict[str, Any]] = []
        for number in range(min(size, len(among))):
            left = max(len(pool) - number, 0)
            facts: dict[str, Any] = {"score": None, "runner_up": None, "runner_up_score": None}
            if not left:
                client, how = int(resting[number - len(pool)]), "fallback"
            elif not number:
                client, how = int(pool[rng.integers(len(pool))]), "random"
            else:
                client, facts = self._best(*scores.leaders(all_ties=self.random_ties), scores.tie, rng)
                how = "greedy"
            scores.pick(client)
            rested = min(len(buffer) + number, capacity)
            reasons.append({"client": client, **facts, "pool": left, "buffer": rested, "how": how})
            picked.append(client)
        kept = np.concatenate([buffer[~np.isin(buffer, picked)], np.array(picked, np.int64)])
        after = {**state, "buffer": kept[max(len(kept) - capacity, 0) :]}
        if self.most is not None:
            after["chosen"] = chosen + np.isin(np.arange(len(counts)), picked)
        return Selection(picked, after, reasons)

    def _limit(self, state: PartState, size: int) -> int:
        """How often anybody may have been chosen, once this cohort is: at least once."""
        even = (int(state["chosen"].sum()) + size) / int(state["clients"])
        return max(int((self.most or 1.0) * even), 1)

    def _best(
        self, clients: NDArray[np.int64], scores: NDArray[np.float64], tie: float, rng: np.random.Generator
    ) -> tuple[int, dict[str, Any]]:
        """The client with the largest score, and what came next."""
        tied = np.flatnonzero(scores >= scores.max() - tie)
        best = tied[rng.integers(len(tied))] if self.random_ties else tied[0]
        facts: dict[str, Any] = {"score": float(scores[best]), "runner_up": None, "runner_up_score": None}
        others, other_scores = np.delete(clients, best), np.delete(scores, best)
        if len(others):
            next_best = np.flatnonzero(other_scores >= other_scores.max() - tie)[0]
            facts |= {"runner_up": int(others[next_best]), "runner_up_score": float(other_scores[next_best])}
        return int(clients[best]), facts

    def _capacity(self, state: PartState, size: int) -> int:
        """Q, cut to K - M."""
        capacity, clients = int(state["capacity"]), int(state["clients"])
        most = max(clients - size, 0)
        if capacity <= most:
            return capacity
        rule = f"a buffer of {capacity} leaves fewer than {size} of {clients} clients to choose from (at most {most})"
        if self.strict:
            raise ConfigError(f"{self.name}: {rule}; take a smaller buffer, or strict = false to have it cut")
        if not len(state["buffer"]):
            log.warning("%s: %s: it is cut to that", self.name, rule)
        return most
