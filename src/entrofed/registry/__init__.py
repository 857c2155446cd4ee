"""Parts by name: ours, those that other packages announce as entry points, and a user's own by reference or as objects.

A package adds a selector by an entry point in the group ``entrofed.selectors`` that names its class; likewise
``entrofed.weighers``, ``entrofed.objectives``, ``entrofed.servers``, ``entrofed.client_rules``, ``entrofed.facts``,
``entrofed.methods``, ``entrofed.models``. Datasets, partitions and backends are announced likewise
(``entrofed.datasets``: a :class:`~entrofed.data.catalog.DatasetEntry`; ``entrofed.partitions``; ``entrofed.backends``)
and looked up where they are kept. A name with a colon is a reference: :mod:`entrofed.registry.references`.

>>> build("weigher", "uniform")
Uniform()
>>> describe(build("weigher", {"name": "uniform"}))
{'name': 'uniform'}
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import cache
from inspect import Parameter
from typing import Any

from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

from entrofed.core.parts import Method
from entrofed.core.plugins import PART_KINDS as PART_KINDS
from entrofed.core.plugins import announced
from entrofed.errors import ConfigError, blamed, unknown
from entrofed.facts import FACTS
from entrofed.models.networks import MODELS
from entrofed.objectives import OBJECTIVES
from entrofed.registry.checks import parameters
from entrofed.registry.own import Own, complete, table_of
from entrofed.registry.references import is_reference, load
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
    "model": MODELS,
}
"""By kind; :mod:`entrofed.methods` adds the recipes, which are made of these."""


@cache
def known(kind: str) -> dict[str, Callable[..., Any]]:
    """Everything of one kind by name; a third party's part cannot replace one of ours."""
    return {**announced(kind), **OURS[kind]}


def lookup(kind: str, name: str) -> Any:
    """The class or recipe of that name; what a reference refers to."""
    if is_reference(name):
        try:
            return load(name)
        except ConfigError as error:
            raise ConfigError(f"{kind} {name!r}: {error}") from error.__cause__
    if name not in known(kind):
        raise ConfigError(f"{unknown(kind, name, known(kind))}; your own is named as 'file.py:Name'")
    return known(kind)[name]


def build(kind: str, spec: Any, *, around: Any = None) -> Any:
    """A part from its name, from a table of its name and hyperparameters, or from a user's own object or function.

    A hyperparameter with the name of a kind is itself such a part, as in ``{"name": "capped", "weigher": "data_size",
    "share": 0.3}``; where it is not given, it is ``around``.
    """
    if not isinstance(spec, str | Mapping):
        if isinstance(spec, type):
            return complete(kind, _object(kind, spec.__name__, spec, {}, around))
        if spec is None or isinstance(spec, int | float | list | tuple):
            raise ConfigError(
                f"{kind}: a name, a table of hyperparameters, an object or a function is expected, found {spec!r}"
            )
        return complete(kind, spec)
    options = {"name": spec} if isinstance(spec, str) else dict(spec)
    if not isinstance(name := options.pop("name", None), str):
        raise ConfigError(f"{kind}: a table of hyperparameters needs a 'name', one of {', '.join(known(kind))}")
    found = lookup(kind, name)
    if not isinstance(found, type):
        return complete(kind, found, options)
    part = _object(kind, name, found, options, around)
    if is_dataclass(found) and not is_reference(name):
        return part
    return complete(kind, part, table={"name": name, **options})


def _object(kind: str, name: str, part: type[Any], options: dict[str, Any], around: Any) -> Any:
    """An object of a class, with what is wrong with its hyperparameters in words."""
    allowed = {field.name: None for field in fields(part)} if is_dataclass(part) else parameters(part)
    anything = any(option is not None and option.kind is Parameter.VAR_KEYWORD for option in allowed.values())
    for option in options:
        if option not in allowed and not anything:
            raise unknown(f"hyperparameter of {kind} {name!r}:", option, allowed)
    if kind in options:
        options = {**options, kind: build(kind, options[kind])}
    elif kind in allowed and around is not None:
        options = {**options, kind: getattr(around, kind) if around.name == name else around}
    with blamed(f"{kind} {name!r}", ConfigError):
        try:
            return (_validated(part) if is_dataclass(part) else part)(**options)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(step) for step in first["loc"])
            found = f" = {first['input']!r}" if where and first["type"] != "missing" else ""
            message = first["msg"].removeprefix("Value error, ")
            raise ConfigError(": ".join(filter(None, [f"{kind} {name!r}", where + found, message]))) from None


def _validated(part: type[Any]) -> Callable[..., Any]:
    """A dataclass whose arguments are checked and converted, unless it has types that nobody can check."""
    try:
        adapter = TypeAdapter(part)
    except PydanticSchemaGenerationError:
        return part
    return lambda **options: adapter.validate_python(options)


def describe(part: Any) -> dict[str, Any]:
    """The table that :func:`build` makes the same part from."""
    if isinstance(part, Own):
        table = dict(part.table)
    else:
        table = table_of(part)
        name = getattr(part, "name", "")
        if any(known(kind).get(name) is type(part) for kind in (*PART_KINDS, "client_rule", "fact")):
            table["name"] = name
    return {key: _described(value) if key in PART_KINDS else value for key, value in table.items()}


def _described(part: Any) -> Any:
    return part if isinstance(part, str | Mapping) else describe(part)


def completed(method: Method) -> Method:
    """The method with parts made of a user's own objects and functions."""
    return with_parts(method, **{kind: getattr(method, kind) for kind in PART_KINDS})


def with_parts(method: Method, **given: Any) -> Method:
    """The method with other parts in place of its own; None leaves a part as it is."""
    others = {kind: spec for kind, spec in given.items() if spec is not None}
    return replace(method, **{kind: build(kind, spec, around=getattr(method, kind)) for kind, spec in others.items()})
