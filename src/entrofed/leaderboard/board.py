"""What the leaderboard is made of: federations and methods, as ``board.toml`` lists them, and methods that join.

>>> board().federation("digits").target
0.9
>>> board().method("fedentopt").method["name"]
'fedentopt'
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from entrofed.core.parts import VALIDATION
from entrofed.errors import unknown
from entrofed.experiment.problems import checked
from entrofed.experiment.sections.method import MethodSection
from entrofed.papers.reported import Cell, Column, merged
from entrofed.registry import PART_KINDS, known
from entrofed.registry.checks import VERBS
from entrofed.registry.references import absolute, is_reference, load

FIRST_TUNING_SEED = 100
"""Searches are played with the seeds from here on; results with those below."""


@dataclass(frozen=True)
class Tuning:
    """The search for settings that every method gets in a federation."""

    trials: int
    seeds: int
    search: tuple[str, ...]
    """What is searched, as :func:`entrofed.suite.tune.spaces` takes it."""
    setting: Mapping[str, Any] = field(default_factory=dict)
    """Laid over the federation's."""


@dataclass(frozen=True)
class BoardFederation:
    """A column of the board: data, how it is dealt out, and how clients train."""

    id: str
    says: str
    seeds: int
    target: float
    setting: Mapping[str, Any]
    tuning: Tuning | None = None
    """None: every method is played with the settings of a paper's protocol, as in the tables of results."""

    @property
    def has_validation(self) -> bool:
        """Whether the server keeps a validation set, in every run alike."""
        return bool(self.setting["data"].get("validation"))


@dataclass(frozen=True)
class BoardMethod:
    """A row of the board."""

    id: str
    method: Mapping[str, Any]
    """That section of an experiment file."""
    says: str = ""
    search: tuple[str, ...] = ()
    """What else is searched for it."""
    control: str | None = None
    """The row that shows what its choice or its weights are worth."""

    @property
    def needs_validation(self) -> bool:
        """Whether it weighs by the server's validation set."""
        return VALIDATION in checked(MethodSection, self.method, f"method {self.id!r}").recipe.needs

    def column(self, chosen: Mapping[str, Any]) -> Column:
        """What it sets in an experiment, with the settings chosen for it."""
        return Column(self.id, merged({"method": self.method}, chosen))


@dataclass(frozen=True)
class Board:
    """The federations and methods in the file's order."""

    against: str
    """The method that all others are compared with."""
    judged_by: str
    federations: Mapping[str, BoardFederation]
    methods: Mapping[str, BoardMethod]

    def federation(self, name: str) -> BoardFederation:
        """By its id, or a ConfigError that names the nearest."""
        if name not in self.federations:
            raise unknown("federation of the leaderboard", name, self.federations)
        return self.federations[name]

    def method(self, name: str) -> BoardMethod:
        """By its id; any other method that is registered; or somebody's own, as ``my_parts.py:MyMethod``."""
        if name in self.methods:
            return self.methods[name]
        if is_reference(name):
            return joining(name)
        if name not in known("method"):
            raise unknown("method", name, {**known("method"), **self.methods})
        return BoardMethod(name, {"name": name}, "not on the board")


def joining(reference: str) -> BoardMethod:
    """A method that joins: what the reference names, or FedAvg with the part that it names."""
    name = absolute(reference, Path())
    thing = load(name)
    kind = next((kind for kind in PART_KINDS if hasattr(thing, VERBS[kind])), None)
    section = {"name": name} if kind is None else {"name": "fedavg", kind: name}
    says = "joined" if kind is None else f"joined: FedAvg with this {kind}"
    return BoardMethod(reference.rpartition(":")[2], section, says)


def cell_of(federation: BoardFederation, column: Column) -> Cell:
    """A federation and a method as what :mod:`entrofed.papers` plays and stores: a cell with one column."""
    return Cell(federation.id, federation.id, federation.setting, {column.label: column}, {})


@cache
def board() -> Board:
    """The board of the file; read once."""
    content = tomllib.loads((Path(__file__).parent / "board.toml").read_text(encoding="utf-8"))
    federations = [_federation(table) for table in content.pop("federation")]
    methods = [_listed(BoardMethod, table, "search") for table in content.pop("method")]
    return Board(**content, federations={f.id: f for f in federations}, methods={m.id: m for m in methods})


def _federation(table: dict[str, Any]) -> BoardFederation:
    tuning = _listed(Tuning, table["tuning"], "search") if "tuning" in table else None
    return BoardFederation(**{**table, "tuning": tuning})


def _listed(kind: type[Any], table: Mapping[str, Any], key: str) -> Any:
    return kind(**{**table, key: tuple(table.get(key, ()))})
