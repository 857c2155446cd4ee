"""What other packages announce as entry points in groups such as ``entrofed.selectors``."""

import logging
from functools import cache
from importlib.metadata import entry_points
from typing import Any

log = logging.getLogger("entrofed")

PART_KINDS = ("selector", "weigher", "objective", "server")
"""What a method is made of."""


@cache
def announced(kind: str) -> dict[str, Any]:
    """Everything of one kind by name; what cannot be loaded is warned of and left out.

    >>> announced("nothing_like_it")
    {}
    """
    found: dict[str, Any] = {}
    for entry in entry_points(group=f"entrofed.{kind}s"):
        try:
            found[entry.name] = entry.load()
        except Exception as error:
            log.warning("the %s %r of %s cannot be loaded: %s", kind, entry.name, entry.value, error)
    return found
