"""Which runs the leaderboard takes, and which of them are there already: played, or stored with the results."""

import json
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from entrofed.experiment.config import Experiment, parse
from entrofed.experiment.run_folder import RunFolder
from entrofed.leaderboard.board import BoardFederation, BoardMethod, Tuning, cell_of
from entrofed.leaderboard.tuning import Chosen
from entrofed.papers.reproduce import Planned, planned
from entrofed.papers.results import Result, read, read_all, result

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
        tuning = self.federation.tuning
        return [] if tuning is None else [m for m in self.methods if not _tuned(tuning, m, chosen.get(m.id))]

    def plan(self, chosen: Mapping[str, Chosen], out: Path) -> list[Planned]:
        """The runs of the methods whose settings are known, seed by seed: what is stopped has compared all on some."""
        if self.federation.tuning is None:
            columns = [method.column({}) for method in self.methods]
        else:
            columns = [method.column(chosen[method.id].setting) for method in self.methods if method.id in chosen]
        return [
            planned(self.federation.id, cell_of(self.federation, column), column.label, None, seed, out)
            for seed in range(self.seeds)
            for column in columns
        ]


def _tuned(tuning: Tuning, method: BoardMethod, found: Chosen | None) -> bool:
    wanted = (tuning.trials, tuning.seeds, (*tuning.search, *method.search))
    return found is not None and (found.trials, len(found.seeds), found.search) == wanted


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


def in_tables(pairing: Pairing, runs: Iterable[Planned], folder: Path) -> list[Result]:
    """Results of the papers' tables, which lie beside those of the board, that are its runs as well."""
    tables = folder.with_name("results")
    return list(of_tables(runs, read_all(tables))) if pairing.federation.tuning is None and tables.is_dir() else []


def of_tables(runs: Iterable[Planned], results: Iterable[Result]) -> Iterator[Result]:
    """Runs that a table of results has, under another name: they are not played again."""
    played = {_played(parse(tomllib.loads(found.experiment), stored=True)): found for found in results}
    for run in runs:
        if (found := played.get(_played(run.experiment))) is not None:
            yield replace(found, table=run.cell.id, cell=run.cell.id, column=run.column.label)


def _played(experiment: Experiment) -> str:
    return json.dumps(experiment.decisive() | {"name": ""}, sort_keys=True)


def left(runs: Iterable[Planned], kept: Mapping[Key, Result]) -> list[Planned]:
    """The runs that are neither finished nor stored as they are planned now."""
    return [run for run in runs if not run.done and not _same(run, kept.get((run.column.label, run.experiment.seed)))]


def _same(run: Planned, found: Result | None) -> bool:
    if found is None:
        return False
    return _played(parse(tomllib.loads(found.experiment), stored=True)) == _played(run.experiment)


def finished(out: Path, federation: str) -> list[Result]:
    """The results of all finished runs of a federation."""
    return [
        result(run, federation, federation, folder.parent.name)
        for folder in sorted((out / federation).glob("*/seed-*"))
        if (run := RunFolder(folder)).summary() is not None
    ]
