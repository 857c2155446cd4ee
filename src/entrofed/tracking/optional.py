"""Packages that only some trackers and formats need, kept off the network and the user's settings."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from entrofed.errors import ConfigError


def needed(module: str, extra: str) -> Any:
    """The module of an extra, or a ConfigError that names the extra."""
    try:
        return import_module(module)
    except ImportError:
        raise ConfigError(f"{extra} is an extra, and not installed: pip install 'entrofed[{extra}]'") from None


@contextmanager
def environment(**values: str) -> Iterator[None]:
    """Environment variables for a while."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
