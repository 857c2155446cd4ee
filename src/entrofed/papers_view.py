"""What the papers report: what ``entrofed papers`` prints."""

from collections.abc import Iterator

from rich.table import Table

from entrofed.papers import find, papers


def list_of_tables() -> Table:
    """Every table of every paper."""
    shown = Table("table", "cells", "columns", "what it shows")
    shown.columns[0].no_wrap = True
    for paper in papers().values():
        for table in paper.tables.values():
            shown.add_row(f"{paper.name}/{table.id}", str(len(table.cells)), ", ".join(table.columns), table.caption)
    return shown


def reported_tables(path: str) -> Iterator[Table]:
    """One table's numbers, a table a metric, with the doubts about them."""
    paper, table = find(path)
    for metric, unit in table.metrics.items():
        shown = Table("cell", f"{metric}, {unit}", title=f"{paper.title}: {table.caption}", show_lines=True)
        shown.columns[0].no_wrap = True
        for cell in table.cells.values():
            values = cell.values.get(metric, {})
            words = [
                f"{label} {_number(values[label].value, values[label].spread, unit)}"
                for label in table.columns
                if label in values
            ]
            shown.add_row(cell.id, ", ".join(words))
        shown.caption = "\n".join(table.notes)
        yield shown


def _number(value: float, spread: float | None, unit: str) -> str:
    digits = 2 if unit == "percent" else 3
    return f"{value:.{digits}f}" + ("" if spread is None else f" ± {spread:.{digits}f}")
