"""What all tables of an experiment file have in common."""

from collections.abc import Callable, Iterable, Mapping
from inspect import Parameter, signature
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationInfo

from entrofed.errors import IdleKeyError, unknown


def was_run(info: ValidationInfo) -> bool:
    """Whether the experiment was run before: it is read as it is, also where its parts are not installed."""
    return bool((info.context or {}).get("stored"))


class Section(BaseModel):
    """A table of the file; a key that is not listed is an error."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def fit_options(
    section: Section, choice: str, functions: Mapping[str, Callable[..., Any]], keys: Iterable[str]
) -> None:
    """Raise an error unless a function is named and its options are given, all without a default included.

    ``choice`` is the key that names the function, such as ``topology.kind``; ``keys`` are the options of all functions.
    """
    name, _, key = choice.partition(".")
    chosen = getattr(section, key)
    if chosen not in functions:
        raise ValueError(str(unknown(choice, chosen, functions)))
    options = signature(functions[chosen]).parameters
    for option in keys:
        given = getattr(section, option) is not None
        if given and option not in options:
            words = f"{name}.{option} does not apply to {key} {chosen!r}; leave it out"
            raise IdleKeyError(f"{name}.{option}", choice, words)
        if not given and option in options and options[option].default is Parameter.empty:
            raise ValueError(f"{key} {chosen!r} needs {name}.{option}")
