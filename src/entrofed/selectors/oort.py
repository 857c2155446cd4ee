"""Choose clients that the model can still learn from, and that answer soon."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from entrofed.core.params import Params
from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection, Update
from entrofed.facts.squared_loss import SquaredLoss
from entrofed.selectors.joined import widened

UNCERTAINTY = 0.1
UNKNOWN = -1.0
LEAST = 1e-12
"""Nobody's probability is 0."""
MOST = 1e100
"""A utility above this is not believed: sums of such would not be finite."""
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Oort(Selector):
    """Statistical utility times system utility, with exploration.

    The statistical utility of client k is ``U_k = n_k sqrt(sum_i l_i^2 / n_k)`` for the losses of its n_k samples when
    it last took part, cut at the ``clip`` quantile of all and divided by that. In round R (from 1 on) its score is
    ``(U_k + sqrt(0.1 ln R / L_k)) min(1, T / D_k)^penalty``: L_k is the last round it took part in, D_k the seconds
    that a round takes it, T the ``percentile`` of all. Of the K places ``floor((1 - e) K)``, ``e = max(explore
    decay^(R-1), least)``, are drawn in proportion to the score among all who have ``cut_off`` of the last one's that
    would make it; the others go to clients that never took part, drawn in proportion to 1 / D_k. Every ``window``
    rounds T is relaxed by ``step`` percentiles, if the utilities of the last ``window`` sum to less than those of the
    ``window`` before. Clients that were chosen and did not answer come last. Without a [clock], D_k is the same for
    all, and only the statistical utility counts.

    Differs from the paper: losses are those of the trained model, not those met while training, which would be
    another fact; T is a percentile, as in the authors' program, where the paper adds seconds; utilities are brought to
    0..1, as there too, or the second term would not count; the pacer looks every ``window`` rounds; nobody is ruled
    out for having been chosen often.
    """

    name: ClassVar[str] = "oort"
    reference: ClassVar[str] = "Lai et al., Oort, OSDI 2021, Algorithm 1"
    facts: ClassVar[tuple[Fact, ...]] = (SquaredLoss(),)
    sees: ClassVar[Sees] = "scalars"
    """Losses, and numbers of examples."""

    explore: Share = 0.9
    decay: Share = 0.98
    least: Share = 0.2
    penalty: Annotated[float, Field(ge=0)] = 2.0
    cut_off: Share = 0.95
    clip: Annotated[float, Field(gt=0, le=1)] = 0.95
    percentile: Annotated[float, Field(ge=0, le=100)] = 30.0
    step: Annotated[float, Field(ge=0)] = 5.0
    window: Annotated[int, Field(ge=1)] = 20

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """Nobody has taken part."""
        n = len(clients.sizes)
        return {
            "utility": np.full(n, UNKNOWN),
            "last": np.zeros(n, np.int64),
            "tried": np.zeros(n, np.bool_),
            "round": np.zeros(1, np.int64),
            "percentile": np.array([self.percentile]),
            "history": np.zeros(2 * self.window),
        }

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """Known clients by score, then new ones by speed, then those who did not answer before."""
        number, percentile, count = int(state["round"][0]) + 1, self._paced(state), len(clients.sizes)
        seconds = np.ones(count) if clients.seconds is None else clients.seconds
        utility, last = widened(state["utility"], count, UNKNOWN), widened(state["last"], count)
        told, tried = utility[among] >= 0, widened(state["tried"], count)
        known, new, silent = among[told], among[~told & ~tried[among]], among[~told & tried[among]]
        scores = self._scores(state, known, number, percentile, seconds)
        exploring = max(self.explore * self.decay ** (number - 1), self.least)
        wanted = min(int((1 - exploring) * size + 1e-9), len(known))  # (1 - 0.9) * 10 is below 1
        fresh = min(size - wanted, len(new))
        wanted = min(size - fresh, len(known))
        exploited = self._drawn(known, scores, wanted, rng)
        picked = [
            *exploited,
            *_by_speed(new, seconds, fresh, rng),
            *_by_speed(silent, seconds, min(size - fresh - wanted, len(silent)), rng),
        ]
        score = dict(zip(known.tolist(), scores.tolist(), strict=True))
        reasons: list[dict[str, Any]] = [
            {
                "client": client,
                "why": "utility" if client in exploited else "unexplored",
                "score": score.get(client) if client in exploited else None,
                "seconds": None if clients.seconds is None else float(seconds[client]),
            }
            for client in picked
        ]
        tried[picked] = True
        after = {"utility": utility, "last": last, "tried": tried}
        after |= {"round": np.array([number]), "percentile": np.array([percentile])}
        return Selection(picked, {**state, **after}, reasons)

    def observe(self, state: PartState, params: Params, updates: Sequence[Update]) -> PartState:
        """The utilities of those who answered; one that is not finite is worth nothing."""
        utility, last = state["utility"].copy(), state["last"].copy()
        for update in updates:
            found = update.num_examples * float(update.facts[SquaredLoss.name])
            utility[update.client] = found if found <= MOST else 0.0
            last[update.client] = max(int(state["round"][0]), 1)
        total = float(sum(utility[update.client] for update in updates))
        return {**state, "utility": utility, "last": last, "history": np.append(state["history"][1:], total)}

    def _paced(self, state: PartState) -> float:
        number, history = int(state["round"][0]), state["history"]
        look = number >= 2 * self.window and number % self.window == 0
        falls = look and history[: self.window].sum() > history[self.window :].sum()
        return float(min(state["percentile"][0] + (self.step if falls else 0.0), 100.0))

    def _scores(
        self,
        state: PartState,
        known: NDArray[np.int64],
        number: int,
        percentile: float,
        seconds: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        if not len(known):
            return np.zeros(0)
        utility = state["utility"][known]
        cap = float(np.quantile(utility, self.clip))
        scaled = np.minimum(utility, cap) / cap if cap > 0 else np.ones(len(known))
        uncertain = sqrt(UNCERTAINTY * log(number)) / np.sqrt(state["last"][known])
        preferred = float(np.percentile(seconds, percentile))
        return np.asarray((scaled + uncertain) * np.minimum(1.0, preferred / seconds[known]) ** self.penalty)

    def _drawn(
        self, known: NDArray[np.int64], scores: NDArray[np.float64], wanted: int, rng: np.random.Generator
    ) -> list[int]:
        if not wanted:
            return []
        order = np.lexsort((known, -scores))
        admitted = order[scores[order] >= self.cut_off * scores[order[wanted - 1]]]
        weights = np.maximum(scores[admitted], LEAST)
        return _ints(rng.choice(known[admitted], size=wanted, replace=False, p=weights / weights.sum()))


def _by_speed(
    clients: NDArray[np.int64], seconds: NDArray[np.float64], wanted: int, rng: np.random.Generator
) -> list[int]:
    if not wanted:
        return []
    speed = 1 / seconds[clients]
    return _ints(rng.choice(clients, size=wanted, replace=False, p=speed / speed.sum()))


def _ints(clients: NDArray[np.int64]) -> list[int]:
    return [int(client) for client in clients]
