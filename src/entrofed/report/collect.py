"""The runs of a report, each reduced to what the page shows, and grouped into experiments."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.records import Metrics, RoundRecord
from entrofed.errors import CheckpointError, ConfigError
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder, readable
from entrofed.experiment.sections.data import DataSection
from entrofed.experiment.summary import asked_metrics, asked_of, summarize
from entrofed.info.entropy import Floats
from entrofed.peer.whole import whole_runs
from entrofed.suite.target import Reached, elapsed, first_reaching


@dataclass(frozen=True)
class Weights:
    """Who counted how much: aligned columns; ``share`` is the weight as a multiple of an equal one."""

    round: NDArray[np.int64]
    client: NDArray[np.int64]
    share: Floats


@dataclass(frozen=True)
class Run:
    """One run, as far as it is."""

    folder: RunFolder
    experiment: Experiment
    finished: bool
    summary: dict[str, Any] | None
    """Final metrics, or what they would be by now; None before the first evaluation."""
    series: dict[str, Floats]
    """A value for each round, NaN where there is none; traffic is cumulative, in MB. Metrics that an experiment asks
    for are there if a round has them, called as in a comparison."""
    elapsed: Floats
    """Seconds since the start, on the server's clock."""
    virtual: list[float] | None
    """The same on the virtual clock, if there is one."""
    class_accuracy: list[float]
    weights: Weights
    participation: Counter[int]
    reasons: Counter[str]
    """Why updates were refused."""
    seconds: dict[str, float]
    """By phase, on the server's clock."""
    nodes: Floats
    """Accuracy of each peer, [rounds, nodes]; no columns with a server."""
    classes: list[str]
    label_counts: NDArray[np.int64]
    """[clients, classes]; empty if it is not known."""
    environment: str
    reveals: dict[str, list[str]] | None
    """What leaves a client, ``once`` and in ``each_round``; None if it was not recorded."""

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return len(self.series["accuracy"])

    def values(self, metric: str) -> Floats:
        """A series; NaN throughout if the run has none of that name."""
        return self.series.get(metric, np.full(self.rounds, np.nan))

    def to_target(self, target: float) -> Reached | None:
        """What it took to reach an accuracy on the test set."""
        return first_reaching(self.series["accuracy"], self.series["traffic"], self.elapsed, target, self.virtual)


@dataclass(frozen=True)
class Group:
    """An experiment: the same folder, one run per seed, in ascending order."""

    name: str
    runs: list[Run]

    @property
    def first(self) -> Run:
        """The run with the lowest seed; stands for all where one must be picked."""
        return self.runs[0]

    @property
    def data(self) -> DataSection:
        """What it was run on; the same for all seeds."""
        return self.first.experiment.data

    def values(self, metric: str) -> list[float]:
        """A metric of the summaries, of all seeds that have it."""
        return [run.summary[metric] for run in self.runs if run.summary and run.summary.get(metric) is not None]

    def mean(self, metric: str) -> float:
        """The mean over the seeds; NaN without any."""
        values = self.values(metric)
        return sum(values) / len(values) if values else float("nan")


def read_groups(folders: list[RunFolder]) -> list[Group]:
    """The experiments in the order in which they come; a folder given twice counts once, peers of one run too."""
    if not folders:
        raise ConfigError("there are no runs to report on; name a folder that holds some")
    groups: dict[Path, list[Run]] = {}
    for folder, run in readable(whole_runs(list(dict.fromkeys(folders))), read_run):
        groups.setdefault(folder.home, []).append(run)
    names = _names(list(groups))
    return [Group(names[path], sorted(runs, key=lambda run: run.experiment.seed)) for path, runs in groups.items()]


def _names(paths: list[Path]) -> dict[Path, str]:
    """The last part of each path, or as many as tell them apart.

    >>> list(_names([Path("a/x"), Path("b/x"), Path("b/y")]).values())
    ['a/x', 'b/x', 'y']
    """
    names: dict[Path, str] = {}
    for path in paths:
        ends = ("/".join(path.parts[-n:]) for n in range(1, len(path.parts)))
        alone = (end for end in ends if sum(f"/{other.as_posix()}".endswith(f"/{end}") for other in paths) == 1)
        names[path] = next(alone, path.as_posix())
    return names


