"""Choose clients by how much the update most like theirs is like it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, PartState, Selection, Update
from entrofed.info.nearest import Nearest, refreshed
from entrofed.info.similarity import Floats, closest
from entrofed.selectors.gradient_table import GradientTable, Row

DECIMALS = 12
"""Scores that agree this far are ties: beyond it, they depend on the order of summation."""
MANY = 1024
"""Clients from which on scores are kept from round to round, and only what changed is computed again."""
COSINES, NEAREST, MOVED = "cosines", "nearest", "moved"


@dataclass(frozen=True)
class SimilarityOrder(GradientTable):
    """Clients by ``s_i = max_{j != i} cos(g_i, g_j)``; :class:`MiniMaxSim` says who has none."""

    sign: ClassVar[int]
    """1: the smallest s_i first; -1: the largest."""

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """The first ``size``, each with who came next."""
        there, rows, without = self.table(state, among)
        found, state = self._scores(state, there, rows, len(clients.sizes))
        scores = np.r_[found.round(DECIMALS), np.full(len(without), np.nan)]
        numbers = np.r_[there, np.array(without, np.int64)]
        order = np.lexsort((numbers, self.sign * np.nan_to_num(scores), np.isnan(scores)))
        ranking = [(int(numbers[i]), float(scores[i]) if np.isfinite(scores[i]) else None) for i in order]
        reasons = list[dict[str, Any]]()
        for place, (client, score) in enumerate(ranking[:size]):
            runner_up, runner_up_score = ranking[place + 1] if place + 1 < len(ranking) else (None, None)
            reasons.append(
                {
                    "client": client,
                    "score": score,
                    "runner_up": runner_up,
                    "runner_up_score": runner_up_score,
                    "pool": len(ranking) - place,
                }
            )
        return Selection([reason["client"] for reason in reasons], state, reasons)

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """The table with the rows of those who answered replaced, and who they are, if anybody keeps count."""
        after = super().observe(state, params, updates)
        if MOVED not in state:
            return after
        moved = state[MOVED].copy()
        moved[[update.client for update in updates]] = True
        return {**after, MOVED: moved}

    def _scores(
        self, state: PartState, there: NDArray[np.int64], rows: list[Row], clients: int
    ) -> tuple[Floats, PartState]:
        """The s_i, and the state; of many it remembers them by client, with who is nearest (-1: unknown)."""
        if len(rows) <= MANY:
            return closest(rows), state
        place = np.full(clients + 1, -1)  # the last stands for nobody
        place[there] = np.arange(len(there))
        known = NEAREST in state
        cosines = state[COSINES][there] if known else np.full(len(there), np.nan)
        others = place[state[NEAREST][there]] if known else np.full(len(there), -1)
        changed = state[MOVED][there] | (state[NEAREST][there] < 0) if known else np.ones(len(there), np.bool_)
        found = refreshed(rows, Nearest(cosines, others), changed)
        kept = {COSINES: np.full(clients, np.nan), NEAREST: np.full(clients, -1), MOVED: np.zeros(clients, np.bool_)}
        kept[COSINES][there] = found.cosine
        kept[NEAREST][there] = np.where(found.other < 0, -1, there[found.other])
        return found.cosine, {**state, **kept}


@dataclass(frozen=True)
class MiniMaxSim(SimilarityOrder):
    """The clients whose updates are least similar to all others.

    ``s_i = max_{j != i} cos(g_i, g_j)`` over the table's rows of all who are there; the K smallest are taken, ties by
    lower number. The objective (11) is a sum over clients, so that sorting solves it exactly. A row that is missing,
    zero or not finite has no cosine: it is nobody's j, and its client comes last, by number.

    Differs from the paper: exactly K clients, because the loop of Algorithm 1 would return K + 1; rows from the table
    (Algorithm 2) instead of fresh gradients of everybody (Algorithm 1).
    """

    name: ClassVar[str] = "minimax_sim"
    sign: ClassVar[int] = 1


@dataclass(frozen=True)
class MaxSim(SimilarityOrder):
    """The opposite of :class:`MiniMaxSim`, as a baseline: the K largest s_i, ties by lower number."""

    name: ClassVar[str] = "max_sim"
    sign: ClassVar[int] = -1
