"""``entrofed explain``: the keys of an experiment file; and their JSON schema, for editors."""

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.markup import escape
from rich.table import Table

from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import unknown

if TYPE_CHECKING:
    from entrofed.experiment.keys import Key


def explain(
    key: Annotated[
        str | None,
        completion.completed(completion.keys, help="A key such as method.lr, or a table such as data; all without."),
    ] = None,
    *,
    schema: Annotated[
        bool, Parameter(help="Print the JSON schema of the file, for editors that complete TOML.", negative="")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say what the keys of an experiment file mean: type, default, meaning."""
    from entrofed.experiment.keys import keys

    if schema:
        sys.stdout.write(json.dumps(file_schema(), indent=2) + "\n")
        return
    every = list(keys())
    asked = key or ""
    found = [each for each in every if not asked or each.path == asked or each.path.startswith(f"{asked}.")]
    found = found or [each for each in every if each.path.endswith(f".{asked}")]
    if not found:
        raise unknown("key", asked, [each.path for each in every], listed_by="entrofed explain")
    found = [replace(each, meaning=each.meaning.replace("``", "")) for each in found]
    if as_json:
        emit("explain", keys=[{"key": each.path, **plain_key(each)} for each in found])
        return
    table = Table("key", "meaning")
    table.columns[0].no_wrap = True
    for each in found:
        default = "" if each.default is None else f" Default: {json.dumps(each.default)}."
        table.add_row(each.path, escape(f"{each.meaning} ({each.type}.{default})"))
    terminal.console.print(table)


def plain_key(key: "Key") -> dict[str, Any]:
    """A key without its path."""
    return {name: value for name, value in vars(key).items() if name != "path"}


def file_schema() -> dict[str, Any]:
    """The JSON schema of an experiment file, with the meaning of each key."""
    from entrofed.experiment.config import Experiment
    from entrofed.experiment.keys import NOT_FOR_FILES, TABLES, attribute_docstrings

    schema = Experiment.model_json_schema()
    for table, section in TABLES.items():
        fields = (schema if section is Experiment else schema["$defs"][section.__name__])["properties"]
        for name, words in attribute_docstrings(section).items():
            if name in fields:
                fields[name]["description"] = words
        for path in NOT_FOR_FILES:
            above, _, last = path.rpartition(".")
            if above == table:
                fields.pop(last, None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "EntroFed experiment"}
