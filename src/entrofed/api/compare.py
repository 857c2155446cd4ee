"""Results side by side."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from entrofed.api.result import Result
from entrofed.cli.tables.comparison import comparison_table, paired_table
from entrofed.errors import ConfigError, unknown
from entrofed.suite.compare import comparison, paired_rows
from entrofed.suite.statistics import Row


@dataclass(frozen=True)
class Comparison:
    """Experiments side by side: mean and spread over seeds; with ``against``, each against one of them.

    ``rows`` holds a table per experiment, ``paired`` the paired tests (Student's and Wilcoxon's, after Holm).
    """

    rows: list[dict[str, Any]]
    paired: list[Row]

    def _tables(self) -> list[Table]:
        return [comparison_table(self.rows), *([paired_table(self.paired)] if self.paired else [])]

    def table(self) -> Any:
        """The rows as a pyarrow table."""
        import pyarrow as pa

        return pa.Table.from_pylist(self.rows)

    def __str__(self) -> str:
        console = Console(width=100, color_system=None)
        with console.capture() as captured:
            for table in self._tables():
                console.print(table)
        return captured.get()

    def _repr_html_(self) -> str:
        console = Console(width=110, record=True, file=io.StringIO())
        for table in self._tables():
            console.print(table)
        return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def compare(*results: Result | str | Path, against: str | None = None) -> Comparison:
    """Compare experiments over their seeds; runs with the same seed are paired.

    Args:
        results: What :func:`~entrofed.api.run.run` or :func:`~entrofed.api.result.open_run` returned, or paths.
        against: The experiment, by its name or its method's, that all others are tested against.
    """
    if not results:
        raise ConfigError("compare() needs at least one result")
    folders = [Path(item) if isinstance(item, str | Path) else item.folders[0].home for item in results]
    places = [folder.name for folder in folders]
    rows = sorted(
        comparison(folders), key=lambda row: places.index(row["experiment"]) if row["experiment"] in places else -1
    )
    if against is None:
        return Comparison(rows, [])
    names = {row["experiment"]: row["experiment"] for row in rows}
    methods = {
        item.folders[0].experiment().method.name: item.folders[0].home.name
        for item in results
        if isinstance(item, Result)
    }
    known = methods | names
    if against not in known:
        raise unknown("experiment", against, known)
    return Comparison(rows, paired_rows(folders, known[against]))
