"""Experiments side by side: mean and spread over seeds, and paired tests."""

import csv
import io
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entrofed.errors import ConfigError, unknown
from entrofed.experiment.run_folder import RunFolder, find_runs, readable
from entrofed.experiment.summary import asked_metrics
from entrofed.suite.statistics import Row, compare
from entrofed.suite.target import NOT_REACHED, to_target
from entrofed.suite.words import p_value

METRICS = {
    "accuracy": ("accuracy %", 100),
    "accuracy_last_10": ("last 10 %", 100),
    "accuracy_best": ("best %", 100),
    "macro_f1": ("macro F1 %", 100),
}
"""Metrics of a summary that are compared, with their titles, and what they are multiplied by to be in per cent."""
COSTS = {"rounds": "rounds", "megabytes": "MB", "seconds": "s", "virtual_seconds": "virtual s"}
"""What it takes to reach a target, with their titles."""
TO_TARGET = "_to_target"


def summaries_of(paths: list[Path]) -> dict[Path, dict[int, dict[str, Any]]]:
    """The summaries of finished runs, by experiment and seed."""
    return {
        folder: {seed: run.summary() or {} for seed, run in of_seeds.items()}
        for folder, of_seeds in _finished(paths).items()
    }


def _finished(paths: list[Path]) -> dict[Path, dict[int, RunFolder]]:
    groups: dict[Path, dict[int, RunFolder]] = {}
    unfinished: list[str] = []
    once = dict.fromkeys(find_runs(paths))  # a run that lies below two of the paths counts once
    for run, (_, summary, seed) in readable(once, lambda run: (run.outcome(), run.summary(), run.experiment().seed)):
        if summary is None:
            unfinished.append(run.label)
        else:
            groups.setdefault(run.home, {})[seed] = run
    if unfinished:
        raise ConfigError(
            f"not finished yet: {', '.join(unfinished)}; continue with 'entrofed resume', or name the others alone"
        )
    if not groups:
        raise ConfigError(f"there are no runs in {', '.join(str(path) for path in paths)}")
    return groups


def comparison(paths: list[Path], target: float | None = None) -> list[dict[str, Any]]:
    """A row for each experiment: mean and sample standard deviation of its metrics over its seeds.

    ``target``: also what it takes to reach this accuracy, over the seeds that reach it.
    """
    rows: list[dict[str, Any]] = []
    groups = {folder: list(of_seeds.values()) for folder, of_seeds in sorted(_finished(paths).items())}
    asked = list(dict.fromkeys(key for runs in groups.values() for run in runs for key in asked_metrics(_summary(run))))
    every = [_summary(run) for runs in groups.values() for run in runs]
    for folder, runs in groups.items():
        summaries = [_summary(run) for run in runs]
        row: dict[str, Any] = {"experiment": folder.name, "seeds": len(runs), "rounds": summaries[0]["rounds"]}
        for key in METRICS:
            row |= _spread(key, [summary[key] for summary in summaries])
        for key in asked:
            row |= _spread(key, [asked_metrics(summary).get(key) for summary in summaries])
        if target is not None:
            found = [to_target(run.records(), target) for run in runs]
            row |= {"target": target, "reached": sum(one is not None for one in found)}
            clocked = any("virtual_seconds" in summary for summary in every)
            for key in COSTS if clocked else list(COSTS)[:-1]:
                row |= _spread(f"{key}{TO_TARGET}", [None if one is None else getattr(one, key) for one in found])
        rows.append(row)
    return rows


def _summary(run: RunFolder) -> dict[str, Any]:
    return run.summary() or {}


def _spread(key: str, values: Sequence[float | None]) -> dict[str, float | None]:
    """Mean and standard deviation of the values that are there."""
    known = [value for value in values if value is not None]
    return {
        f"{key}_mean": statistics.mean(known) if known else None,
        f"{key}_std": statistics.stdev(known) if len(known) > 1 else None,
    }


