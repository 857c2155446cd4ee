"""The runs of a report, each reduced to what the page shows, and grouped into experiments."""

import json
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError
from entrofed.experiment.config import DataSection, Experiment
from entrofed.experiment.run_folder import Record, RunFolder
from entrofed.experiment.runner import summarize
from entrofed.info.entropy import Floats


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
    figures: dict[str, Any] | None
    """The summary, or what it would be by now; None before the first evaluation."""
    series: dict[str, Floats]
    """A value for each round, NaN where there is none; traffic is cumulative, in MB."""
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

    @property
    def rounds(self) -> int:
        """Rounds played."""
        return len(self.series["accuracy"])


@dataclass(frozen=True)
class Group:
    """An experiment: the same folder, one run a seed, in ascending order."""

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

    def values(self, figure: str) -> list[float]:
        """A figure of all seeds that have it."""
        return [run.figures[figure] for run in self.runs if run.figures and run.figures.get(figure) is not None]

    def mean(self, figure: str) -> float:
        """The mean over the seeds; NaN without any."""
        values = self.values(figure)
        return sum(values) / len(values) if values else float("nan")


def read_groups(folders: list[RunFolder]) -> list[Group]:
    """The experiments in the order in which they come; a folder given twice counts once."""
    if not folders:
        raise ConfigError("there are no runs to report on; name a folder that holds some")
    groups: dict[Path, list[Run]] = {}
    for folder in dict.fromkeys(folders):
        groups.setdefault(folder.path.parent, []).append(read_run(folder))
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
    experiment, records, summary = folder.experiment(), folder.records(), folder.summary()
    tests = [record["test"] for record in records if record["test"] is not None]
    facts = folder.federation_facts() or {"classes": [], "label_counts": []}
    seconds: Counter[str] = Counter()
    for record in records:
        seconds.update({phase: lap for phase, lap in record["seconds"].items() if phase != "clients"})
    figures = summary if summary is not None else summarize(records) if tests else None
    if summary is None and (released := folder.released()) is not None:
        figures = {**(figures or {}), "privacy": released.spent}
    environment = folder.path / "environment.json"
    return Run(
        folder=folder,
        experiment=experiment,
        finished=summary is not None,
        figures=figures,
        series=_series(records),
        class_accuracy=tests[-1]["class_accuracy"] if tests else [],
        weights=_weights(records),
        participation=Counter(client for record in records for client in record["cohort"]),
        reasons=Counter(refusal["reason"] for record in records for refusal in record["refused"]),
        seconds=dict(seconds),
        nodes=_nodes(records),
        classes=[str(name) for name in facts["classes"]],
        label_counts=np.array(facts["label_counts"], np.int64),
        environment=_pretty(environment) if environment.exists() else "",
    )


def _series(records: list[Record]) -> dict[str, Floats]:
    def column(values: Any) -> Floats:
        return np.array([np.nan if value is None else value for value in values], np.float64)

    def of(part: str, key: str) -> Floats:
        return column((record.get(part) or {}).get(key) for record in records)

    up = column(accumulate(record["bytes_up"] / 1e6 for record in records))
    down = column(accumulate(record["bytes_down"] / 1e6 for record in records))
    return {
        "accuracy": of("test", "accuracy"),
        "loss": of("test", "loss"),
        "inside": of("id", "accuracy"),
        "train_loss": column(record["train_loss"] for record in records),
        "entropy": column(record["cohort_entropy"] for record in records),
        "admitted": column(len(record["clients"]) for record in records),
        "refused": column(len(record["refused"]) for record in records),
        "consensus": column(record.get("consensus") for record in records),
        "up": up,
        "down": down,
        "traffic": up + down,
    }


def _weights(records: list[Record]) -> Weights:
    """Of peers, what each gives its own model says little: they are left out."""
    found = [
        (record["round"] + 1, entry["client"], entry["weight"] * len(record["clients"]))
        for record in records
        if not record.get("peers") and not record["skipped"]
        for entry in record["clients"]
    ]
    rounds, clients, shares = zip(*found, strict=True) if found else ((), (), ())
    return Weights(np.array(rounds, np.int64), np.array(clients, np.int64), np.array(shares, np.float64))


def _nodes(records: list[Record]) -> Floats:
    nodes = max((len(record.get("peers", ())) for record in records), default=0)
    rows = [
        [peer.get("accuracy", np.nan) for peer in record.get("peers", ())] or [np.nan] * nodes for record in records
    ]
    return np.array(rows, np.float64).reshape(len(records), nodes)


def _pretty(path: Path) -> str:
    return json.dumps(json.loads(path.read_text(encoding="utf-8")), indent=2)
