"""A user's own objects and functions as parts: nothing needs to be registered, a dataclass, or say more than it must.

What an object lacks of its kind (:mod:`entrofed.core.parts`) is as in a part that says nothing about it; its name is
that of its class. A function is enough for

- a weigher: ``(updates, context) -> weights``,
- a selector: ``(clients, candidates, size, rng) -> client numbers``,
- an objective: ``(logits, y) -> loss``; a torch loss such as ``nn.CrossEntropyLoss(label_smoothing=0.1)`` is one.

>>> part = complete("weigher", lambda updates, context: [1.0 for _ in updates])
>>> part.name, part.facts, part.weigh([None, None], None).weights.tolist()
('lambda', (), [1.0, 1.0])
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from operator import index
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.params import Params
from entrofed.core.parts import ClientRule, Fact, Given, Objective, Part, Selector, ServerRule, Weigher
from entrofed.core.types import ClientTable, Context, PartState, Selection, Update, Weighing, Weights
from entrofed.errors import ConfigError, EntrofedError, blamed
from entrofed.registry.checks import FUNCTIONS, PROTOCOLS, VERBS, called, check, name_of, offered, parameters, takes
from entrofed.registry.references import reference_of


class Own(Part):
    """A part around a user's object or function."""

    kind: ClassVar[str]
    changes: ClassVar[frozenset[str]] = frozenset({"name", "facts", "needs"})
    """What is not handed on as the object has it."""
    part: Any
    table: Mapping[str, Any]
    """What :func:`entrofed.registry.build` makes it from."""
    _key: str
    _theirs: frozenset[str] = frozenset()

    def __init__(self, part: Any, table: Mapping[str, Any] | None = None, key: str | None = None) -> None:
        theirs = frozenset(name for name in offered(self.kind) if hasattr(part, name)) - self.changes
        name = getattr(part, "name", None) or _snake(name_of(part))
        table = table_of(part) if table is None else table
        vars(self).update(part=part, table=table, name=name, _theirs=theirs, _key=key or uuid4().hex)

    def __getattribute__(self, name: str) -> Any:
        mine = object.__getattribute__
        return getattr(mine(self, "part"), name) if name in mine(self, "_theirs") else mine(self, name)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.part, self.table, self._key)

    def __eq__(self, other: object) -> bool:
        """A copy in another process is equal; so are objects that say so."""
        if not isinstance(other, Own) or self._key == other._key:
            return isinstance(other, Own)
        with suppress(Exception):  # of arrays, nobody says whether they are equal
            return bool(self.part == other.part)
        return False

    def __hash__(self) -> int:
        return hash((self.kind, name_of(self.part)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.part!r})"

    @property
    def facts(self) -> tuple[Fact, ...]:
        """Those of the object."""
        return tuple(getattr(self.part, "facts", ()))

    @property
    def needs(self) -> frozenset[str]:
        """Those of the object."""
        return frozenset(getattr(self.part, "needs", ()))


class OwnSelector(Own, Selector):
    """A selector; client numbers alone are a selection, too."""

    kind = "selector"
    changes = Own.changes | {"select"}

    def select(
        self, state: PartState, clients: ClientTable, among: NDArray[np.int64], size: int, rng: np.random.Generator
    ) -> Selection:
        """What the object or function chooses."""
        if hasattr(self.part, "select"):
            found = self.part.select(state, clients, among, size, rng)
        else:
            found = self.part(clients, among, size, rng)
        if isinstance(found, Selection):
            return found
        try:
            return Selection([index(client) for client in found], state)
        except TypeError:
            raise EntrofedError(f"selector {self.name!r} chose {found!r}; client numbers are expected") from None


class OwnWeigher(Own, Weigher):
    """A weigher; weights alone are a weighing, too."""

    kind = "weigher"
    changes = Own.changes | {"weigh"}

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """What the object or function says."""
        found = (self.part.weigh if hasattr(self.part, "weigh") else self.part)(updates, context)
        if isinstance(found, Weighing):
            return found
        try:
            return Weighing(np.asarray(found, np.float64))
        except (TypeError, ValueError):
            raise EntrofedError(f"weigher {self.name!r} returned {found!r}; a weight per update is expected") from None


