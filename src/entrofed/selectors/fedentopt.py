"""Choose the cohort whose pooled labels have maximal entropy."""

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError
from entrofed.info.greedy import PooledEntropies
from entrofed.types import LABEL_COUNTS, Ledger, PartState, Selection, Selector

log = logging.getLogger("entrofed")

TIE = 1e-12
"""Entropies (bits) that differ by no more are the same."""


@dataclass(frozen=True)
class LabelEntropyGreedy(Selector):
    """Picks one client after the other so that the entropy of the pooled labels is as large as it can be.

    The first pick is random; each further one maximizes ``H2((L + l_j) / |L + l_j|)`` over the clients that are neither
    picked nor in the buffer, where ``L`` is what the picked hold together (bits; ties by lower number, or at random
    with ``random_ties``). A FIFO ``buffer`` of the clients used last rests them: a whole number is its capacity Q, a
    fraction a share of the clients, None the paper's choice (70 % for "label_quantity" partitions, else 50 %). With
    Q <= K - M the pool always suffices; a larger Q is cut to that, or refused if ``strict``.

    Differs from the paper: if the pool runs empty nevertheless (clients left), the oldest in the buffer are taken.
    """

    name: ClassVar[str] = "fedentopt"
    reference: ClassVar[str] = "Lutz et al., FedEntOpt, Algorithm 1"
    needs: ClassVar[frozenset[str]] = frozenset({LABEL_COUNTS})

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

    def init(self, ledger: Ledger, participants: NDArray[np.int64]) -> PartState:
        """An empty buffer."""
        buffer = self.buffer
        if buffer is None:
            buffer = 0.7 if ledger.partition == "label_quantity" else 0.5
        clients = len(participants)
        capacity = int(buffer * clients + 1e-9) if isinstance(buffer, float) else buffer
        return {
            "buffer": np.zeros(0, np.int64),
            "capacity": np.array(capacity),
            "clients": np.array(clients),
        }

    def select(
        self, state: PartState, ledger: Ledger, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A cohort, each pick with its score and what would have been picked in its place."""
        if ledger.label_counts is None:
            raise ConfigError("fedentopt: the clients released no label counts")
        capacity = self._capacity(state, size)
        buffer: list[int] = state["buffer"].tolist()
        pool = np.setdiff1d(among, buffer)
        free = np.ones(len(pool), np.bool_)
        entropies = PooledEntropies(ledger.label_counts, pool)
        pooled = np.zeros(ledger.label_counts.shape[1])
        picked: list[int] = []
        reasons: list[dict[str, Any]] = []
        present = set(among.tolist())
        for _ in range(min(size, len(among))):
            reason: dict[str, Any] = {"pool": int(free.sum()), "buffer": len(buffer)}
            if not free.any():
                rested = [c for c in state["buffer"].tolist() if c in present and c not in picked]
                if not rested:
                    break
                client = rested[0]
                reason |= {"client": client, "score": None, "how": "fallback"}
            elif not picked:
                client = int(pool[rng.integers(len(pool))])
                reason |= {"client": client, "score": None, "how": "random"}
            else:
                client, facts = self._best(pool[free], entropies.given(pooled)[free], rng)
                reason |= {"client": client, **facts, "how": "greedy"}
            if capacity > 0:
                buffer = [*buffer[max(len(buffer) - capacity + 1, 0) :], client]
            free &= pool != client
            pooled += ledger.label_counts[client]
            picked.append(client)
            reasons.append(reason)
        return Selection(picked, {**state, "buffer": np.array(buffer, np.int64)}, reasons)

    def _best(
        self, pool: NDArray[np.int64], scores: NDArray[np.float64], rng: np.random.Generator
    ) -> tuple[int, dict[str, Any]]:
        """The client with the largest score, and what came after it."""
        tied = np.flatnonzero(scores >= scores.max() - TIE)
        best = int(tied[rng.integers(len(tied))]) if self.random_ties else int(tied[0])
        others = np.delete(scores, best)
        facts: dict[str, Any] = {"score": float(scores[best]), "runner_up": None, "runner_up_score": None}
        if len(others):
            second = int(np.flatnonzero(others >= others.max() - TIE)[0])
            facts |= {"runner_up": int(np.delete(pool, best)[second]), "runner_up_score": float(others[second])}
        return int(pool[best]), facts

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
