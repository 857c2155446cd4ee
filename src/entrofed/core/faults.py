"""What goes wrong in a federation, on purpose: dropout, stragglers, clients that come late, leave, or are adversarial.

All of it is drawn from named streams, so that every method meets the same faults under the same seed.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from entrofed.core.seeds import stream

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Faults:
    """Simulated faults, as shares between 0 and 1; by default there are none.

    Of a cohort of M, ``round(dropout * M)`` vanish, or each with that probability (``bernoulli``). Rounds at which
    clients come or go are drawn uniformly from the run. Who claims the rarest class gains weight; who claims uniform
    labels is chosen far more often than others by selectors that maximize the entropy of pooled labels.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """The share of the chosen clients that drop out before they answer."""
    dropout_mode: Literal["fixed", "bernoulli"] = "fixed"
    """``fixed``: exactly that share; ``bernoulli``: each with that probability."""
    stragglers: Share = 0.0
    """The share of all clients that train for 1 to ``epochs`` epochs only."""
    straggler_redraw: bool = False
    """Draw the stragglers' epochs anew each round."""
    joining: Share = 0.0
    """The share of all clients that join at a random round."""
    leaving: Share = 0.0
    """The share of all clients that leave for good at a random round."""
    liars: Share = 0.0
    """The share of all clients that are adversarial: they make false claims about their labels."""
    claim: Literal["rarest", "uniform"] = "rarest"
    """What they claim: only the class that is ``rarest`` overall, or ``uniform``, as many of each."""

    def adversarial(self, seed: int, clients: int) -> frozenset[int]:
        """Who claims labels that it does not have."""
        return _marked(seed, "liars", self.liars, clients)

    def claimed(self, seed: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The label counts that clients say they have."""
        claimed, rarest = counts.copy(), counts.sum(axis=0).argmin()
        for client in self.adversarial(seed, len(counts)):
            size, classes = int(counts[client].sum()), counts.shape[1]
            if self.claim == "uniform":
                claimed[client] = size // classes + (np.arange(classes) < size % classes)
            else:
                claimed[client] = 0
                claimed[client, rarest] = size
        return claimed

    def dropped(self, seed: int, number: int, cohort: list[int]) -> set[int]:
        """Who of a cohort vanishes in this round."""
        if not self.dropout:
            return set()
        rng = stream(seed, "dropout", number)
        if self.dropout_mode == "bernoulli":
            return {client for client, draw in zip(cohort, rng.random(len(cohort)), strict=True) if draw < self.dropout}
        gone = int(np.floor(self.dropout * len(cohort) + 0.5))
        return set(rng.choice(cohort, size=gone, replace=False).tolist()) if gone else set()

    def epochs(self, seed: int, number: int, client: int, clients: int, epochs: int) -> int:
        """Epochs that a client manages in this round, of the ``epochs`` it should."""
        if client not in _marked(seed, "straggler", self.stragglers, clients):
            return epochs
        key = (client, number) if self.straggler_redraw else (client,)
        return int(stream(seed, "straggler epochs", *key).integers(1, epochs + 1))

    def present(self, seed: int, number: int, rounds: int, clients: int) -> NDArray[np.bool_]:
        """Who is there in this round of a run of ``rounds`` rounds."""
        there = np.ones(clients, np.bool_)
        if self.joining:
            there &= number >= _moments(seed, "joining", self.joining, rounds, clients)
        if self.leaving:
            there &= number < _moments(seed, "leaving", self.leaving, rounds, clients)
        return there


@lru_cache(maxsize=16)
def _marked(seed: int, purpose: str, share: float, clients: int) -> frozenset[int]:
    """The clients that a fault falls on: a fixed share, drawn once per run."""
    count = int(np.floor(share * clients + 0.5))
    return frozenset(stream(seed, purpose).choice(clients, size=count, replace=False).tolist() if count else ())


@lru_cache(maxsize=4)
def _moments(seed: int, purpose: str, share: float, rounds: int, clients: int) -> NDArray[np.int64]:
    """The round in which each client comes (0 for those who are always there), or goes, if it does."""
    moments = np.full(clients, 0 if purpose == "joining" else np.iinfo(np.int64).max)
    for client in _marked(seed, purpose, share, clients):
        moments[client] = stream(seed, f"{purpose} round", client).integers(0, rounds)
    moments.flags.writeable = False
    return moments
