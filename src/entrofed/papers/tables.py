"""The papers' tables as data: the numbers they report, and the settings to run them again.

A file of this folder is a paper::

    title, authors, venue, year
    [[figure]]           id, caption, table, series or together, cells or panels (title = cells), at, axis, columns, or
                         deal; see Figure
    [[table]]            id, caption, metrics (name = unit), judged_by, own, spread, seeds, gain_over, shuffled, notes
    [[table.claim]]      says, column, over, cells, metric, less, by: what the paper says of a column, see Claim
    [table.setting]      what all its cells have in common, as an experiment file takes it
    [table.columns]      label = what makes this method, as an experiment file takes it
    [table.readings.LABEL]  label = the same for each way to read that column of the paper, if it is not clear; all of
                         them are run in its place, and none of them is the column
    [table.variants]     the same for variants of the paper's own method that it does not report
    [table.controls]     the same for other methods that it does not report
    [[table.cell]]       id, seeds (if not any will do), also (a cell of another table whose columns stand here too);
                         without values it is a cell of ours
    [table.cell.setting] what makes this cell; laid over the table's
    [table.cell.columns] what a method needs in this cell only; laid over the table's
    [table.cell.values.METRIC]  label = { value, spread }

Numbers that cannot be read in the paper are left out, and a note says so.

>>> paper, table = find("inv_entropy/table8")
>>> cell = table.cell("iris")
>>> cell.values["accuracy"]["FedAvg"]
Reported(value=83.33, spread=None)
>>> cell.experiment(cell.columns["Entropy"], seed=3)["method"]["name"]
'inv_entropy'
"""

import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from entrofed.errors import unknown
from entrofed.papers.reported import Cell, Claim, Column, Figure, Paper, Reported, Table, merged


@cache
def papers() -> dict[str, Paper]:
    """All papers by name; read once."""
    return {path.stem: _paper(path) for path in sorted(Path(__file__).parent.glob("*.toml"))}


def find(path: str) -> tuple[Paper, Table]:
    """A table by a path such as ``fedentopt/table1``, or a ConfigError that names the nearest."""
    found = {
        f"{paper.name}/{table.id}": (paper, table) for paper in papers().values() for table in paper.tables.values()
    }
    if path not in found:
        raise unknown("table", path, found)
    return found[path]


def find_cell(path: str) -> Cell:
    """A cell by a path such as ``fedentopt/table1/cifar10-c2``."""
    table, _, cell = path.rpartition("/")
    return find(table)[1].cell(cell)


def _paper(path: Path) -> Paper:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = [_table(path.stem, table) for table in content.pop("table")]
    figures = tuple(_figure(figure) for figure in content.pop("figure", ()))
    authors = tuple(content.pop("authors"))
    by_id = {table.id: table for table in tables}
    return Paper(name=path.stem, authors=authors, tables=by_id, figures=figures, **content)


def _figure(content: dict[str, Any]) -> Figure:
    panels = content.pop("panels", None) or {cell: [cell] for cell in content.pop("cells", ())}
    together = {axis: tuple(series) for axis, series in content.pop("together", {}).items()}
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in content.items()}
    return Figure(panels={title: tuple(cells) for title, cells in panels.items()}, together=together, **fields)


def _table(paper: str, content: dict[str, Any]) -> Table:
    setting, columns, controls = content.pop("setting"), content.pop("columns"), content.pop("controls", {})
    readings, variants = content.pop("readings", {}), content.pop("variants", {})
    every = {
        label: made
        for column, one in columns.items()
        for label, made in (readings[column].items() if column in readings else [(column, one)])
    }
    every |= variants | controls
    cells = {cell["id"]: _cell(f"{paper}/{content['id']}", setting, every, cell) for cell in content.pop("cell")}
    own = [label for column in content.pop("own") for label in readings.get(column, (column,))]
    own += variants
    claims = [
        Claim(
            claim["says"],
            claim["column"],
            tuple(claim.get("over", (column for column in columns if column not in (claim["column"], *own)))),
            tuple(claim.get("cells") or [name for name, cell in cells.items() if cell.values] or cells),
            claim.get("metric"),
            claim.get("less", False),
            claim.get("by", 0.0),
        )
        for claim in content.pop("claim", ())
    ]
    return Table(
        columns=tuple(columns),
        readings={column: tuple(made) for column, made in readings.items()},
        variants=tuple(variants),
        controls=tuple(controls),
        shuffled=content.pop("shuffled", {}),
        cells=cells,
        claims=tuple(claims),
        notes=tuple(content.pop("notes")),
        own=tuple(own),
        **content,
    )


def _cell(table: str, common: Mapping[str, Any], shared: Mapping[str, Any], content: Mapping[str, Any]) -> Cell:
    own = content.get("columns", {})
    return Cell(
        id=content["id"],
        path=f"{table}/{content['id']}",
        setting=merged(common, content.get("setting", {})),
        columns={label: Column(label, merged(setting, own.get(label, {}))) for label, setting in shared.items()},
        values={
            metric: {label: Reported(**number) for label, number in numbers.items()}
            for metric, numbers in content.get("values", {}).items()
        },
        seeds=tuple(content["seeds"]) if "seeds" in content else None,
        also=content.get("also"),
    )
