"""A dataset from a table: one pass to learn what it holds, a second to turn its rows into features.

In memory are the features (float32), a few bytes per row, and one batch of rows.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset
from entrofed.data.files.rows import Rows
from entrofed.data.tabular.choice import Choice
from entrofed.data.tabular.encode import describe, encode, feature_names
from entrofed.data.tabular.scan import Scan
from entrofed.data.tabular.split import TEST, TRAIN, check_parts, split_rows, split_test
from entrofed.errors import DataError

SIZE_LIMIT = 1 << 34
"""Bytes of all features."""
Features = NDArray[np.float32]


def table_dataset(rows: Rows, choice: Choice, *, name: str, test: Rows | None = None) -> Dataset:
    """A table of numbers and categories. ``test``: a table for testing with the same columns."""
    features, roles = choice.columns(rows)
    split = split_rows(rows, choice, [*features, *roles], test_part=test is not None)
    check_features(split.found, features)
    impute = choice.missing == "impute"
    columns = [describe(split.found.columns[name], split.part == TRAIN, impute=impute) for name in features]
    train_x, test_x = _encoded(rows, columns, split.part)
    test_y = split.labels(TEST)
    if test is not None:
        alone = replace(choice, client=None, test=None, features=features, drop=())
        tested = split_test(test, alone, [*features, *alone.columns(test)[1]], split.classes)
        _, test_x = _encoded(test, columns, tested.part)
        test_y = tested.labels(TEST)
    check_parts(rows.where, split.labels(TRAIN), test_y, split.classes)
    if impute:
        _impute(rows.where, columns, train_x, test_x)
    roles_of_rows, role_names = split.owners()
    return Dataset(
        name=name,
        kind="table",
        train_x=train_x,
        train_y=split.labels(TRAIN),
        test_x=test_x,
        test_y=test_y,
        classes=split.classes,
        roles=roles_of_rows,
        role_names=role_names,
        full_scale=1.0,
        preprocessing={"columns": columns, "label": choice.label},
    )


def check_features(found: Scan, features: Sequence[str]) -> None:
    """Every column must be numbers or categories."""
    problems = {name: problem for name in features if (problem := found.columns[name].problem)}
    if problems:
        lines = [f"{found.where}: column {name!r} {problem}" for name, problem in problems.items()]
        names = ", ".join(f'"{name}"' for name in problems)
        raise DataError("\n".join([*lines, f"Leave {'it' if len(lines) == 1 else 'them'} out with drop = [{names}]"]))


def _encoded(rows: Rows, columns: Sequence[dict[str, Any]], part: NDArray[np.int8]) -> tuple[Features, Features]:
    """The features of the training and of the test part."""
    names = feature_names(columns)
    if (size := 4 * len(names) * len(part)) > SIZE_LIMIT:
        widest = max(columns, key=lambda column: len(column.get("categories", ())))["name"]
        raise DataError(
            f"{rows.where}: {len(part):,} rows of {len(names):,} features take {size / 2**30:,.0f} GB, and "
            f"{SIZE_LIMIT >> 30} GB is the limit; leave out columns with many categories, {widest!r} first"
        )
    parts = [np.empty((int((part == k).sum()), len(names)), np.float32) for k in (TRAIN, TEST)]
    filled, start = [0, 0], 0
    for batch in rows.batches([column["name"] for column in columns]):
        x = encode(columns, batch, rows.where)
        if np.isinf(x).any():
            found = names[int(np.isinf(x).any(0).argmax())]
            raise DataError(f"{rows.where}: column {found!r} holds numbers that are not finite in single precision")
        which = part[start : start + len(x)]
        start += len(x)
        if start > len(part):
            break
        for k in (TRAIN, TEST):
            chosen = x[which == k]
            parts[k][filled[k] : filled[k] + len(chosen)] = chosen
            filled[k] += len(chosen)
    if start != len(part):
        raise DataError(f"{rows.where}: has changed while it was read; try again")
    return parts[TRAIN], parts[TEST]


def _impute(where: str, columns: Sequence[dict[str, Any]], *parts: Features) -> None:
    """Put the median of the training part (the first) where a number is missing; categories are filled already."""
    at = 0
    for column in columns:
        if column["kind"] == "number":
            known = parts[0][:, at][~np.isnan(parts[0][:, at])]
            column["fill"] = float(np.median(known)) if len(known) else None
        if column["fill"] is None:
            raise DataError(
                f"{where}: column {column['name']!r} has no value in the training part; leave it out with drop"
            )
        if column["kind"] == "number":
            for x in parts:
                x[np.isnan(x[:, at]), at] = column["fill"]
        at += len(feature_names([column]))
