"""Whether a user's object can be a part: the methods of its kind are there, and take what they will be called with."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from inspect import Parameter, signature
from typing import Any, get_args, get_type_hints

from entrofed.core.parts import ClientRule, Fact, Objective, Sees, Selector, ServerRule, Weigher
from entrofed.errors import ConfigError

PROTOCOLS: dict[str, Any] = {
    "selector": Selector,
    "weigher": Weigher,
    "objective": Objective,
    "server": ServerRule,
    "client_rule": ClientRule,
    "fact": Fact,
}
VERBS = {"selector": "select", "weigher": "weigh", "objective": "loss", "server": "apply", "fact": "measure"}
"""The method that a part of a kind cannot be without."""
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "selector": ("clients", "candidates", "size", "rng"),
    "weigher": ("updates", "context"),
    "objective": ("logits", "y"),
}
"""The arguments of a function that is a part by itself."""
TIMES = get_args(get_args(get_type_hints(Fact)["when"])[0])


def check(kind: str, part: Any) -> None:
    """Raise a ConfigError unless an object can be a part of that kind."""
    who, protocol, verb = called(kind, part), PROTOCOLS[kind], VERBS.get(kind)
    if not isinstance(getattr(part, "name", ""), str):
        raise ConfigError(f"{who}: its name is {part.name!r}; text is expected")
    if verb is not None and not hasattr(part, verb):
        wanted = f"an object with a method {verb}({', '.join(_arguments(protocol, verb))})"
        if kind in FUNCTIONS:
            wanted += f", or a function of ({', '.join(FUNCTIONS[kind])}),"
        raise ConfigError(f"{who}: {wanted} is expected")
    for name in offered(kind):
        theirs = getattr(part, name, None)
        if theirs is None or not callable(getattr(protocol, name)):
            continue
        arguments = _arguments(protocol, name)
        if not callable(theirs) or not takes(theirs, arguments, {}):
            raise ConfigError(f"{who}: its {name} must be a method that takes ({', '.join(arguments)})")
    if kind == "fact":
        _check_fact(part, who)
    for fact in _facts(part, who):
        check("fact", fact)


def _facts(part: Any, who: str) -> Iterable[Any]:
    facts, needs = getattr(part, "facts", ()), getattr(part, "needs", ())
    if not isinstance(facts, list | tuple):
        raise ConfigError(f"{who}: its facts are {facts!r}; a tuple of facts is expected")
    if not isinstance(needs, list | tuple | set | frozenset):
        raise ConfigError(f"{who}: its needs are {needs!r}; a set of words is expected")
    if (sees := getattr(part, "sees", "models")) not in get_args(Sees):
        raise ConfigError(f"{who}: its sees is {sees!r}; one of {', '.join(get_args(Sees))} is expected")
    return facts


def _check_fact(fact: Any, who: str) -> None:
    """What leaves a client is declared: nothing of it has a default."""
    for name, rule in (
        ("name", "text"),
        ("reveals", "what it reveals, in words,"),
        ("when", f"one of {', '.join(TIMES)}"),
    ):
        value = getattr(fact, name, None)
        if not isinstance(value, str) or not value or (name == "when" and value not in TIMES):
            raise ConfigError(f"{who}: its {name} is {value!r}; {rule} is expected")
    if not hasattr(fact, "problem"):
        raise ConfigError(f"{who}: it lacks a method problem(value, classes) that says what is wrong with a value")


def offered(kind: str) -> list[str]:
    """The names that parts of a kind have, or could have."""
    return [name for base in PROTOCOLS[kind].__mro__ for name in vars(base) if name[0] != "_"]


def _arguments(protocol: Any, method: str) -> list[str]:
    return list(signature(getattr(protocol, method)).parameters)[1:]


def takes(function: Callable[..., Any], arguments: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether a function can be called with so many arguments and these options."""
    try:
        signature(function).bind(*arguments, **options)
    except TypeError:
        return False
    except ValueError:  # written in C, and nobody knows
        return True
    return True


def parameters(thing: Callable[..., Any]) -> dict[str, Parameter]:
    """What a class or function can be given by name; nothing if nobody knows."""
    try:
        found = signature(thing).parameters
    except (TypeError, ValueError):
        return {}
    nameless = (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL)
    return {name: parameter for name, parameter in found.items() if parameter.kind not in nameless}


def name_of(thing: Any) -> str:
    """What a class, a function, or the class of an object is called."""
    while isinstance(thing, partial):
        thing = thing.func
    return str(getattr(thing if hasattr(thing, "__qualname__") else type(thing), "__name__", "")).strip("<>")


def called(kind: str, thing: Any) -> str:
    """How a message begins."""
    return f"{kind.replace('_', ' ')} {name_of(thing)!r}"
