"""What the papers report, as types: numbers, columns, cells, claims, tables and figures."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field
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
    "convergence": "the first evaluated round with 95 % of the run's best macro F1",
    "cohort_entropy_mean": "entropy of the cohort's pooled labels, mean of all rounds",
}
"""What is reported: metrics on the test set, and how rounds are put together."""

UNITS = {"percent": 100.0, "fraction": 1.0, "nats": 1.0, "bits": 1.0, "rounds": 1.0}
"""What our value is multiplied by to be in the paper's unit."""
SHARES = ("percent", "fraction")
"""The units of what lies between 0 and 1 (or 100 %)."""

WITHOUT = "without it"
"""In a table of gains, what they are gains over."""

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
    also: str | None = None
    """The path of a cell of another table: its columns of the same names are run there, and stand here too."""

    def experiment(self, column: Column, *, rounds: int | None = None, seed: int = 0) -> dict[str, Any]:
        """The table that :func:`entrofed.experiment.config.parse` takes: the cell's setting under the column's.

        ``rounds``: instead of the cell's. Whatever else is counted in rounds (keys that end in "rounds", such as those
        of FedConcat, which plays more than others) changes in the same proportion.
        """
        table = deepcopy(merged(self.setting, column.setting))
        if rounds is not None:
            table = _scale(table, rounds, self.setting["rounds"])
        return {**table, "name": file_name(f"{self.path}-{column.label}"), "seed": seed}


@dataclass(frozen=True)
class Claim:
    """What a paper says: that a column is ahead of others in some cells, by some metric."""

    says: str
    column: str
    over: tuple[str, ...]
    cells: tuple[str, ...]
    metric: str | None = None
    """By which; None: by what the table is judged by."""
    less: bool = False
    """Whether it is ahead with less of it."""
    by: float = 0.0
    """By how much at least, in the table's unit."""


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
class Figure:
    """A figure of a paper, as it is drawn from stored results of one of its tables, or of a partition."""

    id: str
    caption: str
    table: str = ""
    series: tuple[str, ...] = ()
    """What is drawn: one of :data:`entrofed.papers.results.SERIES` or ``COURSE`` by round, ``confusion``, or metrics of
    the table."""
    panels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By title the cells of a panel: one, drawn by round (a metric as bars), or several, drawn against ``at``."""
    at: tuple[float, ...] = ()
    axis: str = "round"
    """What ``at`` is."""
    columns: tuple[str, ...] = ()
    """Those that are drawn; all, if none are named."""
    together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Instead of ``series``, of a single column: by what is measured, the series that are lines of one panel."""
    deal: Mapping[str, Any] | None = None
    """Instead of results: ``partition``, ``seed`` (of numpy's legacy generator), ``classes`` (samples of each),
    ``clients``, and the partition's options."""


@dataclass(frozen=True)
class Paper:
    """A paper and its tables; ``name`` is that of its file."""

    name: str
    title: str
    authors: tuple[str, ...]
    tables: Mapping[str, Table]
    figures: tuple[Figure, ...] = ()
    venue: str | None = None
    year: int | None = None


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Both tables; where both have a key, ``over`` counts, and tables are merged in turn."""
    both = dict(under)
    for key, value in over.items():
        nested = isinstance(value, Mapping) and isinstance(both.get(key), Mapping)
        both[key] = merged(both[key], value) if nested else value
    return both


def _scale(table: Mapping[str, Any], rounds: int, of: int) -> dict[str, Any]:
    scaled: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            scaled[key] = _scale(value, rounds, of)
        else:
            scaled[key] = max(round(value * rounds / of), 1) if key.endswith("rounds") else value
    return scaled
