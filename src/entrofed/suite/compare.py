"""Experiments side by side: mean and spread over seeds, and paired tests."""

import csv
import io
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entrofed.errors import ConfigError, unknown
from entrofed.experiment.run_folder import find_runs
from entrofed.suite.statistics import Row, compare

METRICS = {
    "accuracy": ("accuracy %", 100),
    "accuracy_last_10": ("last 10 %", 100),
    "accuracy_best": ("best %", 100),
    "macro_f1": ("macro F1 %", 100),
}
"""Metrics of a summary that are compared, with their titles, and what they are multiplied by to be in per cent."""


def summaries_of(paths: list[Path]) -> dict[Path, dict[int, dict[str, Any]]]:
    """The summaries of finished runs, by experiment and seed."""
    groups: dict[Path, dict[int, dict[str, Any]]] = {}
    unfinished: list[str] = []
    for run in dict.fromkeys(find_runs(paths)):  # a run that lies below two of the paths counts once
        if (summary := run.summary()) is None:
            unfinished.append(run.label)
        else:
            groups.setdefault(run.path.parent, {})[run.experiment().seed] = summary
    if unfinished:
        raise ConfigError(f"not finished yet: {', '.join(unfinished)}; continue with 'entrofed resume'")
    if not groups:
        raise ConfigError(f"there are no runs in {', '.join(str(path) for path in paths)}")
    return groups


def comparison(paths: list[Path]) -> list[dict[str, Any]]:
    """A row for each experiment: mean and sample standard deviation of its metrics over its seeds."""
    rows: list[dict[str, Any]] = []
    for folder, of_seeds in sorted(summaries_of(paths).items()):
        summaries = list(of_seeds.values())
        row: dict[str, Any] = {
            "experiment": folder.name,
            "seeds": len(summaries),
            "rounds": summaries[0]["rounds"],
        }
        for key in METRICS:
            values = [summary[key] for summary in summaries]
            row[f"{key}_mean"] = statistics.mean(values)
            row[f"{key}_std"] = statistics.stdev(values) if len(values) > 1 else None
        rows.append(row)
    return rows


def _cells(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    for row in rows:
        cells = [row["experiment"], str(row["seeds"]), str(row["rounds"])]
        for key, (_, scale) in METRICS.items():
            cells.append(spread_words(row[f"{key}_mean"], row[f"{key}_std"], scale, 2))
        yield cells


def spread_words(mean: float, spread: float | None, scale: float, digits: int) -> str:
    """A mean with its spread, if there is one, both multiplied by ``scale``.

    >>> spread_words(0.5, 0.012, 100, 1)
    '50.0 ± 1.2'
    """
    return f"{mean * scale:.{digits}f}" + ("" if spread is None else f" ± {spread * scale:.{digits}f}")


HEAD = ["experiment", "seeds", "rounds", *(title for title, _ in METRICS.values())]


def csv_text(rows: list[dict[str, Any]]) -> str:
    """The comparison as comma-separated values, at full precision."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def markdown_text(rows: list[dict[str, Any]]) -> str:
    """The comparison as a Markdown table."""
    lines = [HEAD, ["---"] * len(HEAD), *_cells(rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def paired_rows(paths: list[Path], against: str, metric: str = "accuracy_last_10") -> list[Row]:
    """Every experiment against one of them, in pairs of runs with the same seed; names are those of the folders."""
    named: dict[str, dict[int, float]] = {}
    for folder, of_seeds in summaries_of(paths).items():
        if folder.name in named:
            raise ConfigError(f"two of the experiments are called {folder.name!r}; rename a folder to compare them")
        named[folder.name] = {seed: summary[metric] for seed, summary in of_seeds.items()}
    if against not in named:
        raise unknown("experiment", against, named)
    return compare(named, against)
