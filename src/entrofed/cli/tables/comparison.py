"""Experiments side by side: what ``entrofed compare`` prints."""

from typing import Any

from rich.markup import escape
from rich.table import Column, Table

from entrofed.cli.tables.cells import NARROW
from entrofed.suite.compare import METRICS, TO_TARGET, cell_of, columns_of
from entrofed.suite.statistics import Row
from entrofed.suite.words import p_value


def comparison_table(rows: list[dict[str, Any]]) -> Table:
    """The comparison for a terminal, the best first."""
    compared = {key: title for key, title in columns_of(rows).items() if key in METRICS and key != "macro_f1"}
    shown = {"seeds": "seeds", "rounds": "rounds", **compared}
    return _table(rows, shown, "mean ± sample standard deviation over seeds; 'last 10': mean of the last ten rounds")


def more_tables(rows: list[dict[str, Any]]) -> list[Table]:
    """The metrics that experiments ask for, and what it takes to reach a target, if there are any."""
    more = {key: title for key, title in columns_of(rows).items() if key not in METRICS}
    costs = {key: title for key, title in more.items() if key.endswith(TO_TARGET)}
    asked = {key: title for key, title in more.items() if key not in costs}
    captions = (
        (asked, "on the test set; client accuracy: on what all participating clients hold out"),
        (costs, "until the test accuracy is first reached, over the seeds that reach it; MB: sent both ways"),
    )
    return [_table(rows, shown, caption) for shown, caption in captions if shown]


def _table(rows: list[dict[str, Any]], shown: dict[str, str], caption: str) -> Table:
    numbers = (Column(escape(title), no_wrap=True) for title in shown.values())
    table = Table(Column("experiment", overflow="fold"), *numbers, caption=caption)
    for row in sorted(rows, key=lambda row: -float(row["accuracy_last_10_mean"])):
        table.add_row(row["experiment"], *(str(row[key]) if key in row else cell_of(row, key, 1) for key in shown))
    return table


def paired_table(rows: list[Row]) -> Table:
    """The paired comparison for a terminal, in points."""
    titles = ("seeds", "gain", "95 % interval", "won, lost", "p (t)", "p (rank)")
    table = Table(Column("experiment", overflow="fold"), *(Column(title, no_wrap=True) for title in titles), **NARROW)
    table.title = f"against {rows[0].against}: mean of the last ten rounds, in points" if rows else "nothing to compare"
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
            *map(p_value, (row.t_p_holm, row.wilcoxon_p_holm)),
        )
    table.caption = "\n".join(
        ["runs with the same seed are paired; p: paired t-test and Wilcoxon's test, after Holm", *warnings]
    )
    return table
