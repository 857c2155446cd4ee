"""Every key of an experiment file with its type, default and meaning, read from the models themselves."""

import ast
import inspect
from collections.abc import Iterator
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
from entrofed.experiment.type_words import type_words

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
