"""The papers' tables as data: the numbers they report, and the settings to run them again.

A file of this folder is a paper::

    title, authors, venue, year
    [[table]]            id, caption, metrics (name = unit), judged_by, own, spread, seeds, gain_over, shuffled, notes
    [[table.claim]]      says, column, over, cells: what the paper says of a column, see Claim
    [table.setting]      what all its cells have in common, as an experiment file takes it
    [table.columns]      label = what makes this method, as an experiment file takes it
    [table.readings.LABEL]  label = the same for each way to read that column of the paper, if it is not clear; all of
                         them are run in its place, and none of them is the column
    [table.variants]     the same for variants of the paper's own method that it does not report
    [table.controls]     the same for other methods that it does not report
    [[table.cell]]       id, seeds (if not any will do); without values it is a cell of ours
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
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from entrofed.errors import unknown
from entrofed.suite.words import file_name

METRICS = {
    "accuracy": "test accuracy after the last round",
    "accuracy_id": "accuracy after the last round on the held-out samples of the clients chosen in it",
    "accuracy_id_last_10": "mean of the last ten rounds of the accuracy on the held-out samples of each one's clients",
    "accuracy_last_10": "mean test accuracy of the last ten rounds",
    "accuracy_mean": "mean test accuracy of all rounds",
    "loss_mean": "mean test loss of all rounds",
    "train_loss_mean": "mean training loss of all rounds, in each the mean over its clients",
    "weighted_f1_mean": "mean of all rounds of the F1 score weighted by class size",
    "macro_f1": "F1 score after the last round, mean over classes; without a server also over the nodes",
    "weighted_f1": "F1 score after the last round, weighted by class size",
    "weighted_precision": "precision after the last round, weighted by class size",
    "weighted_recall": "recall after the last round, weighted by class size",
    "convergence": "the first round with 95 % of the run's best macro F1",
}
"""What is reported: metrics on the test set, and how rounds are put together."""

UNITS = {"percent": 100.0, "fraction": 1.0, "nats": 1.0, "rounds": 1.0}
"""What our value is multiplied by to be in the paper's unit."""
SHARES = ("percent", "fraction")
"""The units of what lies between 0 and 1 (or 100 %)."""

SPREADS = {
    "rounds": "sample standard deviation over the rounds of a run",
    "seeds": "standard deviation over seeds, as the paper says",
    "unsaid": "the paper does not say over what",
}
"""What a spread is a spread of."""


@dataclass(frozen=True)
class Reported:
    """A number of a paper."""

    value: float
    spread: float | None = None


@dataclass(frozen=True)
class Column:
    """A method: what it sets in an experiment."""

    label: str
    setting: Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """One setting of a table, and what the paper reports for each metric and method."""

    id: str
    path: str
    """Paper, table and id, as in ``fedentopt/table1/cifar10-c2``."""
    setting: Mapping[str, Any]
    columns: Mapping[str, Column]
    """What is run: the paper's, or their readings, then the controls."""
    values: Mapping[str, Mapping[str, Reported]]
    """By metric and column of the paper."""
    seeds: tuple[int, ...] | None = None
    """Those of an exact replay; None where any will do."""

    def experiment(self, column: Column, *, rounds: int | None = None, seed: int = 0) -> dict[str, Any]:
        """The table that :func:`entrofed.experiment.config.parse` takes: the cell's setting under the column's.

        ``rounds``: instead of the cell's. Whatever else is counted in rounds (keys that end in "rounds", such as those
        of FedConcat, which plays more than others) changes in the same proportion.
        """
        table = deepcopy(_merge(self.setting, column.setting))
        if rounds is not None:
            table = _scale(table, rounds, self.setting["rounds"])
        return {**table, "name": file_name(f"{self.path}-{column.label}"), "seed": seed}


