"""Experiments side by side: what ``entrofed compare`` prints."""

from typing import Any

from rich.table import Table

from entrofed.suite.compare import METRICS, spread_words
from entrofed.suite.statistics import Row


def comparison_table(rows: list[dict[str, Any]]) -> Table:
    """The comparison for a terminal, the best first."""
    shown = {key: title for key, (title, _) in METRICS.items() if key != "macro_f1"}
    table = Table("experiment", "seeds", "rounds", *shown.values())
    table.caption = "mean ± sample standard deviation over seeds; 'last 10': mean of the last ten rounds"
    table.columns[0].no_wrap = True
    for row in sorted(rows, key=lambda row: -float(row["accuracy_last_10_mean"])):
        table.add_row(
            row["experiment"],
            str(row["seeds"]),
            str(row["rounds"]),
            *(spread_words(row[f"{key}_mean"], row[f"{key}_std"], 100, 1) for key in shown),
        )
    return table


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