class OwnObjective(Own, Objective):
    """An objective; a function sees logits and labels."""

    kind = "objective"
    changes = Own.changes | {"loss"}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch, or its terms."""
        found = self.part.loss(model, x, y, given) if hasattr(self.part, "loss") else self.part(model(x), y)
        if not isinstance(found, torch.Tensor) or found.shape != ((len(self.terms),) if self.terms else ()):
            what = f"a tensor of shape {tuple(found.shape)}" if isinstance(found, torch.Tensor) else f"{found!r}"
            wanted = "its terms in a row are" if self.terms else "the mean over the batch, a scalar tensor, is"
            raise ConfigError(f"objective {self.name!r} returned {what}; {wanted} expected")
        return found


class OwnServer(Own, ServerRule):
    """A server rule; a model alone leaves what the rule remembers as it is."""

    kind = "server"
    changes = Own.changes | {"apply", "client"}

    @cached_property
    def client(self) -> ClientRule | None:
        """What clients do for it."""
        found = getattr(self.part, "client", None)
        return None if found is None else complete("client_rule", found)

    def apply(
        self, updates: Sequence[Update], weights: Weights, context: Context, state: PartState
    ) -> tuple[Params, PartState]:
        """What the object makes of the updates."""
        found = self.part.apply(updates, weights, context, state)
        params, after = found if isinstance(found, tuple) and len(found) == 2 else (found, state)
        wrong = params.problem(context.layout) if isinstance(params, Params) else type(params).__name__
        if wrong is not None:
            raise EntrofedError(f"server rule {self.name!r} returned no Params of this network, but: {wrong}")
        return params, after


class OwnClientRule(Own, ClientRule):
    """A client rule."""

    kind = "client_rule"


ADAPTERS: dict[str, type[Own]] = {
    adapter.kind: adapter for adapter in (OwnSelector, OwnWeigher, OwnObjective, OwnServer, OwnClientRule)
}


def complete(
    kind: str, thing: Any, options: Mapping[str, Any] | None = None, table: Mapping[str, Any] | None = None
) -> Any:
    """A part of an object, of a function, or of what a function without arguments returns.

    ``options`` go to the function. ``table``: how to build the same part again, if it does not follow from the object.
    """
    options = options or {}
    if isinstance(thing, Own) and thing.kind == kind:
        return thing
    if callable(thing) and not hasattr(thing, VERBS.get(kind, "__none__")):
        if table is None and hasattr(thing, "__qualname__"):
            table = {"name": reference_of(thing), **options}
        if kind in FUNCTIONS and takes(thing, FUNCTIONS[kind], options):
            return ADAPTERS[kind](partial(thing, **options) if options else thing, table)
        if hasattr(thing, "__code__") and takes(thing, (), options):
            with blamed(called(kind, thing), ConfigError):
                made = thing(**options)
            return complete(kind, made, table=table)
    if options:
        raise ConfigError(f"{called(kind, thing)} does not take these options: {', '.join(options)}")
    check(kind, thing)
    whole = PROTOCOLS[kind] in type(thing).__mro__ and hasattr(thing, "name")
    return thing if kind == "fact" or (whole and _by_value(thing)) else ADAPTERS[kind](thing, table)


def _by_value(part: Any) -> bool:
    """Whether equal hyperparameters make equal parts: a frozen dataclass of what can be hashed."""
    try:
        return is_dataclass(part) and type(part).__hash__ is not object.__hash__ and isinstance(hash(part), int)
    except TypeError:
        return False


def table_of(part: Any) -> dict[str, Any]:
    """What an object can be built from: its class, and those of its arguments that it keeps under their names."""
    if isinstance(part, partial):
        return {**table_of(part.func), **part.keywords}
    if hasattr(part, "__qualname__"):
        return {"name": reference_of(part)}
    if is_dataclass(part):
        kept = {field.name: getattr(part, field.name) for field in fields(part)}
    else:
        simple = (bool, int, float, str, list, tuple)
        names = [name for name in parameters(type(part)) if isinstance(getattr(part, name, None), simple)]
        kept = {name: getattr(part, name) for name in names}
    return {"name": reference_of(type(part)), **{key: value for key, value in kept.items() if key != "name"}}


def _snake(name: str) -> str:
    """As our own parts are called.

    >>> _snake("MyKLWeigher"), _snake("plain")
    ('my_kl_weigher', 'plain')
    """
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()
