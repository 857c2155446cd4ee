"""How methods stand: accuracies in each federation, ranks over all, and what each gains, in pairs of the same seed."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from statistics import median

from entrofed.leaderboard.board import Board, BoardFederation
from entrofed.papers.results import Result
from entrofed.suite.blocks import Block, Pooled, pooled
from entrofed.suite.ranking import Rank, ranks
from entrofed.suite.statistics import Interval, Row, compare, interval
from entrofed.suite.target import Reached, first_reaching

PERCENT = 100.0


@dataclass(frozen=True)
class Target:
    """What it took to reach the federation's target: medians over the seeds that reached it."""

    reached: int
    seeds: int
    rounds: float | None
    megabytes: float | None


@dataclass(frozen=True)
class Place:
    """A method in a federation, per cent."""

    method: str
    accuracy: Interval
    mean_rank: float | None
    """Over the seeds that all methods have; None if there is none."""
    gain: Row | None
    """Against the board's reference; Holm's correction goes over the methods of the federation."""
    target: Target


@dataclass(frozen=True)
class Standing:
    """The board as results have it."""

    places: Mapping[str, tuple[Place, ...]]
    """By federation, the best first."""
    counted: tuple[str, ...]
    """The federations that what follows is over: not those without a search, for their settings suit some methods
    better than others, nor those that are still being played, once others have all methods of the board."""
    ranks: tuple[Rank, ...]
    """Of the methods that were played in each of them, over the seeds that all methods have."""
    gains: tuple[Pooled, ...]
    """Of each method over the reference, over federations and seeds."""
    controls: tuple[Pooled, ...]
    """Of each method over its control."""


def standing(board: Board, results: Iterable[Result]) -> Standing:
    """How the methods of the results stand."""
    runs = [run for run in results if run.cell in board.federations and run.value(board.judged_by) is not None]
    federations = [f for f in board.federations.values() if any(run.cell == f.id for run in runs)]
    counted = _counted(board, federations, runs)
    values: dict[str, dict[Block, float]] = defaultdict(dict)
    for run in runs:
        if run.cell in counted:
            values[run.column][run.cell, run.seed] = PERCENT * (run.value(board.judged_by) or 0.0)
    order = [*(name for name in board.methods if name in values), *sorted(set(values) - set(board.methods))]
    values = {name: values[name] for name in order}
    controlled = [(m.id, m.control) for m in board.methods.values() if m.control is not None]
    return Standing(
        {f.id: tuple(_places(board, f, [run for run in runs if run.cell == f.id])) for f in federations},
        tuple(counted),
        tuple(_ranks(values, counted)),
        tuple(pooled(values, [(name, board.against) for name in order if name != board.against])),
        tuple(pooled(values, controlled)),
    )


def _counted(board: Board, federations: Sequence[BoardFederation], runs: Sequence[Result]) -> list[str]:
    tuned = [f for f in federations if f.tuning is not None]
    played = {f.id: {run.column for run in runs if run.cell == f.id} for f in tuned}
    whole = [
        f.id
        for f in tuned
        if all(m.id in played[f.id] for m in board.methods.values() if f.has_validation or not m.needs_validation)
    ]
    return whole or [f.id for f in tuned]


def _ranks(values: Mapping[str, Mapping[Block, float]], federations: Sequence[str]) -> list[Rank]:
    whole = {name: rows for name, rows in values.items() if {cell for cell, _ in rows} == set(federations)}
    return ranks(whole) if whole and set.intersection(*(set(rows) for rows in whole.values())) else []


def _places(board: Board, federation: BoardFederation, runs: Sequence[Result]) -> Iterator[Place]:
    by_seed: dict[str, dict[int, float]] = defaultdict(dict)
    for run in runs:
        by_seed[run.column][run.seed] = PERCENT * (run.value(board.judged_by) or 0.0)
    blocks = {name: {(federation.id, seed): value for seed, value in rows.items()} for name, rows in by_seed.items()}
    ranked = {rank.method: rank.mean_rank for rank in _ranks(blocks, [federation.id])}
    gains = {row.method: row for row in compare(by_seed, board.against)} if board.against in by_seed else {}
    accuracy = {name: interval(rows.values(), bounds=(0.0, PERCENT)) for name, rows in by_seed.items()}
    for name in sorted(by_seed, key=lambda name: (-accuracy[name].mean, name)):
        mine = [run for run in runs if run.column == name]
        yield Place(name, accuracy[name], ranked.get(name), gains.get(name), _target(mine, federation.target))


def _target(runs: Sequence[Result], target: float) -> Target:
    found = [reached for run in runs if (reached := reached_by(run, target)) is not None]
    rounds = median(one.rounds for one in found) if found else None
    return Target(len(found), len(runs), rounds, median(one.megabytes for one in found) if found else None)


def reached_by(run: Result, target: float) -> Reached | None:
    """When a stored run first reached an accuracy; known only of rounds that were evaluated.

    >>> course = {"bytes_up": [10**6] * 4, "bytes_down": [10**6] * 4}
    >>> run = Result("t", "c", "FedAvg", 0, "1", "", {"accuracy": [0.5, 0.7]}, (2, 4), course)
    >>> reached_by(run, 0.6).rounds, reached_by(run, 0.6).megabytes
    (4, 8.0)
    """
    known = dict(zip(run.at or range(1, run.rounds + 1), run.series["accuracy"], strict=True))
    sent = accumulate(
        (up + down) / 1e6 for up, down in zip(run.course["bytes_up"], run.course["bytes_down"], strict=True)
    )
    rounds = range(1, run.rounds + 1)
    return first_reaching([known.get(number) for number in rounds], sent, [0.0] * run.rounds, target)