def read_run(folder: RunFolder) -> Run:
    """Read a run and keep what the page shows."""
    experiment, records, stored = folder.experiment(), folder.records(), folder.summary()
    tests = [record.test for record in records if record.test is not None]
    facts = folder.federation_facts() or {"classes": [], "label_counts": []}
    seconds: Counter[str] = Counter()
    for record in records:
        seconds.update({phase: lap for phase, lap in record.seconds.items() if phase != "clients"})
    summary = stored if stored is not None else summarize(records) if tests else None
    if summary is not None:
        summary = {**summary, **asked_metrics(summary)}
    if stored is None and (released := folder.released()) is not None:
        summary = {**(summary or {}), "privacy": released.spent}
    environment = folder.path / "environment.json"
    return Run(
        folder=folder,
        experiment=experiment,
        finished=stored is not None,
        summary=summary,
        series=_series(records),
        virtual=elapsed(record.virtual_seconds for record in records),
        elapsed=_column(accumulate(record.duration for record in records)),
        class_accuracy=tests[-1].class_accuracy if tests else [],
        weights=_weights(records),
        participation=Counter(client for record in records for client in record.cohort),
        reasons=Counter(refusal.reason for record in records for refusal in record.refused),
        seconds=dict(seconds),
        nodes=_nodes(records),
        classes=[str(name) for name in facts.get("classes") or ()],
        label_counts=_counts(folder, facts.get("label_counts")),
        environment=_pretty(environment) if environment.exists() else "",
        reveals=_reveals(folder),
    )


def _counts(folder: RunFolder, rows: Any) -> NDArray[np.int64]:
    try:
        return np.array(rows or [], np.int64)
    except (ValueError, TypeError, OverflowError):
        raise CheckpointError(f"{folder.path / 'federation.json'}: its label counts are none") from None


def _reveals(folder: RunFolder) -> dict[str, list[str]] | None:
    found = (folder.method() or {}).get("reveals")
    if not isinstance(found, Mapping):
        return None
    return {when: [str(words) for words in found.get(when) or ()] for when in ("once", "each_round")}


def _series(records: Sequence[RoundRecord]) -> dict[str, Floats]:
    tests = [record.test for record in records]
    up = _column(accumulate(record.bytes_up / 1e6 for record in records))
    down = _column(accumulate(record.bytes_down / 1e6 for record in records))
    return {
        "accuracy": _column(map(_accuracy, tests)),
        "loss": _column(None if test is None else test.loss for test in tests),
        "inside": _column(_accuracy(record.in_distribution) for record in records),
        "train_loss": _column(record.train_loss for record in records),
        "entropy": _column(record.cohort_entropy for record in records),
        "admitted": _column(len(record.clients) for record in records),
        "refused": _column(len(record.refused) for record in records),
        "consensus": _column(record.consensus for record in records),
        "up": up,
        "down": down,
        "traffic": up + down,
        **_asked(records),
    }


def _asked(records: Sequence[RoundRecord]) -> dict[str, Floats]:
    """The metrics that the experiment asks for: on the test set, and fairness on held-out data."""
    rows = [asked_metrics(asked_of([record])) for record in records]
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: _column(row.get(name) for row in rows) for name in names}


def _accuracy(metrics: Metrics | None) -> float | None:
    return None if metrics is None else metrics.accuracy


def _column(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _weights(records: Sequence[RoundRecord]) -> Weights:
    """Of peers, what each gives its own model says little: they are left out."""
    found = [
        (record.round + 1, client.client, client.weight * len(record.clients))
        for record in records
        if not record.peers and not record.skipped
        for client in record.clients
    ]
    rounds, clients, shares = zip(*found, strict=True) if found else ((), (), ())
    return Weights(np.array(rounds, np.int64), np.array(clients, np.int64), np.array(shares, np.float64))


def _nodes(records: Sequence[RoundRecord]) -> Floats:
    nodes = max((len(record.peers) for record in records), default=0)
    rows = [_column(peer.accuracy for peer in record.peers) if record.peers else [np.nan] * nodes for record in records]
    return np.array(rows, np.float64).reshape(len(records), nodes)


def _pretty(path: Path) -> str:
    try:
        return json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=2)
    except (OSError, ValueError, RecursionError):
        return "not readable"
