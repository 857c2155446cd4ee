"""Samples and labels out of Python objects: arrays, torch datasets, Hugging Face datasets.

Objects are known by what they can do, so that neither ``datasets`` nor anything else need be installed. Whatever an
object holds, the only error is a DataError that says where and what.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import DataError

SCOPE = "EntroFed does classification (two or more classes)"

LARGEST = 2**53
"""The greatest number that can be a label: the first that has no neighbour among numbers with a decimal point."""
PIECE = 1 << 22
"""Values that are looked at at a time: samples may be mapped from a file that is larger than memory."""
LABEL_COLUMNS = ("label", "labels", "target", "y", "fine_label")
"""Where a Hugging Face dataset keeps its labels, unless exactly one column holds class labels by its type."""
INPUT_COLUMNS = ("image", "img", "input_ids", "pixel_values", "x", "features")
"""Where it keeps its samples, unless one other column is left; else all others are the columns of a table."""


@dataclass(frozen=True)
class Labelled:
    """Samples as an array ``[n, ...]`` of finite numbers, and a label each: whole numbers, truth values or text."""

    x: NDArray[Any]
    y: NDArray[Any]
    classes: tuple[str, ...] | None = None
    """The names of the classes, where the object knows them."""
    kind: str | None = None
    """The kind of samples, where the object knows it."""

    def __len__(self) -> int:
        return len(self.y)

    def take(self, rows: NDArray[np.int64]) -> "Labelled":
        """Some of the samples."""
        return Labelled(self.x[rows], self.y[rows], self.classes, self.kind)


def labelled(x: Any, y: Any, where: str) -> Labelled:
    """Samples and labels of arrays, or (``y`` None) of a pair of them or of a dataset object.

    >>> labelled([[1, 2], [3, 4]], ["no", "yes"], "the data").x.shape
    (2, 2)
    """
    if y is not None:
        return _checked(Labelled(array_of(x, f"{where}, x"), label_values(y, f"{where}, y")), where)
    if isinstance(x, Labelled):
        return x
    if isinstance(x, tuple | list) and len(x) == 2:
        return labelled(x[0], x[1], where) if x[1] is not None else _refuse(x, where)
    if isinstance(x, Mapping):  # also several Hugging Face datasets in one
        return _refuse(x, where)
    if hasattr(x, "column_names") and hasattr(x, "with_format"):
        return _checked(_hugging_face(x, where), where)
    if hasattr(x, "__getitem__") and hasattr(x, "__len__") and not hasattr(x, "__array__"):
        return _checked(_map_style(x, where), where)
    return _refuse(x, where)


def _refuse(found: Any, where: str) -> Labelled:
    hint = "; give its .dataset" if hasattr(found, "dataset") else ""
    if isinstance(found, Mapping):
        hint = f"; choose one of its parts: {', '.join(map(repr, found))}"
    raise DataError(
        f"{where}: expected arrays (x, y), a dataset with len() and [i] that gives (x, y), or a Hugging Face dataset; "
        f"found {type(found).__name__}{hint}"
    )


def _checked(found: Labelled, where: str) -> Labelled:
    if found.x.ndim == 0:
        raise DataError(f"{where}, x: expected one row per sample, found {type(found.x.item()).__name__}")
    if len(found.x) != len(found.y):
        raise DataError(f"{where}: x has {len(found.x):,} samples and y {len(found.y):,} labels; give one label each")
    return replace(found, x=_numbers(found.x, f"{where}, x"))


def array_of(values: Any, where: str) -> NDArray[Any]:
    """Anything that numpy takes for an array, and tensors of torch on any device."""
    if hasattr(values, "detach"):
        values = values.detach().cpu()
    try:
        if np.ma.is_masked(values):
            raise DataError(f"{where}: values are missing (masked); fill them in, or leave out the samples")
        return np.asarray(values)
    except (ValueError, TypeError, RuntimeError) as error:
        if "inhomogeneous" in str(error):
            raise DataError(f"{where}: samples must all have the same shape; resize, pad or cut them") from None
        raise DataError(f"{where}: not readable as an array: {error}") from None


def _numbers(values: NDArray[Any], where: str) -> NDArray[Any]:
    """The array if it holds numbers, all of them finite."""
    if values.dtype.kind == "O" and all(isinstance(value, Real | np.bool_) for value in values.flat):
        values = values.astype(np.float64)
    if values.dtype.kind == "O" and any(isinstance(value, np.ndarray | list) for value in values.flat):
        raise DataError(f"{where}: samples must all have the same shape; resize, pad or cut them")
    if values.dtype.kind not in "biuf":
        raise DataError(
            f"{where}: expected numbers, found {_what_is_in(values)}; turn it into numbers "
            "(entrofed.Federation.from_table does so for tables with columns of text or with missing values)"
        )
    step = max(1, PIECE // max(values[:1].size, 1))
    for start in range(0, len(values), step) if values.dtype.kind == "f" else ():
        finite = np.isfinite(values[start : start + step])
        if not finite.all():
            place = np.argwhere(~finite)[0].tolist()
            place[0] += start
            raise DataError(
                f"{where}: sample {place[0]} holds {values[tuple(place)]}"
                + (f" (at {place[1:]})" if place[1:] else "")
                + "; values must be finite: fill them in, or leave out the sample"
            )
    return values


def _what_is_in(values: NDArray[Any]) -> str:
    if values.dtype.kind != "O":
        return {"U": "text", "S": "text", "T": "text", "c": "complex numbers"}.get(values.dtype.kind, str(values.dtype))
    kinds = sorted({type(value).__name__ for value in values.flat})
    return f"a mixture of {' and '.join(kinds)}" if len(kinds) > 1 else kinds[0] if kinds else "nothing"


def label_values(y: Any, where: str) -> NDArray[Any]:
    """Labels as int64, bool or text, one per sample.

    >>> label_values([2.0, 7.0], "y").tolist(), label_values(["b", "a"], "y").tolist()
    ([2, 7], ['b', 'a'])
    """
    found = array_of(y, where)
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise DataError(
            f"{where}: {SCOPE}, with one label per sample; found an array of shape {found.shape}. "
            "Several labels per sample are out of scope; of one-hot rows give y.argmax(axis=1)"
        )
    if found.dtype.kind == "O":
        found = _of_one_type(found, where)
    kind = found.dtype.kind
    if kind == "f":
        found = _whole(found, where)
    elif kind == "S":
        return np.char.decode(found, "utf-8", "replace")
    elif kind == "T":
        return found.astype(np.str_)
    elif kind not in "biuU":
        raise DataError(f"{where}: labels are whole numbers, truth values or text, not {found.dtype}")
    if found.dtype.kind in "uf" and len(found) and np.abs(found).max() > LARGEST:
        raise DataError(f"{where}: {found.max()} is too large for a label; give such labels as text")
    return found if kind in "bU" else found.astype(np.int64)


def _of_one_type(y: NDArray[Any], where: str) -> NDArray[Any]:
    """What came as Python objects, which must all be of one type."""
    for sample, label in enumerate(y):
        if label is None or label != label:  # nan
            raise DataError(f"{where}: the label of sample {sample} is missing ({label}); leave out the sample")
    for kinds, dtype in ((str, np.str_), (bool | np.bool_, np.bool_), (Integral, np.int64), (Real, np.float64)):
        if all(isinstance(label, kinds) for label in y):
            try:
                return y.astype(dtype)
            except OverflowError:
                raise DataError(f"{where}: {max(y)} is too large for a label; give such labels as text") from None
    found = " and ".join(sorted({type(label).__name__ for label in y}))
    raise DataError(f"{where}: labels must be of one type, found {found}; give all as text or all as numbers")


def _whole(y: NDArray[Any], where: str) -> NDArray[Any]:
    """Numbers with a decimal point that are whole, nevertheless."""
    bad = np.flatnonzero(~np.isfinite(y))
    if len(bad):
        raise DataError(f"{where}: the label of sample {bad[0]} is missing ({y[bad[0]]}); leave out the sample")
    broken = np.unique(y[y != np.round(y)])
    if len(broken):
        raise DataError(
            f"{where}: {SCOPE}; found {len(broken):,} different labels that are not whole, such as {broken[0]:g}. "
            "Predicting numbers (regression) is out of scope: cut them into classes; if they are names of classes, "
            "give them as text"
        )
    return y


def _map_style(source: Any, where: str) -> Labelled:
    """A dataset with ``len`` and ``[i]``, such as torch's; each item is a sample and its label."""
    items = []
    for i in range(len(source)):
        try:
            item = source[i]
        except Exception as error:
            raise DataError(f"{where}: sample {i} cannot be read: {type(error).__name__}: {error}") from error
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise DataError(f"{where}: item {i} of {type(source).__name__} must be (x, y), found {type(item).__name__}")
        items.append(item)
    x = [array_of(sample, f"{where}, x of sample {i}") for i, (sample, _) in enumerate(items)]
    for i, sample in enumerate(x):
        if sample.shape != x[0].shape:
            raise DataError(
                f"{where}: samples must all have the same shape; sample 0 has {x[0].shape}, sample {i} {sample.shape}"
            )
    y = [label.item() if hasattr(label, "item") else label for _, label in items]
    labels = np.empty(len(y), object)
    labels[:] = y
    return Labelled(np.stack(x) if x else np.empty(0), label_values(labels, f"{where}, y"))


