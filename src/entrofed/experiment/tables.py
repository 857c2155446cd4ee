"""An experiment's plain tables before they are read: paths made absolute, values set from the command line."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entrofed.data.tabular.choice import names_a_file
from entrofed.errors import ConfigError
from entrofed.registry import PART_KINDS
from entrofed.registry.references import absolute


def located(table: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The tables with absolute paths of the files that they refer to, as code or as data."""

    def locate(spec: Any) -> Any:
        if isinstance(spec, Mapping):
            return {k: locate(v) if k in ("name", *PART_KINDS) else v for k, v in spec.items()}
        if isinstance(spec, list | tuple):
            return [locate(inner) for inner in spec]
        return absolute(spec, folder) if isinstance(spec, str) else spec

    def locate_data(data: Any) -> Any:
        paths = {
            key: os.path.abspath(folder / os.path.expanduser(value))
            for key, value in (data.items() if isinstance(data, Mapping) else ())
            if isinstance(value, str)
            and (key in ("path", "owners", "devices") or (key == "test" and names_a_file(value)))
        }
        return {**data, **paths} if paths else data

    absolute_code = {
        key: locate(value) if key in ("model", "method", "metrics") else value for key, value in table.items()
    }
    return {key: locate_data(value) if key in ("data", "clock") else value for key, value in absolute_code.items()}


def key_of(override: str) -> str:
    """The key that an override such as ``method.lr=0.05`` sets."""
    key, equals, _ = override.partition("=")
    if not equals or not all(key.strip().split(".")):
        raise ConfigError(f"override {override!r} must look like section.key=value, for example method.lr=0.05")
    return key.strip()


def without(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    """The tables without a key such as ``data.alpha``; a table with it, such as ``topology``, goes as a whole.

    >>> without({"data": {"name": "iris", "alpha": 0.1}}, "data.alpha")
    {'data': {'name': 'iris'}}
    """
    first, _, rest = key.partition(".")
    inner = table.get(first)
    if first not in table or (rest and not isinstance(inner, Mapping)):
        raise ConfigError(f"unset {key}: it is not set, so there is nothing to take away")
    if not rest:
        return {name: value for name, value in table.items() if name != first}
    try:
        return {**table, first: without(inner or {}, rest)}
    except ConfigError:
        raise ConfigError(f"unset {key}: it is not set, so there is nothing to take away") from None


def override(table: dict[str, Any], override: str) -> None:
    """Set a value from text such as ``method.lr=0.05``."""
    steps, raw = key_of(override).split("."), override.partition("=")[2]
    try:
        value = tomllib.loads(f"value = {raw}")["value"]
    except tomllib.TOMLDecodeError:
        value = raw.strip()
    for step in steps[:-1]:
        inner = table.get(step, {})
        table[step] = {"name": inner} if isinstance(inner, str) else dict(inner) if isinstance(inner, Mapping) else {}
        table = table[step]
    table[steps[-1]] = value
