"""Differential privacy of updates: each client's step is cut to a length, and the sum of them is noised.

With weights ``alpha_k`` and steps ``d_k = w_k - w``, all that goes on to the server rule is::

    Delta = sum_k alpha_k d_k min(1, clip / |d_k|) + N(0, (z max_k alpha_k clip)^2 I)

The sum changes by ``max_k alpha_k clip`` at most (L2) if one client's steps become zero, so z is the noise multiplier
whatever the weights are; a weigher that lets one client weigh more pays with noise (``capped`` bounds that). Weights
must not depend on updates: then no clip would bound what a client does to the others' weights.

Reference: McMahan et al., Learning Differentially Private Recurrent Language Models, ICLR 2018; Andrew et al.,
Differentially Private Learning with Adaptive Clipping, NeurIPS 2021; Kairouz, Liu and Steinke, The Distributed Discrete
Gaussian Mechanism, ICML 2021 (shares of noise at clients).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.core.parts import ClientRule, LabelFact, Method, Sees, ServerRule, TrainTask
from entrofed.core.seeds import stream
from entrofed.core.types import ClientTable, Context, PartState, Update, Weights
from entrofed.core.wrapped_server import WrappedServer
from entrofed.errors import ConfigError
from entrofed.privacy.noise import noised
from entrofed.privacy.secure import NOTHING, moved, one_update

Where = Literal["server", "client"]
CLIP = "private_clip"
FOR_CLIP = 0.05
"""The share of a step's ``1 / z^2`` that is spent on the noised share of steps that were not cut."""
CLIP_RATE = 0.2
"""How fast the clip follows its quantile (eta_C of Andrew et al.)."""
UNIFORM = "uniform"


