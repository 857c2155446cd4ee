"""What goes wrong in a federation, on purpose: dropout, stragglers, clients that come late, leave, or are adversarial.

All of it is drawn from named streams, so that every method meets the same faults under the same seed.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field

from entrofed.core.seeds import stream

Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Faults:
    """Shares between 0 and 1; the default is a world without faults.

    ``dropout``: of the selected clients vanish after selection, exactly ``round(dropout * M)`` of them, or each with
    that probability (``bernoulli``). ``stragglers``: of all clients are slow and train only ``1..epochs`` epochs,
    drawn once, or anew each round (``straggler_redraw``). ``joining`` and ``leaving``: of all clients come, or go, at
    a round drawn uniformly from the run. ``liars``: of all clients are adversarial: they ``claim`` that all their
    examples are of the class that is ``rarest`` overall, to gain weight, or ``uniform``, as many of each: who chooses
    clients by the entropy of pooled labels then takes them far more often than others.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", allow_inf_nan=False)

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    dropout_mode: Literal["fixed", "bernoulli"] = "fixed"
    stragglers: Share = 0.0
    straggler_redraw: bool = False
    joining: Share = 0.0
    leaving: Share = 0.0
    liars: Share = 0.0
    claim: Literal["rarest", "uniform"] = "rarest"

    def adversarial(self, seed: int, clients: int) -> set[int]:
        """Who claims labels that it does not have."""
        return self._marked(seed, "liars", self.liars, clients)

    def claimed(self, seed: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        """The label counts that clients say they have."""
        claimed = counts.copy()
        for client in self.adversarial(seed, len(counts)):
            size, classes = int(counts[client].sum()), counts.shape[1]
            if self.claim == "uniform":
                claimed[client] = size // classes + (np.arange(classes) < size % classes)
            else:
                claimed[client] = 0
                claimed[client, counts.sum(axis=0).argmin()] = size
        return claimed

    def dropped(self, seed: int, number: int, cohort: list[int]) -> set[int]:
        """Who of a cohort vanishes in this round."""
        rng = stream(seed, "dropout", number)
        if self.dropout_mode == "bernoulli":
            return {client for client, draw in zip(cohort, rng.random(len(cohort)), strict=True) if draw < self.dropout}
        gone = int(np.floor(self.dropout * len(cohort) + 0.5))
        return set(rng.choice(cohort, size=gone, replace=False).tolist()) if gone else set()

    def epochs(self, seed: int, number: int, client: int, clients: int, epochs: int) -> int:
        """Epochs that a client manages in this round, of the ``epochs`` it should."""
        if client not in self._marked(seed, "straggler", self.stragglers, clients):
            return epochs
        key = (client, number) if self.straggler_redraw else (client,)
        return int(stream(seed, "straggler epochs", *key).integers(1, epochs + 1))

    def present(self, seed: int, number: int, rounds: int, clients: int) -> NDArray[np.bool_]:
        """Who is there in this round of a run of ``rounds`` rounds."""
        there = np.ones(clients, np.bool_)
        for purpose, share in (("joining", self.joining), ("leaving", self.leaving)):
            for client in self._marked(seed, purpose, share, clients):
                moment = int(stream(seed, f"{purpose} round", client).integers(0, rounds))
                there[client] &= number >= moment if purpose == "joining" else number < moment
        return there

    def _marked(self, seed: int, purpose: str, share: float, clients: int) -> set[int]:
        """The clients that a fault falls on: a fixed share, drawn once per run."""
        count = int(np.floor(share * clients + 0.5))
        return set(stream(seed, purpose).choice(clients, size=count, replace=False).tolist()) if count else set()
