"""Every key of an experiment file with its type, default and meaning, read from the models themselves."""

import ast
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from textwrap import dedent
from typing import Any

from entrofed.core.clock import Clock
from entrofed.core.faults import Faults
from entrofed.core.schedule import Schedule
from entrofed.experiment.config import Experiment
from entrofed.experiment.sections.data import DataSection
from entrofed.experiment.sections.engine import EngineSection
from entrofed.experiment.sections.method import MethodSection
from entrofed.experiment.sections.privacy import PrivacySection, UpdatesSection
from entrofed.experiment.sections.stop import StopSection
from entrofed.experiment.sections.topology import TopologySection

TABLES: dict[str, type] = {
    "": Experiment,
    "data": DataSection,
    "method": MethodSection,
    "method.schedule": Schedule,
    "topology": TopologySection,
    "privacy": PrivacySection,
    "privacy.updates": UpdatesSection,
    "faults": Faults,
    "clock": Clock,
    "stop": StopSection,
    "engine": EngineSection,
}
"""The tables of the file, in the order in which people need them."""
NOT_FOR_FILES = {"given", "data.digest"}
"""What a stored file says of things that were handed over from Python; nobody writes these."""
LIMITS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}
WORDS = {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false", "object": "table"}


@dataclass(frozen=True)
class Key:
    """One key: ``path`` as it is written, such as ``method.lr``."""

    path: str
    type: str
    default: Any
    meaning: str


def keys() -> Iterator[Key]:
    """All keys that a file may have, table by table.

    >>> next(key for key in keys() if key.path == "method.lr")
    Key(path='method.lr', type='number > 0', default=0.01, meaning="The clients' learning rate.")
    """
    schema = Experiment.model_json_schema()
    for table, section in TABLES.items():
        fields = schema if section is Experiment else schema["$defs"][section.__name__]
        meanings = attribute_docstrings(section)
        for name, field in fields["properties"].items():
            path = f"{table}.{name}" if table else name
            if path not in NOT_FOR_FILES and path not in TABLES:
                yield Key(path, type_words(field), field.get("default"), meanings.get(name, ""))


def type_words(field: Mapping[str, Any]) -> str:
    """A JSON schema in words.

    >>> type_words({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}]})
    'whole number >= 1'
    """
    if "anyOf" in field:
        return " or ".join(type_words(one) for one in field["anyOf"] if one.get("type") != "null")
    if "enum" in field or "const" in field:
        return " or ".join(f'"{value}"' for value in field.get("enum", [field.get("const")]))
    if "prefixItems" in field:
        return f"list of {len(field['prefixItems'])}: {type_words(field['prefixItems'][0])}"
    if field.get("type") == "array":
        return f"list: {type_words(field['items'])}"
    limits = [f"{sign} {field[limit]:g}" for limit, sign in LIMITS.items() if limit in field]
    return " ".join([WORDS[field["type"]], ", ".join(limits)]).strip()


@cache
def attribute_docstrings(section: type) -> dict[str, str]:
    """The text below each field of a class, in one line."""
    body = ast.parse(dedent(inspect.getsource(section))).body[0]
    assert isinstance(body, ast.ClassDef)  # noqa: S101
    found = {}
    for field, below in zip(body.body, body.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            text = below.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                found[field.target.id] = " ".join(text.value.split())
    return found