@dataclass(frozen=True)
class Claim:
    """What a paper says: that a column is ahead of others in some cells."""

    says: str
    column: str
    over: tuple[str, ...]
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table of a paper. Methods and cells are in the paper's order."""

    id: str
    caption: str
    metrics: Mapping[str, str]
    """The unit of each metric."""
    judged_by: str
    """The metric by which columns are compared; more is better."""
    own: tuple[str, ...]
    """Of what is run, what the paper proposes: variants or readings of one thing, no rivals of each other."""
    columns: tuple[str, ...]
    """The paper's."""
    readings: Mapping[str, tuple[str, ...]]
    """What is run in place of a column of the paper that can be read in several ways."""
    variants: tuple[str, ...]
    """Of ``own``, what the paper does not report."""
    controls: tuple[str, ...]
    """What is run beside the paper's columns, to see what they are worth."""
    shuffled: Mapping[str, str]
    """Controls that shuffle the weights of a column, and that column: they are compared with no other of ``own``."""
    claims: tuple[Claim, ...]
    cells: Mapping[str, Cell]
    notes: tuple[str, ...]
    """What is doubtful, missing, or chosen by us because the paper does not say."""
    spread: str | None = None
    seeds: int | None = None
    """How many runs the paper says it averages."""
    gain_over: str | None = None
    """The table whose values (same cell, same label) these are the difference from."""

    @property
    def runs(self) -> tuple[str, ...]:
        """What is run: the paper's columns, with readings in their place, then variants and controls."""
        read = [label for column in self.columns for label in self.readings.get(column, (column,))]
        return (*read, *self.variants, *self.controls)

    def told_as(self, label: str) -> str | None:
        """The paper's column that something is run for; None for a variant or control."""
        if label in (*self.variants, *self.controls):
            return None
        return next((column for column, readings in self.readings.items() if label in readings), label)

    def rivals(self, own: str) -> list[str]:
        """What one of ``own`` is compared with: all that is run but what the paper proposes, and others' shuffled."""
        return [label for label in self.runs if label not in self.own and self.shuffled.get(label, own) == own]

    def cell(self, id: str) -> Cell:  # noqa: A002 (what it is called in the file)
        """The cell, or a ConfigError that names the nearest."""
        if id not in self.cells:
            raise unknown(f"cell of {self.id}", id, self.cells)
        return self.cells[id]


@dataclass(frozen=True)
class Paper:
    """A paper and its tables; ``name`` is that of its file."""

    name: str
    title: str
    authors: tuple[str, ...]
    tables: Mapping[str, Table]
    venue: str | None = None
    year: int | None = None


def papers() -> dict[str, Paper]:
    """All papers by name."""
    return {path.stem: _paper(path) for path in sorted(Path(__file__).parent.glob("*.toml"))}


def find(path: str) -> tuple[Paper, Table]:
    """A table by a path such as ``fedentopt/table1``, or a ConfigError that names the nearest."""
    found = {
        f"{paper.name}/{table.id}": (paper, table) for paper in papers().values() for table in paper.tables.values()
    }
    if path not in found:
        raise unknown("table", path, found)
    return found[path]


def _paper(path: Path) -> Paper:
    content = tomllib.loads(path.read_text(encoding="utf-8"))
    tables = [_table(path.stem, table) for table in content.pop("table")]
    authors = tuple(content.pop("authors"))
    return Paper(name=path.stem, authors=authors, tables={table.id: table for table in tables}, **content)


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
            tuple(claim.get("cells", (name for name, cell in cells.items() if cell.values))),
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
        setting=_merge(common, content.get("setting", {})),
        columns={label: Column(label, _merge(setting, own.get(label, {}))) for label, setting in shared.items()},
        values={
            metric: {label: Reported(**number) for label, number in numbers.items()}
            for metric, numbers in content.get("values", {}).items()
        },
        seeds=tuple(content["seeds"]) if "seeds" in content else None,
    )


def _merge(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables; where both have a key, ``over`` counts, and tables are merged in turn."""
    merged = dict(under)
    for key, value in over.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if both else value
    return merged


def _scale(table: Mapping[str, Any], rounds: int, of: int) -> dict[str, Any]:
    scaled: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            scaled[key] = _scale(value, rounds, of)
        else:
            scaled[key] = max(round(value * rounds / of), 1) if key.endswith("rounds") else value
    return scaled
