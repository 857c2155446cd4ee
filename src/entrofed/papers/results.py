"""What runs gave, round by round, small enough to be kept with the code: one Parquet file for each table of a paper.

A row is a round of a run. ``experiment`` is the run's resolved configuration as TOML, so that every number can be made
again; ``version`` is the library's that made it. Rounds that were not evaluated have a row too, for what they cost and
who took part: ``bytes_up``, ``bytes_down``, ``cohort`` (numbers of the clients whose updates count), ``weights``
(theirs, to four digits) and ``cohort_entropy`` (bits); with peers, ``weights`` are those of the nodes' own models. How
the step agrees with the gradient over all data is kept where it was measured (``alignment_error``, which is A_t, and
``alignment_cosine``; see :func:`entrofed.info.bounds.alignment_error`).
``confusion`` is the last round's matrix, row by row: samples of a class by what they are taken for.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression, mean, stdev
from typing import Any

import pyarrow
import pyarrow.parquet

from entrofed.core.records import RoundRecord
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.run_folder import RunFolder
from entrofed.files import write_whole

LABELS = ("table", "cell", "column", "seed", "version", "experiment")
SERIES = (
    "accuracy",
    "loss",
    "macro_f1",
    "weighted_f1",
    "weighted_precision",
    "weighted_recall",
    "train_loss",
    "training_loss",
    "training_accuracy",
    "validation_loss",
    "validation_accuracy",
    "accuracy_id",
    "consensus",
    "seconds",
)
"""What is kept of each evaluated round; papers report neither of the last two. ``train_loss`` is that of clients while
they train; ``training_`` and ``validation_`` are of the global model, where the experiment asks for them."""
OF_PARTS = ("loss", "accuracy")
"""What is kept of the parts of the data other than the test set."""
COURSE = {
    "bytes_up": pyarrow.int64(),
    "bytes_down": pyarrow.int64(),
    "cohort_entropy": pyarrow.float32(),
    "alignment_error": pyarrow.float32(),
    "alignment_cosine": pyarrow.float32(),
    "cohort": pyarrow.list_(pyarrow.int32()),
    "weights": pyarrow.list_(pyarrow.float32()),
    "confusion": pyarrow.list_(pyarrow.int32()),
}
"""What is kept of every round; files of version 0.1 do not have it."""

NEAR = 0.95
"""Share of the best value at which a run counts as converged."""
LAST = 10
"""Evaluated rounds at the end of a run that are looked at to see whether it has settled."""
STEADY = 0.01
"""A run has settled if over these it neither spreads by more (sample standard deviation) nor moves by more (slope of
the least squares line times their number); one percentage point."""


@dataclass(frozen=True)
class Result:
    """One run: what was run, and its metrics in each evaluated round."""

    table: str
    """Paper and table, as in ``fedep/table2``."""
    cell: str
    column: str
    seed: int
    version: str
    experiment: str
    series: Mapping[str, list[float | None]]
    at: tuple[int, ...] = ()
    """The evaluated rounds, counted from 1; all, if none are named."""
    course: Mapping[str, list[Any]] = field(default_factory=dict)
    """:data:`COURSE`, of every round; empty if it was not kept."""

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return self.at[-1] if self.at else len(self.series["accuracy"])

    def value(self, metric: str) -> float | None:
        """One of :data:`entrofed.papers.reported.METRICS`; None if the run did not measure it, or diverged.

        >>> run = Result("t", "c", "FedAvg", 0, "1", "", {"accuracy": [0.5, 0.7], "macro_f1": [0.4, None]})
        >>> run.value("accuracy"), run.value("accuracy_mean"), run.value("macro_f1")
        (0.7, 0.6, None)
        """
        if metric == "convergence":
            place = convergence(self.series["macro_f1"])
            return place if place is None or not self.at else self.at[place - 1]
        if metric == "cohort_entropy_mean":
            return _mean(self.course.get("cohort_entropy") or [None])
        for ending, reduce in _REDUCTIONS.items():
            if metric.endswith(ending) and (name := metric.removesuffix(ending)) in self.series:
                whole = ending != "_mean" or len(self.series[name]) == self.rounds
                return reduce(self.series[name]) if whole else None
        raise ConfigError(f"metric {metric!r} is not kept; there are {', '.join(SERIES)}")

    def settled(self, metric: str) -> bool:
        """Whether a metric has come to rest, as :data:`STEADY` says; not if there are too few evaluated rounds.

        >>> run = Result("t", "c", "FedAvg", 0, "1", "", {"accuracy": [0.40, 0.44] * 5, "macro_f1": [0.4, 0.401] * 5})
        >>> run.settled("accuracy_last_10"), run.settled("macro_f1")
        (False, True)
        """
        known = {**self.course, **self.series}
        name = next((name for name in sorted(known, key=len, reverse=True) if metric.startswith(name)), "")
        last = [value for value in known.get(name, [])[-LAST:] if value is not None]
        if len(last) < LAST:
            return False
        return stdev(last) <= STEADY and abs(linear_regression(range(LAST), last).slope) * LAST <= STEADY


def _last(values: Sequence[float | None]) -> float | None:
    return values[-1]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None


def convergence(values: Sequence[float | None]) -> int | None:
    """The first round with :data:`NEAR` of the best value.

    >>> convergence([0.2, 0.89, 0.9, 0.91])
    2
    """
    best = max((value for value in values if value is not None), default=None)
    if best is None:
        return None
    return next(i + 1 for i, value in enumerate(values) if value is not None and value >= NEAR * best)


_REDUCTIONS = {"_last_10": lambda values: _mean(values[-10:]), "_mean": _mean, "": _last}


def result(run: RunFolder, table: str, cell: str, column: str) -> Result:
    """The result of a finished run."""
    records = run.records()
    environment = json.loads((run.path / "environment.json").read_text(encoding="utf-8"))
    evaluated = [record for record in records if record.test is not None]
    rows = [_evaluated(record) for record in evaluated]
    course = [_course(record) for record in records]
    if (test := records[-1].test) is not None:
        course[-1]["confusion"] = [count for row in test.confusion for count in row] or None
    return Result(
        table,
        cell,
        column,
        run.experiment().seed,
        environment["entrofed"],
        (run.path / "experiment.toml").read_text(encoding="utf-8"),
        {name: [row[name] for row in rows] for name in SERIES},
        _unless_all(record.round + 1 for record in evaluated),
        {name: [row[name] for row in course] for name in COURSE},
    )


def _unless_all(rounds: Iterable[int]) -> tuple[int, ...]:
    found = tuple(rounds)
    return () if found == tuple(range(1, len(found) + 1)) else found


def _evaluated(record: RoundRecord) -> dict[str, float | None]:
    inside = record.in_distribution
    parts = {f"{part}_{name}": getattr(found, name) for part, found in record.parts.items() for name in OF_PARTS}
    return {name: getattr(record.test, name, None) for name in SERIES} | {
        **parts,
        "train_loss": record.train_loss,
        "accuracy_id": None if inside is None else inside.accuracy,
        "consensus": record.consensus,
        "seconds": record.duration,
    }


def _course(record: RoundRecord) -> dict[str, Any]:
    used = [client for client in record.clients if client.weight > 0 or record.peers]
    return {
        "bytes_up": record.bytes_up,
        "bytes_down": record.bytes_down,
        "cohort_entropy": record.cohort_entropy,
        "alignment_error": None if record.alignment is None else record.alignment.error,
        "alignment_cosine": None if record.alignment is None else record.alignment.cosine,
        "cohort": [client.client for client in used],
        "weights": [round(client.weight, 4) for client in used],
        "confusion": None,
    }


def store(results: Iterable[Result], folder: Path) -> list[Path]:
    """Write the results, one file per table, beside those that are there; a run that is there already is replaced."""
    folder.mkdir(parents=True, exist_ok=True)
    new: dict[str, dict[tuple[str, str, int], Result]] = {}
    for found in results:
        new.setdefault(found.table, {})[found.cell, found.column, found.seed] = found
    written = []
    for table, runs in new.items():
        path = folder / f"{table.replace('/', '-')}.parquet"
        kept = {(old.cell, old.column, old.seed): old for old in (read(path) if path.exists() else [])}
        rows = [row for _, found in sorted((kept | runs).items()) for row in _rows(found)]
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, _SCHEMA), sink, compression="zstd")
        write_whole(path, sink.getvalue().to_pybytes())
        written.append(path)
    return written


def _rows(found: Result) -> Iterator[dict[str, Any]]:
    labels = {name: getattr(found, name) for name in LABELS}
    places = {number: i for i, number in enumerate(found.at or range(1, found.rounds + 1))}
    for number in range(1, found.rounds + 1) if found.course else places:
        row = labels | {"round": number, "evaluated": number in places}
        if number in places:
            row |= {name: found.series[name][places[number]] for name in SERIES}
        yield row | {name: values[number - 1] for name, values in found.course.items()}


_SCHEMA = pyarrow.schema(
    [
        *((name, pyarrow.int64() if name == "seed" else pyarrow.string()) for name in LABELS),
        ("round", pyarrow.int64()),
        ("evaluated", pyarrow.bool_()),
        *((name, pyarrow.float32() if name == "seconds" else pyarrow.float64()) for name in SERIES),
        *COURSE.items(),
    ]
)


def read(path: Path) -> list[Result]:
    """The results of one file."""
    try:
        rows = pyarrow.parquet.read_table(path, schema=_SCHEMA).to_pylist()
    except (pyarrow.ArrowInvalid, OSError, KeyError) as error:
        raise DataError(f"{path}: not readable as stored results: {error}") from None
    runs: dict[tuple[object, ...], list[dict[str, Any]]] = {}
    for row in rows:
        runs.setdefault(tuple(row[name] for name in LABELS), []).append(row)
    return [_result(found) for found in runs.values()]


def _result(rows: Sequence[Mapping[str, Any]]) -> Result:
    evaluated = [row for row in rows if row["evaluated"] is not False]  # files of version 0.1: all are
    kept = rows[0]["bytes_up"] is not None
    return Result(
        **{name: rows[0][name] for name in LABELS},
        series={name: [row[name] for row in evaluated] for name in SERIES},
        at=_unless_all(row["round"] for row in evaluated),
        course={name: [row[name] for row in rows] for name in COURSE} if kept else {},
    )


def read_all(folder: Path) -> list[Result]:
    """All results of a folder."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder of results")
    return [found for path in sorted(folder.glob("*.parquet")) for found in read(path)]
