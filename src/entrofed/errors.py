"""Everything that can go wrong and is not a bug.

::

    EntrofedError            exit code 1   something failed
    ├── ConfigError          exit code 2   what the user wrote: an option, an experiment file
    │   └── IdleKeyError                   a key that the choice made by another key has no use for
    ├── DataError            exit code 3   a dataset or a file of it
    ├── CheckpointError      exit code 3   a stored run
    ├── QuorumError          exit code 4   too few usable updates, too many rounds in a row
    └── LostModelsError      exit code 1   models of peers were lost with a machine; a run goes back by itself

Messages say what is wrong and where, the rule, and the remedy.
"""

import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import Parameter, signature
from pathlib import Path
from traceback import walk_tb
from typing import Any


class EntrofedError(Exception):
    """Base class of all our errors; the command line prints them without a traceback."""

    exit_code = 1


class ConfigError(EntrofedError):
    """A value the user chose is not possible."""

    exit_code = 2


class IdleKeyError(ConfigError):
    """A key is given that does not apply to what another key chooses, such as ``data.alpha`` to ``data.partition``."""

    def __init__(self, key: str, choice: str, message: str) -> None:
        super().__init__(message)
        self.key, self.choice, self.message = key, choice, message

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.key, self.choice, self.message)


class DataError(EntrofedError):
    """A dataset is missing, damaged, or not what it should be."""

    exit_code = 3


class CheckpointError(EntrofedError):
    """A stored run cannot be read or continued."""

    exit_code = 3


class QuorumError(EntrofedError):
    """Too few clients answered with a usable update, too often."""

    exit_code = 4


class LostModelsError(EntrofedError):
    """Models that only one machine held were lost with it."""


def unknown(what: str, found: str, allowed: Iterable[str], *, listed_by: str = "") -> ConfigError:
    """The error for a name that does not exist, with the nearest that does.

    Those that do are named, or ``listed_by``, the command that lists them: for hundreds nobody reads in an error.

    >>> print(unknown("method", "fedavgg", ["fedavg", "fedentopt"]))
    unknown method 'fedavgg'; did you mean 'fedavg'? (known: fedavg, fedentopt)
    """
    names = sorted(set(allowed))
    near = [name for name in get_close_matches(found, names, n=1, cutoff=0.5) if _alike(found, name)]
    hint = f"; did you mean {near[0]!r}?" if near else ""
    every = f"{listed_by!r} lists them" if listed_by else f"known: {', '.join(names) or 'none'}"
    return ConfigError(f"unknown {what} {found!r}{hint} ({every})")


def _alike(found: str, name: str) -> bool:
    """Whether a name may have been meant: much the same, or somewhat the same with the same beginning."""
    return found[:1].lower() == name[:1].lower() or bool(get_close_matches(found, [name], cutoff=0.6))


def check_options(what: str, function: Callable[..., Any], given: Collection[str]) -> None:
    """Raise a ConfigError unless these are options (keyword-only) of a function, all without a default included.

    >>> def ring(nodes: int, *, width: int) -> None: ...
    >>> check_options("topology 'ring'", ring, [])
    Traceback (most recent call last):
    entrofed.errors.ConfigError: topology 'ring' needs width
    """
    parameters = signature(function).parameters.values()
    options = {option.name: option.default for option in parameters if option.kind is Parameter.KEYWORD_ONLY}
    for name in given:
        if name not in options:
            raise unknown(f"option of {what}", name, options)
    if lacking := [name for name, default in options.items() if default is Parameter.empty and name not in given]:
        raise ConfigError(f"{what} needs {', '.join(lacking)}")


LIBRARIES = frozenset({"entrofed", "numpy", "torch", *sys.stdlib_module_names})
"""Whose lines are not the ones to look at when a user's code fails."""


def place(error: BaseException) -> str:
    """Where an exception came from: the innermost line that is not in a library; if all are, that is not in ours."""
    found = ""
    theirs = False
    for frame, line in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__")).split(".")[0]
        if package not in LIBRARIES or (not theirs and package != "entrofed"):
            theirs = package not in LIBRARIES
            found = f"{frame.f_code.co_qualname}, {Path(frame.f_code.co_filename).name} line {line}"
    return found


def said(error: BaseException) -> str:
    """An exception in one line, with the place it came from."""
    where = place(error)
    words = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return f"{words} ({where})" if where else words


@contextmanager
def blamed(who: str, error: type[EntrofedError] = EntrofedError) -> Iterator[None]:
    """Whatever is raised inside, unless it is one of ours, becomes an error that names who raised it."""
    try:
        yield
    except EntrofedError:
        raise
    except Exception as raised:
        raise error(f"{who}: {said(raised)}") from raised
