"""What is written down of a round: what each client did, bytes and seconds."""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Layout
from entrofed.core.types import Ledger, PartState, Update


def client_entry(update: Update, weight: float, origin: dict[str, Any] | None) -> dict[str, Any]:
    """What the record of a round says of one client."""
    return {
        "client": update.client,
        "examples": update.num_examples,
        "steps": update.num_steps,
        "weight": float(weight),
        "train_loss": update.train_loss,
        "train_loss_last_epoch": update.train_loss_last_epoch,
        **({"loss_terms": dict(update.terms)} if update.terms else {}),
        **({"origin": origin} if origin is not None else {}),
    }


class Books:
    """Bytes between server and clients (float32 models, numbers of eight bytes), and seconds by phase."""

    def __init__(self, layout: Layout) -> None:
        self._model = layout.nbytes
        self.down = self.up = 0
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        """The phase that ends now."""
        now = time.perf_counter()
        self.laps[phase] = now - self._last
        self._last = now

    def models(self, *, down: int, up: int) -> None:
        """Models that were sent."""
        self.down += down * self._model
        self.up += up * self._model

    def released(self, ledger: Ledger, clients: NDArray[np.int64]) -> None:
        """Label counts and their summaries, once."""
        for table in (ledger.label_counts, ledger.summaries):
            self.up += sum(table[client].nbytes for client in clients) if table is not None else 0

    def losses(self, clients: int) -> None:
        """The model to each candidate, and its loss back."""
        self.down += clients * self._model
        self.up += clients * 8

    def extras(self, clients: int, broadcast: PartState, updates: Sequence[Update]) -> None:
        """What goes along with the models, both ways."""
        self.down += clients * sum(array.nbytes for array in broadcast.values())
        self.up += sum(array.nbytes for update in updates for array in update.facts.values())
