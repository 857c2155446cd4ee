"""Which runs the leaderboard takes, and which of them are there already: played, or stored with the results."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from entrofed.experiment.config import parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.leaderboard.board import BoardFederation, BoardMethod, cell_of
from entrofed.leaderboard.tuning import Chosen
from entrofed.papers.reproduce import Planned, planned
from entrofed.papers.results import Result, read, result

Key = tuple[str, int]
"""A method and a seed."""


@dataclass(frozen=True)
class Pairing:
    """A federation with the methods that are played in it, for so many seeds."""

    federation: BoardFederation
    methods: tuple[BoardMethod, ...]
    seeds: int

    def untuned(self, chosen: Mapping[str, Chosen]) -> list[BoardMethod]:
        """The methods whose settings were not sought yet, or in another way."""
        return [method for method in self.methods if not self._tuned(method, chosen.get(method.id))]

    def _tuned(self, method: BoardMethod, found: Chosen | None) -> bool:
        tuning = self.federation.tuning
        wanted = (tuning.trials, tuning.seeds, (*tuning.search, *method.search))
        return found is not None and (found.trials, len(found.seeds), found.search) == wanted

    def plan(self, chosen: Mapping[str, Chosen], out: Path) -> list[Planned]:
        """The runs of the methods whose settings are known, seed by seed: what is stopped has compared all on some."""
        columns = [method.column(chosen[method.id].setting) for method in self.methods if method.id in chosen]
        return [
            planned(self.federation.id, cell_of(self.federation, column), column.label, None, seed, out)
            for seed in range(self.seeds)
            for column in columns
        ]


def pairings(
    federations: Iterable[BoardFederation], methods: Sequence[BoardMethod], seeds: int | None = None
) -> list[Pairing]:
    """Every federation with every method that can be played in it; ``seeds`` in place of the board's."""
    return [
        Pairing(
            federation,
            tuple(method for method in methods if federation.has_validation or not method.needs_validation),
            seeds or federation.seeds,
        )
        for federation in federations
    ]


def stored(folder: Path, federation: str) -> dict[Key, Result]:
    """The results of a federation that are kept."""
    path = folder / f"{federation}.parquet"
    return {(found.column, found.seed): found for found in read(path)} if path.exists() else {}


def left(runs: Iterable[Planned], kept: Mapping[Key, Result]) -> list[Planned]:
    """The runs that are neither finished nor stored as they are planned now."""
    return [run for run in runs if not run.done and not _same(run, kept.get((run.column.label, run.experiment.seed)))]


def _same(run: Planned, found: Result | None) -> bool:
    if found is None:
        return False
    return parse(tomllib.loads(found.experiment), stored=True).decisive() == run.experiment.decisive()


def finished(out: Path, federation: str) -> list[Result]:
    """The results of all finished runs of a federation."""
    return [
        result(run, federation, federation, folder.parent.name)
        for folder in sorted((out / federation).glob("*/seed-*"))
        if (run := RunFolder(folder)).summary() is not None
    ]
