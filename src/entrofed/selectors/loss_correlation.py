"""Choose clients whose training lowers the losses of others, too."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import Fact, Sees, Selector
from entrofed.core.types import ClientTable, PartState, Selection
from entrofed.errors import ConfigError
from entrofed.facts.loss import Loss
from entrofed.info.correlation import Posterior, factor
from entrofed.selectors.joined import widened


@dataclass(frozen=True)
class LossCorrelation(Selector):
    """Picks clients by the correlation of their losses, with a Gaussian process over clients.

    The changes of all losses from one round to the next are taken for draws of ``N(0, X^T X + noise^2 I)``, with
    ``dimension`` rows of X that are fitted to the ``history`` last draws, one of r rounds ago with weight ``forget^r``.
    Each pick maximizes ``beta^t_k sum_i p_i S_ik / sqrt(S_kk)``, with the shares ``p`` of the data and ``t_k``, how
    often k was picked since the last draw; then the covariance S is conditioned on its loss.

    The first ``warmup`` cohorts are random, and afterwards every ``interval``-th: only after these, losses changed as
    they do without a choice, and make a draw.

    Differs from the paper: a random cohort now and then in place of a training of random clients beside the run, whose
    model is thrown away; X in closed form (the largest principal components, see :mod:`entrofed.info.correlation`)
    instead of by some hundred steps of Adam; and everybody is asked for a loss in each round, not only around draws.
    """

    name: ClassVar[str] = "loss_correlation"
    reference: ClassVar[str] = "Tang et al., FedCor, CVPR 2022, and the authors' program"
    facts: ClassVar[tuple[Fact, ...]] = (Loss(),)
    sees: ClassVar[Sees] = "scalars"
    """Losses."""

    warmup: int = 25
    interval: int = 5
    history: int = 10
    forget: float = 0.8
    beta: float = 0.9
    dimension: int = 15
    noise: float = 0.01

    def __post_init__(self) -> None:
        where = f"selector {self.name!r}"
        for option in ("warmup", "interval", "history", "dimension"):
            if getattr(self, option) < 1:
                raise ConfigError(f"{where}: {option} = {getattr(self, option)} must be at least 1")
        for option in ("forget", "beta"):
            if not 0 < getattr(self, option) <= 1:
                raise ConfigError(f"{where}: {option} = {getattr(self, option)} must be above 0 and at most 1")
        if not 0 < self.noise < float("inf"):
            raise ConfigError(f"{where}: noise = {self.noise} must be above 0")

    def init(self, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """No losses, no draws."""
        return {
            "round": np.zeros((), np.int64),
            "random": np.zeros((), np.bool_),
            "losses": np.zeros(0),
            "changes": np.zeros((0, 0)),
            "when": np.zeros(0, np.int64),
            "times": np.zeros(0, np.int64),
        }

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """A random cohort, or the picks with what each is expected to bring."""
        number, count = int(state["round"]), len(clients.sizes)
        told = clients.told(Loss.name, f"selector {self.name!r}")
        losses = np.array([np.nan if loss is None else float(loss) for loss in told], np.float64)
        changes, when, times = widened(state["changes"], count), state["when"], widened(state["times"], count)
        if state["random"]:
            before = widened(state["losses"], count, np.nan)
            with np.errstate(invalid="ignore"):
                change = np.nan_to_num(losses - before, nan=0.0, posinf=0.0, neginf=0.0)
            changes = np.vstack([changes, change])[-self.history :]
            when = np.append(when, number - 1)[-self.history :]
            times = np.zeros(count, np.int64)
        since = number - self.warmup
        draw = since < 0 or since % self.interval == self.interval - 1
        reasons: list[dict[str, Any]] = []
        if draw:
            picked: list[int] = rng.permutation(among)[:size].tolist()
        else:
            reasons = self._picks(changes, when, times, clients, among, size)
            picked = [reason["client"] for reason in reasons]
            times = times + np.isin(np.arange(count), picked)
        after = {"losses": losses, "changes": changes, "when": when, "times": times}
        return Selection(picked, {"round": np.array(number + 1), "random": np.array(draw), **after}, reasons)

    def _picks(
        self,
        changes: NDArray[np.float64],
        when: NDArray[np.int64],
        times: NDArray[np.int64],
        clients: ClientTable,
        among: NDArray[np.int64],
        size: int,
    ) -> list[dict[str, Any]]:
        weights = self.forget ** (when.max(initial=0) - when).astype(np.float64)
        posterior = Posterior(factor(changes[:, among], weights, self.dimension, self.noise), self.noise)
        shares = clients.sizes[among] / max(int(clients.sizes[among].sum()), 1)
        annealed, reasons = self.beta ** times[among].astype(np.float64), []
        left = np.ones(len(among), np.bool_)
        for _ in range(min(size, len(among))):
            scores = np.where(left, annealed * posterior.decrease(shares), -np.inf)
            place = int(np.argmax(scores))
            reasons.append({"client": int(among[place]), "score": float(scores[place]), "pool": int(left.sum())})
            posterior.condition(place)
            left[place] = False
        return reasons
