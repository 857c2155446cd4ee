"""Nested tables as TOML text, which the standard library only reads, and without the nesting."""

import re
from collections.abc import Mapping
from typing import Any


def flat(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """A table without tables in it.

    >>> flat({"rounds": 2, "data": {"name": "iris"}})
    {'rounds': 2, 'data.name': 'iris'}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def dumps(table: Mapping[str, Any]) -> str:
    """The text that :func:`tomllib.loads` gives the same table for.

    >>> print(dumps({"rounds": 2, "data": {"name": "iris", "alphas": (50.0, 1.0)}}), end="")
    rounds = 2
    <BLANKLINE>
    [data]
    name = "iris"
    alphas = [50.0, 1.0]
    """
    lines: list[str] = []
    _table(table, (), lines)
    return "\n".join(lines) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...], lines: list[str]) -> None:
    if path:
        lines.append(f"\n[{'.'.join(map(_key, path))}]")
    for key, value in table.items():
        if not isinstance(value, Mapping):
            lines.append(f"{_key(key)} = {_value(value)}")
    for key, value in table.items():
        if isinstance(value, Mapping):
            _table(value, (*path, key), lines)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _value(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(item) for item in value)}]"
    if isinstance(value, str):
        return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value) + '"'
    return repr(value)