def clipped(params: Params, start: Params, clip: float) -> tuple[NDArray[np.float64], bool]:
    """A client's step, cut to the length ``clip``, and whether it was no longer; one that is not finite becomes 0.

    To refuse such a client would tell that it was there.
    """
    step = np.subtract(params.values, start.values, dtype=np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        length = float(np.sqrt(np.square(step).sum()))
    if not np.isfinite(length):
        return np.zeros_like(step), False
    return (step, True) if length <= clip else (step * (clip / length), False)


@dataclass(frozen=True)
class LocalNoise(ClientRule):
    """The client's side of ``where = "client"``: it cuts its step, noises it, and keeps its losses to itself."""

    name: ClassVar[str] = "local_noise"

    clip: float = 1.0
    noise: float = 1.0
    """The multiplier of this client's own message: standard deviation over clip."""
    simulate: bool = False

    def report(self, task: TrainTask, update: Update) -> Update:
        """The update as it may leave the client."""
        rng = stream(task.seed, "update noise", task.round, task.client) if self.simulate else None
        step, _ = clipped(update.params, task.params, self.clip)
        values = (task.params.values + noised(step, self.clip, self.noise, rng)).astype(np.float32)
        return replace(
            update,
            params=Params(values, update.params.counters),
            train_loss=float("nan"),
            train_loss_last_epoch=float("nan"),
            terms={},
        )


@dataclass(frozen=True)
class Private(WrappedServer):
    """Another server rule, which gets the noised sum as if it were the update of one client, and nothing else."""

    name: ClassVar[str] = "private"

    server: ServerRule
    clip: float
    noise: float
    """The multiplier z."""
    where: Where = "server"
    quantile: float | None = None
    """The share of steps that the clip should leave as they are; the clip follows it from round to round."""
    shares: int = 1
    """Noise that is added at the clients is enough once so many have answered."""
    divisor: int | None = None
    """Weights are all ``1 / divisor``: where cohorts are Poisson samples, their size must not enter."""
    simulate: bool = False

    @property
    def sees(self) -> Sees:
        """Sums, unless each client's message is noised by itself."""
        return self.server.sees if self.where == "client" else "sum"

    @property
    def client(self) -> ClientRule | None:
        """Noise at the clients, if it is theirs to add."""
        if self.where == "server":
            return self.server.client
        return LocalNoise(self.clip, self.noise / self.shares**0.5, self.simulate)

    def init(self, params: Params, clients: ClientTable, participants: NDArray[np.int64]) -> PartState:
        """The clip, if it moves."""
        own = {} if self.quantile is None else {CLIP: np.array(float(self.clip))}
        return {**self.server.init(params, clients, participants), **own}

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The other rule's model of the noised sum."""
        if self.where == "client":
            return self.server.apply(updates, weights, context, state)
        clip = float(state[CLIP]) if CLIP in state else self.clip
        inner = {key: value for key, value in state.items() if key != CLIP}
        if self.divisor is not None:
            weights = np.full(len(updates), 1 / self.divisor)
        total, kept = np.zeros(len(context.params.values)), 0
        for update, weight in zip(updates, weights, strict=True):
            step, whole = clipped(update.params, context.params, clip)
            total += weight * step
            kept += whole
        rng = context.stream("update noise") if self.simulate else None
        for_clip = 0.0 if self.quantile is None else FOR_CLIP
        total = noised(total, float(weights.max()) * clip, self.noise / (1 - for_clip) ** 0.5, rng)
        one = one_update(updates, moved(context.params, total))
        params, after = self.server.apply([one], np.ones(1), context, inner)
        if self.quantile is not None:
            count = self.divisor or len(updates)
            half = noised(np.array([kept - len(updates) / 2]), 0.5, self.noise / FOR_CLIP**0.5, rng)
            share = float(half[0]) / count + 0.5
            after = {**after, CLIP: np.array(clip * np.exp(-CLIP_RATE * (share - self.quantile)))}
        return params, after


WHY = {
    "selector": "it chooses by single updates, which nothing protects",
    "weigher": "its weights depend on updates before they are cut, so that no clip bounds what one client does to them",
    "server": "its model is no function of the sum of updates, which is all that is noised",
}


def check_private(method: Method, where: Where, *, counts: bool, shares: int, peers: bool, quantile: bool) -> None:
    """Raise a ConfigError, with the reason, for a method whose updates cannot be made private in this way.

    ``counts``: label counts are noised. ``shares``: as in :class:`Private`.
    """
    section = "[privacy.updates]"
    for fact in method.facts:
        if not isinstance(fact, LabelFact):
            raise ConfigError(f"{section}: {fact.reveals} would leave each client without noise; choose another method")
        if not counts:
            raise ConfigError(
                f"{section}: {fact.reveals} would leave each client without noise, and noise on updates does not "
                "mend that; set privacy.epsilon"
            )
    if method.pools and not counts:
        raise ConfigError(f"{section}: the sum of all label counts would be known without noise; set privacy.epsilon")
    if where == "server" and peers:
        raise ConfigError(f"{section}: a [topology] has no server that could add noise; set where = 'client'")
    if where == "client" and quantile:
        raise ConfigError(
            f"{section}: quantile needs to know whose step was cut, which is not to leave the client; leave it out"
        )
    rule = method.server.client
    if rule is not None and (where == "client" or rule.sends or rule.sums(NOTHING)):
        sent = f"clients send {rule.sends} along with the model" if rule.sends else "clients train by a rule of its own"
        raise ConfigError(f"{section}: server rule {method.server.name!r}: {sent}, and nothing noises that")
    if where == "client" and shares == 1:
        return
    for kind in ("selector", "weigher", "server"):
        part = getattr(method, kind)
        if part.sees != "sum":
            raise ConfigError(
                f"{section}: {kind} {part.name!r} cannot be made private: {WHY[kind]}. Choose another, or noise each "
                "message by itself: where = 'client', method.quorum = 1"
            )
    if where == "client" and method.weigher.name != UNIFORM:
        raise ConfigError(
            f"{section}: shares of noise add up as reckoned only if all weigh alike; choose weigher = 'uniform', "
            "where = 'server', or method.quorum = 1, where each client's noise is enough by itself"
        )


def check_layout(layout: Layout) -> None:
    """Raise a ConfigError for a model with buffers."""
    if (buffers := layout.floats - layout.trainable) or layout.counters:
        raise ConfigError(
            f"[privacy.updates]: the model has {buffers + layout.counters} numbers that are no parameters (BatchNorm's "
            "running means, variances and counters); noise would make variances negative, and without noise they tell "
            "of the data. Choose a model without BatchNorm"
        )
