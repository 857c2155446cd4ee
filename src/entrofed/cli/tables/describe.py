"""What ``entrofed data describe`` prints."""

import shlex

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from entrofed.cli.console import this_command
from entrofed.data.describe import ColumnFacts, Description
from entrofed.data.tabular.scan import FEW
from entrofed.experiment.toml import dumps
from entrofed.info.entropy import entropy_of_counts

MOST = 40
"""Columns, classes or clients that are listed; there may be more."""
SHOWN, LENGTH = 4, 24
"""Values of a column that are listed, and the letters of each."""


def print_description(found: Description, console: Console) -> None:
    """Columns, classes, clients, their skew, and the section of an experiment file."""
    console.print(f"{found.path}: {found.kind}, {found.rows:,} rows", highlight=False, markup=False)
    if found.columns:
        console.print(_columns(found))
    if found.classes:
        console.print(_classes(found))
    if found.clients:
        console.print(_clients(found))
        console.print(_skew(found))
    if found.section:
        console.print("\nFor an experiment file:\n", style="bold")
        console.print(dumps({"data": found.section}).strip(), highlight=False, markup=False, soft_wrap=True)
    else:
        label, client = found.suggested
        words = [this_command(), "data", "describe", str(found.path), "--label", label or "COLUMN"]
        words += ["--client", client] if client else []
        console.print(f"\nNext: [bold]{escape(shlex.join(words))}[/bold]", soft_wrap=True)
    if not found.clients and found.section:
        console.print(
            "\nNo clients of its own: choose how the rows are dealt out, for example "
            '[bold]partition = "dirichlet_balanced"[/bold], [bold]clients = 10[/bold], [bold]alpha = 0.3[/bold]'
        )


def _columns(found: Description) -> Table:
    table = Table("column", "kind", "values", "missing", "note")
    table.columns[3].justify = "right"
    for column in found.columns[:MOST]:
        table.add_row(
            escape(column.name),
            column.kind,
            escape(_values(column)),
            f"{column.missing:,}" if column.missing else "",
            f"[yellow]{escape(column.problem)}[/yellow]" if column.problem else f"[bold]{column.role}[/bold]",
        )
    table.caption = _more(len(found.columns), "columns")
    return table


def _values(column: ColumnFacts) -> str:
    count = 0 if column.values is None else len(column.values)
    if column.low is not None:
        return f"{column.low:g} to {column.high:g}" + (f", {count} values" if 0 < count <= FEW else "")
    if not column.values or column.kind == "date":
        return ""
    shown = ", ".join(value[:LENGTH] for value in column.values[:SHOWN])
    return f"{count:,}: {shown}" + (", ..." if count > SHOWN else "")


def _classes(found: Description) -> Table:
    table = Table("class", "rows", "share")
    total = sum(found.classes.values())
    for name, rows in list(found.classes.items())[:MOST]:
        table.add_row(escape(name), f"{rows:,}", f"{rows / total:.1%}")
    for column in table.columns[1:]:
        column.justify = "right"
    table.caption = _more(len(found.classes), "classes")
    return table


def _clients(found: Description) -> Table:
    table = Table("client", "rows", "classes", "entropy (bits)", "effective classes")
    sizes, entropy = found.counts.sum(axis=1), entropy_of_counts(found.counts, base="bits")
    for k in np.argsort(-sizes, kind="stable")[:MOST]:
        held = int((found.counts[k] > 0).sum())
        table.add_row(
            escape(found.clients[k]), f"{sizes[k]:,}", str(held), f"{entropy[k]:.3f}", f"{2 ** entropy[k]:.2f}"
        )
    for column in table.columns[1:]:
        column.justify = "right"
    table.caption = _more(len(found.clients), "clients, the largest first")
    return table


def _skew(found: Description) -> str:
    skew = found.skew or {}
    sizes, bits, effective = found.counts.sum(axis=1), skew["entropy_bits"], skew["effective_classes"]
    return (
        f"{len(found.clients):,} clients of {sizes.min():,} to {sizes.max():,} rows, median {np.median(sizes):,.0f}. "
        f"Label entropy of a client: {bits['min']:.3f} to {bits['max']:.3f} bits, mean {bits['mean']:.3f}; of all rows "
        f"together: {skew['entropy_bits_pooled']:.3f}. Effective classes (2 to the entropy) of a client: "
        f"{effective['mean']:.2f} of {len(found.classes):,} on average."
    )


def _more(count: int, what: str) -> str | None:
    return f"{MOST} of {count:,} {what}" if count > MOST else None
