"""What methods and experiments are made of: what ``entrofed parts`` prints."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from inspect import Parameter, getdoc, signature
from typing import Any

from rich.console import Group
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from entrofed.core.topologies import TOPOLOGIES
from entrofed.data.catalog import datasets
from entrofed.data.shards import partitions
from entrofed.errors import unknown
from entrofed.methods import method_of
from entrofed.privacy.secure import runs_secure
from entrofed.registry import PART_KINDS, known

KINDS = ("method", *PART_KINDS, "model", "fact", "partition", "topology", "dataset")
ROLE = re.compile(r":\w+:`~?([^`]+)`")


@dataclass(frozen=True)
class Part:
    """One thing that an experiment file can name."""

    kind: str
    name: str
    summary: str
    options: Mapping[str, Any]
    """Hyperparameters with their defaults."""
    reference: str
    needed: tuple[str, ...] = ()
    """Hyperparameters without a default."""
    recipe: Mapping[str, str] | None = None
    """Of a method: the name of each of its parts."""
    secure: bool | None = None
    """Of a method: whether it runs under secure aggregation."""


def plain_text(doc: str) -> str:
    """A docstring without Sphinx's markup.

    >>> plain_text("As :class:`~a.b.Capped` does with ``share``.")
    'As Capped does with share.'
    """
    return ROLE.sub(lambda found: found[1].split(".")[-1], doc).replace("`", "")


def parts_of(kind: str) -> list[Part]:
    """Everything of one kind."""
    if kind == "dataset":
        return [Part(kind, name, entry.description, {}, entry.source) for name, entry in datasets().items()]
    return [_part(kind, name, thing) for name, thing in _things(kind).items()]


def _things(kind: str) -> Mapping[str, Any]:
    """What has docstrings and options, by name."""
    return partitions() if kind == "partition" else TOPOLOGIES if kind == "topology" else known(kind)


def _part(kind: str, name: str, thing: Any) -> Part:
    summary, reference = plain_text(_doc(thing)).split("\n")[0], str(getattr(thing, "reference", ""))
    if kind == "method":
        made = method_of(name)
        recipe = {each: getattr(made, each).name for each in PART_KINDS}
        return Part(kind, name, summary, {}, reference, recipe=recipe, secure=runs_secure(made))
    options = _options(thing)
    needed = tuple(option for option, default in options.items() if default is Parameter.empty)
    given = {option: default for option, default in options.items() if option not in needed}
    return Part(kind, name, summary, given, reference, needed)


def _doc(thing: Any) -> str:
    return getdoc(getattr(thing, "func", thing)) or ""


def _options(thing: Callable[..., Any]) -> dict[str, Any]:
    if is_dataclass(thing):
        return {each.name: Parameter.empty if each.default is MISSING else each.default for each in fields(thing)}
    given = [each for each in signature(thing).parameters.values() if each.kind is Parameter.KEYWORD_ONLY]
    return {each.name: each.default for each in given}


def overview() -> Iterator[Table]:
    """Every kind, in tables that fit 80 columns and cut no name."""
    for kind in KINDS:
        yield kind_table(kind)


def kind_table(kind: str) -> Table:
    """The names of a kind, and what each is."""
    table = Table(kind, "what it is", expand=False)
    table.columns[0].no_wrap = True
    for part in parts_of(kind):
        table.add_row(escape(part.name), escape(_words(part)))
    return table


def _words(part: Part) -> str:
    if part.recipe is None:
        return part.summary
    secure = "" if part.secure else " (not under secure aggregation)"
    return ", ".join(part.recipe[kind] for kind in PART_KINDS) + secure


def chosen(name: str | None) -> list[Part]:
    """All parts; those of a kind (``partitions``); or those of a name, of whatever kind."""
    if name is None:
        return [part for kind in KINDS for part in parts_of(kind)]
    if (kind := kind_of(name)) is not None:
        return parts_of(kind)
    found = [part for kind in KINDS for part in parts_of(kind) if part.name == name]
    if not found:
        names = [part.name for kind in KINDS for part in parts_of(kind)]
        raise unknown("part", name, [*names, *KINDS], listed_by="entrofed parts")
    return found


def kind_of(name: str) -> str | None:
    """The kind that is meant, in the singular or the plural."""
    return next((kind for kind in KINDS if name in (kind, f"{kind}s", "topologies" * (kind == "topology"))), None)


def details(part: Part) -> Group:
    """One part: what it does, its options, where it comes from, how it is written in an experiment file."""
    table = Table.grid(padding=(0, 2))
    for key, value in (part.recipe or {}).items():
        table.add_row(key, escape(value))
    for key in part.needed:
        table.add_row(escape(key), "must be given")
    for key, value in part.options.items():
        table.add_row(escape(key), escape(f"{value!r}"))
    if part.secure is not None:
        table.add_row("under secure aggregation", "yes" if part.secure else "no")
    if part.reference:
        table.add_row("reference", escape(part.reference))
    head = f"[bold]{escape(part.name)}[/bold] ({part.kind})"
    return Group(head, Padding(escape(text_of(part)), (0, 2)), Padding(table, (0, 2)), "")


def text_of(part: Part) -> str:
    """The whole docstring; of a dataset, its description."""
    if part.kind == "dataset":
        return part.summary
    paragraphs = plain_text(_doc(_things(part.kind)[part.name])).split("\n>>>")[0].strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
