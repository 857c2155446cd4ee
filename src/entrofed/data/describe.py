"""What was understood of the user's own file: columns, classes, clients, missing values, label skew.

A table is read once, in batches, and never held in memory.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.data.files.array_columns import holds_arrays
from entrofed.data.files.rows import Rows
from entrofed.data.files.tables import is_table, open_rows
from entrofed.data.tabular.choice import TEST_SHARE, Choice, names_a_file
from entrofed.data.tabular.labels import class_names, class_numbers
from entrofed.data.tabular.scan import FEW, Column, Scan, scan
from entrofed.info.entropy import entropy_of_counts

LABELS = ("label", "labels", "target", "class", "diagnosis", "outcome", "y")
CLIENTS = ("client", "hospital", "site", "center", "centre", "clinic", "institution", "user", "device", "branch")


@dataclass(frozen=True)
class ColumnFacts:
    """One column in words."""

    name: str
    kind: str
    role: str
    """``label``, ``client``, ``test``, or empty: a feature."""
    missing: int
    low: float | None
    high: float | None
    values: tuple[str, ...] | None
    """The different values; None where there are very many."""
    problem: str | None
    """Why it can be no feature."""


@dataclass(frozen=True)
class Description:
    """What was understood."""

    path: str
    kind: str
    rows: int
    columns: tuple[ColumnFacts, ...] = ()
    classes: dict[str, int] = field(default_factory=dict)
    """How many rows each class has."""
    clients: tuple[str, ...] = ()
    counts: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 0), np.int64))
    """Rows by client and class."""
    section: dict[str, Any] = field(default_factory=dict)
    """The ``[data]`` section of an experiment file; without a label, empty."""
    suggested: tuple[str | None, str | None] = (None, None)
    """Columns that may be the label and the client, where no label is given."""

    @property
    def skew(self) -> dict[str, Any] | None:
        """Label entropy in bits, and effective classes 2^H, of the clients and of all their rows together."""
        if not len(self.clients):
            return None
        entropy = entropy_of_counts(self.counts, base="bits")
        return {
            "entropy_bits": {"min": float(entropy.min()), "mean": float(entropy.mean()), "max": float(entropy.max())},
            "entropy_bits_pooled": float(entropy_of_counts(self.counts.sum(axis=0), base="bits")),
            "effective_classes": {
                "min": float(2 ** entropy.min()),
                "mean": float((2**entropy).mean()),
                "max": float(2 ** entropy.max()),
            },
        }

    def to_json(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        clients = {name: row.tolist() for name, row in zip(self.clients, self.counts, strict=True)}
        plain = asdict(self) | {"clients": clients, "skew": self.skew}
        del plain["counts"]
        return plain


def describe_path(path: Path, choice: Choice) -> Description:
    """Read a file or folder as an experiment would, as far as there is a label."""
    if not is_table(path):
        return _of_arrays(path, choice)
    rows, _ = open_rows(path)
    alone = replace(choice, test=None) if names_a_file(choice.test) else choice
    features, roles = (list(rows.types), []) if choice.label is None else alone.columns(rows)
    if len(features) == 1 and holds_arrays(rows.types[features[0]]):
        return _of_arrays(path, choice)
    choice.only_of_tables(rows.where)
    return _of_table(path, choice, rows, features, roles)


def _of_table(path: Path, choice: Choice, rows: Rows, features: Sequence[str], roles: Sequence[str]) -> Description:
    found = scan(rows, [*features, *roles], unlimited=choice.client)
    by_role = {choice.label: "label", choice.client: "client", choice.test: "test"}
    facts = tuple(_facts(found.columns[name], by_role.get(name, "")) for name in rows.types if name in found.columns)
    if choice.label is None:
        return Description(str(path), "table", found.rows, facts, suggested=_suggested(found))
    label = found.columns[choice.label]
    known = (rows.class_names or {}).get(choice.label)
    classes = class_names(rows.where, label, known)
    y = class_numbers(rows.where, label, classes, numbered=known is not None)
    client = found.columns.get(choice.client or "")
    names, owners = ((), np.zeros(found.rows, np.int64)) if client is None else client.sorted()
    section = _section(path, choice, features, found)
    return Description(str(path), "table", found.rows, facts, *_counted(y, classes, names, owners), section)


def _of_arrays(path: Path, choice: Choice) -> Description:
    """Arrays and pictures; the rows of clients are those of the training part."""
    from entrofed.data.files.load import load_path  # needs torch, which takes longer than to read a table

    data = load_path(path, choice)
    kinds = f"{data.kind} {'x'.join(str(side) for side in data.train_x.shape[1:])}"
    y = np.concatenate([data.train_y, data.test_y])
    nobody = np.full(len(data.test_y), -1)
    owners = np.zeros(len(y), np.int64) if data.roles is None else np.concatenate([data.roles, nobody])
    return Description(
        str(path), kinds, len(y), (), *_counted(y, data.classes, data.role_names, owners), _section(path, choice)
    )


def _counted(
    y: NDArray[np.int64], classes: Sequence[str], clients: Sequence[str], owners: NDArray[np.int64]
) -> tuple[dict[str, int], tuple[str, ...], NDArray[np.int64]]:
    """Rows of each class, the clients, and rows by client and class."""
    totals = np.bincount(y[y >= 0], minlength=len(classes))
    there = (y >= 0) & (owners >= 0) & (owners < len(clients))
    cells = owners[there] * len(classes) + y[there]
    counts = np.bincount(cells, minlength=len(clients) * len(classes)).reshape(-1, len(classes))
    return dict(zip(classes, totals.tolist(), strict=True)), tuple(clients), counts


def _facts(column: Column, role: str) -> ColumnFacts:
    is_number = column.kind == "number" and np.isfinite([column.low, column.high]).all()
    return ColumnFacts(
        name=column.name,
        kind=column.kind,
        role=role,
        missing=column.missing,
        low=column.low if is_number else None,
        high=column.high if is_number else None,
        values=None if column.many else column.values,
        problem=None if role else column.problem,
    )


def _suggested(found: Scan) -> tuple[str | None, str | None]:
    """Columns that may be the label and the client: by their names, else the last with few values is the label."""
    usable = {name: column for name, column in found.columns.items() if not (column.problem or column.missing)}
    client = next((name for name in usable if any(word in name.lower() for word in CLIENTS)), None)
    few = [name for name, column in usable.items() if 2 <= len(column.values) <= FEW and name != client]
    return next((name for name in few if name.lower() in LABELS), few[-1] if few else None), client


def _section(path: Path, choice: Choice, features: Sequence[str] = (), found: Scan | None = None) -> dict[str, Any]:
    """The keys of ``[data]``, with columns left out and missing values imputed where that is needed."""
    columns = [] if found is None else [found.columns[name] for name in features]
    bad = [column.name for column in columns if column.problem]
    gaps = any(column.missing and not column.problem for column in columns)
    missing = "impute" if gaps and choice.missing == "refuse" else choice.missing
    given = {
        "path": str(path),
        "label": choice.label,
        "client": choice.client,
        "test": TEST_SHARE if choice.test is None and found is not None else choice.test,
        "features": None if choice.features is None else [name for name in choice.features if name not in bad],
        "drop": [*choice.drop, *(bad if choice.features is None else ())] or None,
        "missing": None if missing == "refuse" else missing,
        "kind": choice.kind,
        "size": choice.size,
    }
    return {key: value for key, value in given.items() if value is not None}
