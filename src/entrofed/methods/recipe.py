"""A recipe as a function that takes other parts, or other hyperparameters, in place of its own."""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from functools import wraps
from typing import Any, Protocol

from entrofed.core.parts import Method
from entrofed.errors import ConfigError, blamed, unknown
from entrofed.registry import PART_KINDS, completed, describe, lookup, with_parts

Given = str | Mapping[str, Any] | Any
"""A part: an object, a function, a name, or a table of a name and hyperparameters."""


class Recipe(Protocol):
    """Makes a method."""

    __name__: str

    def __call__(
        self,
        *,
        selector: Given = None,
        weigher: Given = None,
        objective: Given = None,
        server: Given = None,
        **options: Any,
    ) -> Method:
        """The recipe's method, with the parts that are given; ``options`` are hyperparameters of the recipe's own."""
        ...


def recipe(make: Callable[[], Method]) -> Recipe:
    """The recipe of a function that combines parts.

    >>> from entrofed.methods import fedprox
    >>> fedprox(mu=0.1, weigher="uniform").objective.mu
    0.1
    """

    @wraps(make)
    def made(
        *,
        selector: Given = None,
        weigher: Given = None,
        objective: Given = None,
        server: Given = None,
        **options: Any,
    ) -> Method:
        method = replace(make(), name=made.__name__)
        for option, value in options.items():
            kind = _owner(made.__name__, method, option)
            method = with_parts(method, **{kind: {**describe(getattr(method, kind)), option: value}})
        return with_parts(method, selector=selector, weigher=weigher, objective=objective, server=server)

    return made


def method_of(name: str) -> Method:
    """The method of a recipe, or of a function without arguments that a reference refers to."""
    recipe = lookup("method", name)
    with blamed(f"method {name!r}", ConfigError):
        method = recipe() if callable(recipe) else recipe
    if not isinstance(method, Method):
        raise ConfigError(f"method {name!r}: a function that returns a Method is expected; it returned {method!r}")
    return completed(method)


def _owner(name: str, method: Method, option: str) -> str:
    """The kind of the part that has such a hyperparameter."""
    parts = {kind: getattr(method, kind) for kind in PART_KINDS}
    options = {kind: [field.name for field in fields(part)] for kind, part in parts.items() if is_dataclass(part)}
    owners = [kind for kind, names in options.items() if option in names]
    if not owners:
        raise unknown(
            f"hyperparameter of method {name!r}:", option, {key for names in options.values() for key in names}
        )
    if len(owners) > 1:
        raise ConfigError(
            f"method {name!r}: {' and '.join(owners)} have a hyperparameter {option!r}; give one as a table"
        )
    return owners[0]
