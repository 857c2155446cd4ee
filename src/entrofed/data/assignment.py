"""A fixed assignment of training samples to clients, from a file or an array."""

import csv
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.data.objects import array_of, label_values
from entrofed.data.partition import Indices
from entrofed.errors import DataError

LIMIT = 1 << 30
"""Bytes of an assignment."""


def assignment(labels: Indices, *, owners: Any) -> tuple[Indices, tuple[str, ...]]:
    """The client of each training sample, as a number, and the clients' names in order.

    ``owners`` is an array of names or numbers, or a file of them: ``.npy``, or text with one a line and, if there is a
    line more than samples, a heading. Numbers are in their order (a client that no sample names does not exist); names
    in that of the alphabet.

    >>> assignment(np.array([0, 1, 1]), owners=["Lugano", "Basel", "Lugano"])
    (array([1, 0, 1]), ('Basel', 'Lugano'))
    """
    samples = len(labels)
    where = str(owners) if isinstance(owners, str | PathLike) else "owners"
    found = _read(Path(owners), samples) if isinstance(owners, str | PathLike) else array_of(owners, where)
    if found.shape != (samples,):
        raise DataError(
            f"{where}: expected the client of each of {samples:,} training samples, found "
            + (f"{len(found):,}" if found.ndim == 1 else f"an array of shape {found.shape}")
        )
    values, numbers = np.unique(label_values(found, where), return_inverse=True)
    return numbers.astype(np.int64), tuple(str(value) for value in values)


def _read(path: Path, samples: int) -> NDArray[Any]:
    try:
        if path.stat().st_size > LIMIT:
            raise DataError(f"{path}: at most {LIMIT:,} bytes are read, found {path.stat().st_size:,}")
        if path.suffix == ".npy":
            found: NDArray[Any] = np.load(path, allow_pickle=False)
            return found
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise DataError(f"{path}: there is no such file; 'owners' names the client of each training sample") from None
    except (OSError, ValueError, EOFError, csv.Error) as error:
        raise DataError(f"{path}: not readable as .npy (numbers or text) or as text: {error}") from None
    for number, row in enumerate(rows, start=1):
        if len(row) > 1:
            raise DataError(f"{path}: expected one client per line, found {len(row)} columns in row {number}")
    names = [row[0].strip() for row in (rows[1:] if len(rows) == samples + 1 else rows)]
    if all(name.removeprefix("-").isdecimal() for name in names):
        return np.array([int(name) for name in names])
    return np.array(names)
