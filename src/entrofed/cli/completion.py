"""What a shell offers for values that are names (``entrofed --install-completion``)."""

from collections.abc import Callable, Iterable
from inspect import signature
from typing import Any

from cyclopts import Parameter


def completed(names: Callable[[], Iterable[str]], **options: Any) -> Parameter:
    """A parameter whose values are some of these names; shells offer them from cyclopts 5 on."""
    if "completer" in signature(Parameter).parameters:
        options["completer"] = lambda _: list(names())
    return Parameter(**options)


def backends() -> list[str]:
    """Of ``engine.backend``."""
    from entrofed.backends import FLOWER
    from entrofed.backends import backends as known

    return [*known(), FLOWER]


def methods() -> list[str]:
    """Of ``method.name``."""
    from entrofed.methods import METHODS

    return list(METHODS)


def parts() -> list[str]:
    """All that ``entrofed parts`` explains."""
    from entrofed.cli.tables.parts import KINDS, parts_of

    return list(dict.fromkeys(part.name for kind in KINDS for part in parts_of(kind)))


def tables() -> list[str]:
    """The papers' tables."""
    from entrofed.papers.tables import papers

    return [f"{paper.name}/{table}" for paper in papers().values() for table in paper.tables]


def cells() -> list[str]:
    """Of the papers' tables."""
    from entrofed.papers.tables import papers

    return list(dict.fromkeys(cell for paper in papers().values() for t in paper.tables.values() for cell in t.cells))


def columns() -> list[str]:
    """Of the papers' tables."""
    from entrofed.papers.tables import papers

    return list(dict.fromkeys(label for paper in papers().values() for t in paper.tables.values() for label in t.runs))


def datasets() -> list[str]:
    """Of ``data.name``."""
    from entrofed.data.catalog import datasets as known

    return list(known())


def keys() -> list[str]:
    """Of an experiment file."""
    from entrofed.experiment.keys import keys as known

    return [key.path for key in known()]


def changes() -> list[str]:
    """The beginnings of ``--set``."""
    return [f"{key}=" for key in keys()]


def topologies() -> list[str]:
    """Of ``topology.kind``."""
    from entrofed.core.topologies import TOPOLOGIES

    return list(TOPOLOGIES)


def federations() -> list[str]:
    """Of the leaderboard."""
    from entrofed.leaderboard.board import board

    return list(board().federations)


def compared() -> list[str]:
    """The methods of the leaderboard."""
    from entrofed.leaderboard.board import board

    return list(board().methods)