def columns_of(rows: list[dict[str, Any]]) -> dict[str, str]:
    """What the rows compare, by key, with titles."""
    titles = {key: title for key, (title, _) in METRICS.items()}
    for row in rows:
        asked = [key.removesuffix("_mean") for key in row if key.startswith(("test_", "id_")) and key.endswith("_mean")]
        titles |= {key: key.partition("_")[2].replace("_", " ") for key in asked}
        if "target" in row:
            costs = {key: title for key, title in COSTS.items() if f"{key}{TO_TARGET}_mean" in row}
            titles |= {f"{key}{TO_TARGET}": f"{title} to {row['target']:g}" for key, title in costs.items()}
    return titles


def cell_of(row: dict[str, Any], key: str, digits: int) -> str:
    """A mean with its spread; ``digits`` are those of per cents."""
    mean, std = row[f"{key}_mean"], row[f"{key}_std"]
    if key in METRICS:
        return "" if mean is None else spread_words(mean, std, METRICS[key][1], digits)
    if not key.endswith(TO_TARGET):
        return "" if mean is None else spread_words(mean, std, 1, 4)
    some = "" if row["reached"] == row["seeds"] else f" ({row['reached']} of {row['seeds']} seeds)"
    return NOT_REACHED if mean is None else spread_words(mean, std, 1, 1) + some


def spread_words(mean: float, spread: float | None, scale: float, digits: int) -> str:
    """A mean with its spread, if there is one, both multiplied by ``scale``.

    >>> spread_words(0.5, 0.012, 100, 1)
    '50.0 ± 1.2'
    """
    return f"{mean * scale:.{digits}f}" + ("" if spread is None else f" ± {spread * scale:.{digits}f}")


def csv_text(rows: list[dict[str, Any]], tests: Sequence[Row] | None = None) -> str:
    """The comparison as comma-separated values, at full precision; with tests, also what each gains."""
    gained = {row.method: _gain(row) for row in tests or ()}
    named = dict.fromkeys(key for gain in gained.values() for key in gain)
    out = io.StringIO()
    writer = csv.DictWriter(out, [*rows[0], *named], lineterminator="\n")
    writer.writeheader()
    writer.writerows({**row, **gained.get(row["experiment"], {})} for row in rows)
    return out.getvalue()


def _gain(row: Row) -> dict[str, Any]:
    """A paired test as cells, in shares of 1."""
    found = row.paired
    values = (
        (None, None, None, None, None, 0)
        if found is None
        else (found.difference, found.interval.low, found.interval.high, found.wins, found.losses, found.n)
    )
    named = dict(zip(("gain", "gain_low", "gain_high", "won", "lost", "pairs"), values, strict=True))
    return {"against": row.against, **named, "p_t_holm": row.t_p_holm, "p_wilcoxon_holm": row.wilcoxon_p_holm}


def markdown_text(rows: list[dict[str, Any]]) -> str:
    """The comparison as a Markdown table."""
    titles = columns_of(rows)
    head = ["experiment", "seeds", "rounds", *titles.values()]
    cells = [
        [row["experiment"], str(row["seeds"]), str(row["rounds"]), *(cell_of(row, key, 2) for key in titles)]
        for row in rows
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in [head, ["---"] * len(head), *cells])


def paired_markdown(tests: Sequence[Row]) -> str:
    """The paired tests as a Markdown table, in points."""
    head = ["experiment", f"gain over {tests[0].against}" if tests else "gain", "95 % interval", "won, lost", "p"]
    lines = [head, ["---"] * len(head)]
    for row in tests:
        found = row.paired
        if found is None:
            lines.append([row.method, "no seed in common", "", "", ""])
            continue
        low, high = found.interval.low, found.interval.high
        within = "" if low is None or high is None else f"{100 * low:+.2f} to {100 * high:+.2f}"
        lines.append(
            [
                row.method,
                f"{100 * found.difference:+.2f}",
                within,
                f"{found.wins}, {found.losses}",
                p_value(row.t_p_holm),
            ]
        )
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    warnings = "".join(f"- {row.method}: {row.warning}\n" for row in tests if row.warning)
    note = "Mean of the last ten rounds, in points; runs with the same seed are paired; p: paired t-test, after Holm.\n"
    return f"{table}\n{note}" + (f"\n{warnings}" if warnings else "")


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
