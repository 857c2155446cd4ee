"""Experiments side by side: mean and spread over seeds, and paired tests."""

import csv
import io
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.table import Table

from entrofed.errors import ConfigError, unknown
from entrofed.experiment.run_folder import find_runs
from entrofed.suite.statistics import Row, compare

FIGURES = {
    "accuracy": ("accuracy %", 100),
    "accuracy_last_10": ("last 10 %", 100),
    "accuracy_best": ("best %", 100),
    "macro_f1": ("macro F1 %", 100),
}
"""Figures of a summary that are compared, with their title and unit."""


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
    """A row for each experiment: mean and sample standard deviation of its figures over its seeds."""
    rows: list[dict[str, Any]] = []
    for folder, of_seeds in sorted(summaries_of(paths).items()):
        summaries = list(of_seeds.values())
        row: dict[str, Any] = {
            "experiment": folder.name,
            "seeds": len(summaries),
            "rounds": summaries[0]["rounds"],
        }
        for key in FIGURES:
            values = [summary[key] for summary in summaries]
            row[f"{key}_mean"] = statistics.mean(values)
            row[f"{key}_std"] = statistics.stdev(values) if len(values) > 1 else None
        rows.append(row)
    return rows


def _cells(rows: list[dict[str, Any]]) -> Iterator[list[str]]:
    for row in rows:
        cells = [row["experiment"], str(row["seeds"]), str(row["rounds"])]
        for key, (_, unit) in FIGURES.items():
            cells.append(_spread(row[f"{key}_mean"] * unit, row[f"{key}_std"], unit, 2))
        yield cells


def _spread(mean: float, spread: float | None, unit: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if spread is None else f" ± {spread * unit:.{digits}f}")


HEAD = ["experiment", "seeds", "rounds", *(title for title, _ in FIGURES.values())]


def comparison_table(rows: list[dict[str, Any]]) -> Table:
    """The comparison for a terminal, the best first."""
    shown = {key: title for key, (title, _) in FIGURES.items() if key != "macro_f1"}
    table = Table("experiment", "seeds", "rounds", *shown.values())
    table.caption = "mean ± sample standard deviation over seeds; 'last 10': mean of the last ten rounds"
    table.columns[0].no_wrap = True
    for row in sorted(rows, key=lambda row: -float(row["accuracy_last_10_mean"])):
        table.add_row(
            row["experiment"],
            str(row["seeds"]),
            str(row["rounds"]),
            *(_spread(row[f"{key}_mean"] * 100, row[f"{key}_std"], 100, 1) for key in shown),
        )
    return table


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


def paired_rows(paths: list[Path], against: str, figure: str = "accuracy_last_10") -> list[Row]:
    """Every experiment against one of them, in pairs of runs with the same seed; names are those of the folders."""
    named: dict[str, dict[int, float]] = {}
    for folder, of_seeds in summaries_of(paths).items():
        if folder.name in named:
            raise ConfigError(f"two of the experiments are called {folder.name!r}; rename a folder to compare them")
        named[folder.name] = {seed: summary[figure] for seed, summary in of_seeds.items()}
    if against not in named:
        raise unknown("experiment", against, named)
    return compare(named, against)


def paired_table(rows: list[Row]) -> Table:
    """The paired comparison for a terminal, in points."""
    table = Table("experiment", "seeds", "gain", "95 % interval", "won, lost", "p (t)", "p (rank)")
    table.title = f"against {rows[0].against}: mean of the last ten rounds, in points" if rows else "nothing to compare"
    table.columns[0].no_wrap = True
    warnings = []
    for row in sorted(rows, key=lambda row: -(row.paired.difference if row.paired else float("-inf"))):
        if row.warning:
            warnings.append(f"{row.method}: {row.warning}")
        if (found := row.paired) is None:
            table.add_row(row.method, "0", *[""] * 5)
            continue
        low, high = found.interval.low, found.interval.high
        table.add_row(
            row.method,
            str(found.n),
            f"{100 * found.difference:+.2f}",
            "" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}",
            f"{found.wins}, {found.losses}",
            *("" if p is None else f"{p:.3f}" for p in (row.t_p_holm, row.wilcoxon_p_holm)),
        )
    table.caption = "\n".join(
        ["runs with the same seed are paired; p: paired t-test and Wilcoxon's test, after Holm", *warnings]
    )
    return table
