"""Secure aggregation in simulation: the server's code gets the sum, and can look at no single update.

What it gets of each client is an update whose model is sealed: to read it raises a :class:`SealedError`. The sum is
made here, of the same whole numbers that clients mask on Flower (:mod:`entrofed.privacy.fixed_point`), and goes to the
server rule as if it were the update of one client. So a method that works here works under the protocol, with the same
bits.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from entrofed.core.job import Rules
from entrofed.core.params import Layout, Moved, Params
from entrofed.core.parts import ClientRule, Method, Sees, ServerRule
from entrofed.core.types import Context, PartState, Update, Weights
from entrofed.core.wrapped_server import WrappedServer
from entrofed.errors import ConfigError, EntrofedError
from entrofed.privacy.fixed_point import MOST, Whole, decode, encode


class SealedError(EntrofedError):
    """Somebody tried to read one client's update under secure aggregation."""


class SealedParams(Params):
    """A model that was sent under masks: nothing of it can be read but in a sum."""

    hidden: ClassVar[bool] = True

    def __init__(self) -> None:
        """Empty; what it stands for lies with the clients."""

    def __getattribute__(self, name: str) -> Any:
        if name in ("values", "counters"):
            _refuse(name)
        return object.__getattribute__(self, name)

    @property
    def nonfinite(self) -> int:
        """Nobody can know; what cannot be masked is not sent."""
        return 0

    def problem(self, layout: Layout) -> None:
        """Nobody can know."""
        return

    def moved(self, start: Params, layout: Layout) -> Moved:
        """Nobody can know."""
        return Moved(0.0, 0.0, 0.0, 0.0)

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        return "SealedParams()"


def _refuse(name: str) -> NoReturn:
    raise SealedError(f"under secure aggregation the server does not see a single client's {name}, only sums")


_clients: WeakKeyDictionary[SealedParams, Update] = WeakKeyDictionary()
"""What only the clients know."""
NOTHING = Layout((), 0, 0, 0)
"""Of no model."""


@dataclass(frozen=True, eq=False)
class MaskedSum(SealedParams):
    """What a protocol made of updates that nobody has seen: the sum of their :func:`addend`, and ``sum_k alpha_k``."""

    total: Whole
    weight: float

    def __init__(self, total: Whole, weight: float) -> None:
        object.__setattr__(self, "total", total)
        object.__setattr__(self, "weight", weight)


def sealed(update: Update) -> Update:
    """What a server learns of one update: who sent it, and the number of examples that weights are made of."""
    if isinstance(update.params, SealedParams):
        return update
    cover = SealedParams()
    _clients[cover] = update
    return Update(
        client=update.client,
        params=cover,
        num_examples=update.num_examples,
        num_steps=1,
        train_loss=float("nan"),
        train_loss_last_epoch=float("nan"),
        seconds=update.seconds,
    )


def addend(
    update: Update, start: Params, weight: float, rule: ClientRule | None, layout: Layout
) -> NDArray[np.float64]:
    """What a client adds to the sum: ``alpha_k (w_k - w)``, of integer buffers, too, and what its rule adds up."""
    steps = (update.params.values.astype(np.float64) - start.values, update.params.counters - start.counters)
    found = weight * np.concatenate([np.asarray(step, np.float64) for step in steps])
    if rule is None:
        return found
    found[: layout.trainable] /= rule.divisor(update)
    more = rule.addend(update, start, weight, layout)
    return np.concatenate([found, *(np.asarray(more[name], np.float64) for name in rule.sums(layout))])


def addend_size(rule: ClientRule | None, layout: Layout) -> int:
    """The numbers in an addend."""
    return layout.floats + layout.counters + sum(() if rule is None else rule.sums(layout).values())


def moved(start: Params, step: NDArray[np.float64]) -> Params:
    """The model that the sum of steps leads to; integer buffers are rounded."""
    end = len(start.values)
    values = (start.values + step[:end]).astype(np.float32)
    return Params(values, start.counters + np.rint(step[end:]).astype(np.int64))


def opened(update: Update) -> Update:
    """The update as its client knows it."""
    return _clients[update.params] if isinstance(update.params, SealedParams) else update


def one_update(updates: Sequence[Update], params: Params) -> Update:
    """A sum over a cohort as the update of one client; of single clients it says nothing."""
    total = sum(update.num_examples for update in updates)
    return Update(-1, params, total, 1, train_loss=float("nan"), train_loss_last_epoch=float("nan"))


@dataclass(frozen=True)
class Secure(WrappedServer):
    """Another server rule, which gets the sum and nothing else."""

    name: ClassVar[str] = "secure"
    sees: ClassVar[Sees] = "sum"

    server: ServerRule

    def seen(self, updates: Sequence[Update]) -> Sequence[Update]:
        """Without their models, losses and facts."""
        return [sealed(update) for update in updates]

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """The other rule's model of the sum."""
        first, rule, layout = updates[0].params, self.server.client, context.layout
        if isinstance(first, MaskedSum):
            found, weight = decode(first.total), first.weight
        else:
            total = np.zeros(addend_size(rule, layout), np.uint64)
            for update, share in zip(updates, weights, strict=True):
                total += encode(addend(opened(update), context.params, float(share), rule, layout))
            found, weight = decode(total), 1.0
        end = layout.floats + layout.counters
        one = one_update(updates, moved(context.params, found[:end] / weight))
        if rule is not None:
            sums = rule.sums(layout)
            parts = np.split(found[end:], np.cumsum(list(sums.values()))[:-1])
            one = replace(one, facts=rule.summed(dict(zip(sums, parts, strict=False))))
        return self.server.apply([one], np.ones(1), context, state)


def check_secure(method: Method, *, peers: bool, cohort: int) -> None:
    """Raise a ConfigError, with the reason, for a method that cannot run under secure aggregation."""
    if peers:
        raise ConfigError("privacy.secure: a [topology] has no server to hide updates from; leave it out")
    for kind in ("selector", "weigher", "server"):
        part = getattr(method, kind)
        if part.sees != "sum":
            what = "each client's model" if part.sees == "models" else "numbers of each client"
            raise ConfigError(
                f"privacy.secure: {kind} {part.name!r} must see {what}, and under secure aggregation the server sees "
                "sums only; 'entrofed parts' says which methods can do with that"
            )
    rule = method.server.client
    if rule is not None and rule.sends and not rule.sums(NOTHING):
        raise ConfigError(
            f"privacy.secure: for server rule {method.server.name!r} clients send {rule.sends} along with the model, "
            "and it does not say how that is summed (ClientRule.sums); choose another"
        )
    if cohort > MOST:
        raise ConfigError(
            f"privacy.secure: a cohort of {cohort} clients; at most {MOST} can be summed without overflow"
        )


def unjudged(rules: Rules) -> Rules:
    """The rules without a look at single updates.

    Whom to refuse would depend on what others sent, which no clip bounds, and under masks nobody can look: instead, a
    step that is too long is cut, and one that is not finite counts as none.
    """
    return replace(rules, admission="off", nonfinite="propagate")


def runs_secure(method: Method) -> bool:
    """Whether a method can run under secure aggregation."""
    try:
        check_secure(method, peers=False, cohort=1)
    except ConfigError:
        return False
    return True
