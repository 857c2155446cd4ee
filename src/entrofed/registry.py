"""Parts by name: ours, and those that other packages announce as entry points.

A package adds a selector by an entry point in the group ``entrofed.selectors`` that names its class; likewise
``entrofed.weighers``, ``entrofed.objectives``, ``entrofed.servers``, ``entrofed.client_rules``, ``entrofed.facts``,
``entrofed.methods``, ``entrofed.models``. Datasets, partitions and backends are announced likewise
(``entrofed.datasets``: a :class:`~entrofed.data.catalog.DatasetEntry`; ``entrofed.partitions``; ``entrofed.backends``)
and looked up where they are kept.

>>> build("weigher", "uniform")
Uniform()
>>> describe(build("weigher", {"name": "uniform"}))
{'name': 'uniform'}
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from entrofed.core.plugins import announced
from entrofed.errors import ConfigError, unknown
from entrofed.facts import FACTS
from entrofed.methods import METHODS
from entrofed.models.networks import MODELS
from entrofed.objectives import OBJECTIVES
from entrofed.selectors import SELECTORS
from entrofed.servers import CLIENT_RULES, SERVERS
from entrofed.weighers import WEIGHERS

OURS: dict[str, Mapping[str, Callable[..., Any]]] = {
    "selector": SELECTORS,
    "weigher": WEIGHERS,
    "objective": OBJECTIVES,
    "server": SERVERS,
    "client_rule": CLIENT_RULES,
    "fact": FACTS,
    "method": METHODS,
    "model": MODELS,
}
PART_KINDS = ("selector", "weigher", "objective", "server")


@cache
def known(kind: str) -> dict[str, Callable[..., Any]]:
    """Everything of one kind by name; a third party's part cannot replace one of ours."""
    return {**announced(kind), **OURS[kind]}


def lookup(kind: str, name: str) -> Callable[..., Any]:
    """The class or recipe of that name."""
    if name not in known(kind):
        raise unknown(kind, name, known(kind))
    return known(kind)[name]


def build(kind: str, spec: str | Mapping[str, Any], *, around: Any = None) -> Any:
    """A part from its name, or from a table of its name and hyperparameters.

    A hyperparameter with the name of a kind is itself such a part, as in ``{"name": "capped", "weigher": "data_size",
    "share": 0.3}``; where it is not given, it is ``around``.
    """
    if not isinstance(spec, str | Mapping):
        raise ConfigError(f"{kind}: a name or a table of hyperparameters is expected, found {spec!r}")
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    if not isinstance(name := options.pop("name", None), str):
        raise ConfigError(f"{kind}: a table of hyperparameters needs a 'name', one of {', '.join(known(kind))}")
    part = lookup(kind, name)
    allowed = [field.name for field in fields(part)]  # type: ignore[arg-type]
    for option in options:
        if option not in allowed:
            raise unknown(f"hyperparameter of {kind} {name!r}:", option, allowed)
    if kind in options:
        options[kind] = build(kind, options[kind])
    elif kind in allowed and around is not None:
        options[kind] = getattr(around, kind) if around.name == name else around
    try:
        return TypeAdapter(cast("type[Any]", part)).validate_python(options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(step) for step in first["loc"])
        found = f" = {first['input']!r}" if where and first["type"] != "missing" else ""
        message = first["msg"].removeprefix("Value error, ")
        raise ConfigError(": ".join(filter(None, [f"{kind} {name!r}", where + found, message]))) from None


def describe(part: Any) -> dict[str, Any]:
    """The table that :func:`build` makes the same part from."""
    options = {field.name: getattr(part, field.name) for field in fields(part)}
    return {"name": part.name, **{key: describe(v) if key in PART_KINDS else v for key, v in options.items()}}
