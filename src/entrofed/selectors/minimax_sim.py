"""Choose clients by how much the update most like theirs is like it."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.info.similarity import closest
from entrofed.selectors.gradient_table import GradientTable

DECIMALS = 12
"""Scores that agree this far are ties: beyond it, they depend on the order of summation."""


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
        scores = np.r_[closest(rows).round(DECIMALS), np.full(len(without), np.nan)]
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


@dataclass(frozen=True)
class MiniMaxSim(SimilarityOrder):
    """The clients whose updates are least like anybody else's.

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
