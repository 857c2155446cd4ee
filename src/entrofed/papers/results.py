"""What runs gave, round by round, small enough to be kept with the code: one Parquet file for each table of a paper.

A row is a round of a run. ``experiment`` is the run's resolved configuration as TOML, so that every number can be made
again; ``version`` is the library's that made it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import pyarrow
import pyarrow.parquet

from entrofed.core.records import Metrics, RoundRecord
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
    "accuracy_id",
    "consensus",
    "seconds",
)
"""What is kept of each round; papers report neither of the last two."""

NEAR = 0.95
"""Share of the best value at which a run counts as converged."""


@dataclass(frozen=True)
class Result:
    """One run: what was run, and its metrics in each round."""

    table: str
    """Paper and table, as in ``fedep/table2``."""
    cell: str
    column: str
    seed: int
    version: str
    experiment: str
    series: dict[str, list[float | None]]

    @property
    def rounds(self) -> int:
        """How many rounds were run."""
        return len(self.series["accuracy"])

    def value(self, metric: str) -> float | None:
        """One of :data:`entrofed.papers.tables.METRICS`; None if the run did not measure it, or diverged.

        >>> run = Result("t", "c", "FedAvg", 0, "1", "", {"accuracy": [0.5, 0.7], "macro_f1": [0.4, None]})
        >>> run.value("accuracy"), run.value("accuracy_mean"), run.value("macro_f1")
        (0.7, 0.6, None)
        """
        if metric == "convergence":
            return convergence(self.series["macro_f1"])
        for ending, reduce in _REDUCTIONS.items():
            if metric.endswith(ending) and (name := metric.removesuffix(ending)) in self.series:
                return reduce(self.series[name])
        raise ConfigError(f"metric {metric!r} is not kept; there are {', '.join(SERIES)}")


def _last(values: Sequence[float | None]) -> float | None:
    return values[-1]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == len(values) else None


def convergence(values: Sequence[float | None]) -> float | None:
    """The first round with :data:`NEAR` of the best value.

    >>> convergence([0.2, 0.89, 0.9, 0.91])
    2
    """
    known = [value for value in values if value is not None]
    return next(i + 1 for i, value in enumerate(known) if value >= NEAR * max(known)) if known else None


_REDUCTIONS = {"_last_10": lambda values: _mean(values[-10:]), "_mean": _mean, "": _last}


def result(run: RunFolder, table: str, cell: str, column: str) -> Result:
    """The result of a finished run."""
    records = run.records()
    environment = json.loads((run.path / "environment.json").read_text(encoding="utf-8"))
    rows = [_kept(record, record.test) for record in records if record.test is not None]
    return Result(
        table,
        cell,
        column,
        run.experiment().seed,
        environment["entrofed"],
        (run.path / "experiment.toml").read_text(encoding="utf-8"),
        {name: [row[name] for row in rows] for name in SERIES},
    )


def _kept(record: RoundRecord, test: Metrics) -> dict[str, float | None]:
    inside = record.in_distribution
    return {
        "accuracy": test.accuracy,
        "loss": test.loss,
        "macro_f1": test.macro_f1,
        "weighted_f1": test.weighted_f1,
        "weighted_precision": test.weighted_precision,
        "weighted_recall": test.weighted_recall,
        "train_loss": record.train_loss,
        "accuracy_id": None if inside is None else inside.accuracy,
        "consensus": record.consensus,
        "seconds": record.duration,
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
        everything = [found for _, found in sorted((kept | runs).items())]
        rows = [
            {name: getattr(found, name) for name in LABELS}
            | {"round": i + 1}
            | {name: found.series[name][i] for name in SERIES}
            for found in everything
            for i in range(found.rounds)
        ]
        sink = pyarrow.BufferOutputStream()
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, _SCHEMA), sink, compression="zstd")
        write_whole(path, sink.getvalue().to_pybytes())
        written.append(path)
    return written


_SCHEMA = pyarrow.schema(
    [
        *((name, pyarrow.int64() if name == "seed" else pyarrow.string()) for name in LABELS),
        ("round", pyarrow.int64()),
        *((name, pyarrow.float32() if name == "seconds" else pyarrow.float64()) for name in SERIES),
    ]
)


def read(path: Path) -> list[Result]:
    """The results of one file."""
    try:
        rows = pyarrow.parquet.read_table(path, schema=_SCHEMA).to_pylist()
    except (pyarrow.ArrowInvalid, OSError, KeyError) as error:
        raise DataError(f"{path}: not readable as stored results: {error}") from None
    runs: dict[tuple[object, ...], Result] = {}
    for row in rows:
        labels = {name: row[name] for name in LABELS}
        run = runs.setdefault(tuple(labels.values()), Result(**labels, series={name: [] for name in SERIES}))
        for name in SERIES:
            run.series[name].append(row[name])
    return list(runs.values())


def read_all(folder: Path) -> list[Result]:
    """All results of a folder."""
    if not folder.is_dir():
        raise ConfigError(f"{folder}: there is no such folder of results")
    return [found for path in sorted(folder.glob("*.parquet")) for found in read(path)]
