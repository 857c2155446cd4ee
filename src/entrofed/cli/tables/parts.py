"""What methods are made of: what ``entrofed parts`` prints."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from rich.table import Table

from entrofed.methods import method_of
from entrofed.privacy.secure import runs_secure
from entrofed.registry import PART_KINDS, known


def parts_tables() -> Iterator[Table]:
    """Every method, part and model with defaults and references."""
    columns = ("method", *PART_KINDS, "under secure aggregation")
    methods = Table(*columns, title="methods: any part of a recipe can be replaced")
    for name in known("method"):
        made = method_of(name)
        secure = "yes" if runs_secure(made) else "no"
        methods.add_row(name, *(getattr(made, kind).name for kind in PART_KINDS), secure)
    yield methods
    for kind in PART_KINDS:
        table = Table(kind, "what it does", "defaults", "reference")
        for name, part in known(kind).items():
            options = fields(part) if is_dataclass(part) else ()
            defaults = ", ".join(f"{option.name} = {option.default!r}" for option in options)
            table.add_row(name, _first_line(part), defaults, getattr(part, "reference", ""))
        yield table
    models = Table("model", "what it is")
    for name, model in known("model").items():
        models.add_row(name, _first_line(getattr(model, "func", model)))
    yield models


def _first_line(thing: Any) -> str:
    return (getattr(thing, "__doc__", "") or "").split("\n")[0]
