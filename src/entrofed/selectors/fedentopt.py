"""Choose the cohort whose pooled labels have maximal entropy."""

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.greedy import TIE, Candidates

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class LabelEntropyGreedy(Selector):
    """Picks one client after the other so that the entropy of the pooled labels is as large as it can be.

    The first pick is random; each further one maximizes ``H2((L + l_j) / |L + l_j|)`` over the clients that are neither
    picked nor in the buffer, where ``L`` is what the picked hold together (bits; ties by lower number, or at random
    with ``random_ties``). A FIFO ``buffer`` of the clients used last rests them: a whole number is its capacity Q, a
    fraction a share of the clients, None the paper's choice (70 % for "label_quantity" partitions, else 50 %). With
    Q <= K - M the pool always suffices; a larger Q is cut to that, or refused if ``strict``.

    Who drops out of the buffer during a round waits for the next one: as in the paper, the set of available clients
    only shrinks within a round. Differs from the paper: if that set runs empty because clients left, those in the
    buffer who have rested longest are taken.
    """

    name: ClassVar[str] = "fedentopt"
    reference: ClassVar[str] = "Lutz et al., FedEntOpt, Algorithm 1"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    buffer: int | float | None = None
    random_ties: bool = False
    strict: bool = False

    def __post_init__(self) -> None:
        if self.buffer is None:
            return
        share = isinstance(self.buffer, float)
        if not self.buffer >= 0 or (share and not self.buffer <= 1):
            raise ConfigError(
                f"fedentopt: buffer = {self.buffer}: it is a number of clients (0, 1, 2 ...) or a share (0.0 to 1.0)"
            )

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """An empty buffer."""
        buffer = self.buffer
        if buffer is None:
            buffer = 0.7 if clients.partition == "label_quantity" else 0.5
        number = len(participants)
        capacity = int(buffer * number + 1e-9) if isinstance(buffer, float) else min(buffer, number)
        return {"buffer": np.zeros(0, np.int64), "capacity": np.array(capacity), "clients": np.array(number)}

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
        pool = np.flatnonzero(free)
        candidates = Candidates(counts, pool)
        pooled = np.zeros(counts.shape[1])
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
                client, facts = self._best(*candidates.leaders(pooled, all_ties=self.random_ties), rng)
                how = "greedy"
            if left:
                candidates.remove(client)
            rested = min(len(buffer) + number, capacity)
            reasons.append({"client": client, **facts, "pool": left, "buffer": rested, "how": how})
            pooled += counts[client]
            picked.append(client)
        kept = np.concatenate([buffer[~np.isin(buffer, picked)], np.array(picked, np.int64)])
        return Selection(picked, {**state, "buffer": kept[max(len(kept) - capacity, 0) :]}, reasons)

    def _best(
        self, clients: NDArray[np.int64], bits: NDArray[np.float64], rng: np.random.Generator
    ) -> tuple[int, dict[str, Any]]:
        """The client with the largest entropy, and what came next."""
        tied = np.flatnonzero(bits >= bits.max() - TIE)
        best = tied[rng.integers(len(tied))] if self.random_ties else tied[0]
        facts: dict[str, Any] = {"score": float(bits[best]), "runner_up": None, "runner_up_score": None}
        others, other_bits = np.delete(clients, best), np.delete(bits, best)
        if len(others):
            next_best = np.flatnonzero(other_bits >= other_bits.max() - TIE)[0]
            facts |= {"runner_up": int(others[next_best]), "runner_up_score": float(other_bits[next_best])}
        return int(clients[best]), facts

    def _capacity(self, state: PartState, size: int) -> int:
        """Q, cut to K - M."""
        capacity, clients = int(state["capacity"]), int(state["clients"])
        most = max(clients - size, 0)
        if capacity <= most:
            return capacity
        rule = f"a buffer of {capacity} leaves fewer than {size} of {clients} clients to choose from (at most {most})"
        if self.strict:
            raise ConfigError(f"fedentopt: {rule}; take a smaller buffer, or strict = false to have it cut")
        if not len(state["buffer"]):
            log.warning("fedentopt: %s: it is cut to that", rule)
        return most