def _hugging_face(source: Any, where: str) -> Labelled:
    """A Hugging Face dataset: its labels by type or name of the column, its samples from the others."""
    columns, features = list(source.column_names), source.features
    typed = [name for name in columns if hasattr(features[name], "names")]
    named = [name for name in LABEL_COLUMNS if name in columns]
    if not (label := typed[0] if len(typed) == 1 else named[0] if named else None):
        raise DataError(
            f"{where}: which of the columns {', '.join(columns)} is the label? Call it 'label' (rename_column), or "
            "give arrays (x, y)"
        )
    others = [name for name in columns if name != label]
    inputs = others if len(others) == 1 else [name for name in INPUT_COLUMNS if name in others][:1] or others
    if not inputs:
        raise DataError(f"{where}: there is no column besides the label {label!r}")
    content = source.select_columns([*inputs, label]).with_format("numpy")[:]
    names = getattr(features[label], "names", None)
    y = label_values(content[label], f"{where}, column {label!r}")
    if names is not None and len(y) and y.dtype.kind == "i":
        wrong = np.flatnonzero((y < 0) | (y >= len(names)))
        if len(wrong):
            raise DataError(f"{where}: the label of sample {wrong[0]} is missing ({y[wrong[0]]}); leave out the sample")
        y = np.array(names)[y]
    x = [array_of(content[name], f"{where}, column {name!r}") for name in inputs]
    if len(inputs) > 1:
        for name, column in zip(inputs, x, strict=True):
            if column.ndim != 1 or column.dtype.kind not in "biuf":
                raise DataError(
                    f"{where}: columns {', '.join(inputs)} cannot be one table, for {name!r} holds "
                    f"{_what_is_in(column) if column.ndim == 1 else 'arrays'}; keep the columns that a sample is "
                    "made of (select_columns)"
                )
    together = np.column_stack(x) if x[0].ndim == 1 and x[0].dtype.kind != "O" else x[0]
    kind = "text" if inputs == ["input_ids"] else None
    return Labelled(together, y, tuple(names) if names is not None else None, kind)
