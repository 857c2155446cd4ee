"""Readers of the file formats that datasets come in. Whatever a file holds, the only error is a DataError.

Nothing is ever unpickled, no archive is unpacked to disk, and no compressed file expands without a limit.
"""

import gzip
import importlib
import io
import math
import struct
import tarfile
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import DataError

Pixels = NDArray[np.uint8]
Labels = NDArray[np.int64]

ARRAY_LIMIT = 1 << 29
"""Bytes an IDX file may hold once decompressed (the largest we know, EMNIST digits, holds 188 million)."""
IDX_CODES = {"u1": 8, "i4": 12}
CIFAR_LIMIT = 50_000
"""Records in one CIFAR file."""
TABLE_LIMIT = 1 << 24
"""Bytes of a delimited table."""
LARGEST = float(np.finfo(np.float32).max)
PNG_LIMIT = 1 << 16
"""Bytes of one 32x32 picture."""
ARCHIVE_LIMIT = 1 << 30
"""Bytes of all pictures taken from one archive."""


def damaged(path: Path, rule: str, found: object) -> DataError:
    """The error for a file that is not what it should be."""
    return DataError(f"{path}: {rule}; found {found}. Replace the file with an intact copy.")


def checked_labels(path: Path, raw: NDArray[np.uint8], classes: int) -> Labels:
    """Labels as int64, all of them below the number of classes."""
    if raw.max(initial=0) >= classes:
        raise damaged(path, f"labels must lie in 0..{classes - 1}", f"label {raw.max()}")
    return raw.astype(np.int64)


def read_idx(path: Path, dimensions: int, dtype: str = "u1") -> NDArray[Any]:
    """A gzipped IDX file: two zero bytes, what the values are (8: bytes, "u1"; 12: 32-bit numbers, "i4"), the number of
    dimensions, then each size as a big-endian 32-bit number, then the values, big-endian. Images have 3 dimensions,
    labels 1."""
    code, width = IDX_CODES[dtype], np.dtype(dtype).itemsize
    try:
        with gzip.open(path) as file:
            magic = file.read(4)
            if magic != bytes((0, 0, code, dimensions)):
                rule = f"an IDX file of {dtype} in {dimensions} dimensions starts with 0000{code:02x}0{dimensions}"
                raise damaged(path, rule, magic.hex() or "nothing")
            sizes = file.read(4 * dimensions)
            if len(sizes) < 4 * dimensions:
                raise damaged(path, f"an IDX header has {4 + 4 * dimensions} bytes", f"{4 + len(sizes)} bytes")
            shape = struct.unpack(f">{dimensions}I", sizes)
            count = math.prod(shape) * width
            if not 0 < count <= ARRAY_LIMIT:
                raise damaged(path, f"an IDX file holds 1..{ARRAY_LIMIT:,} bytes", f"the shape {shape}")
            values = file.read(count + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise damaged(path, "the file must be readable gzip", error) from error
    if len(values) != count:
        found = "more bytes" if len(values) > count else f"{len(values):,} bytes"
        raise damaged(path, f"the shape {shape} in the header calls for {count:,} bytes", found)
    return np.frombuffer(values, f">{dtype}").reshape(shape).astype(dtype)


def read_cifar(path: Path, classes: tuple[int, ...]) -> tuple[Pixels, tuple[Labels, ...]]:
    """A file in the official binary layout of CIFAR: records of one byte per label and 3,072 pixel bytes (the
    red, the green and the blue plane of 32x32).

    ``classes`` are the numbers of classes of the labels: ``(10,)`` for CIFAR-10, ``(20, 100)``, coarse and
    fine, for CIFAR-100.
    """
    length = len(classes) + 3072
    try:
        size = path.stat().st_size
        if size == 0 or size % length or size > CIFAR_LIMIT * length:
            rule = f"the file must hold 1..{CIFAR_LIMIT:,} records of {length:,} bytes"
            raise damaged(path, rule, f"{size:,} bytes, which is {size / length:,.2f} records")
        records = np.fromfile(path, np.uint8).reshape(-1, length)
    except (OSError, ValueError) as error:
        raise damaged(path, "the file must be readable", error) from error
    labels = tuple(checked_labels(path, records[:, i], n) for i, n in enumerate(classes))
    return records[:, len(classes) :].reshape(-1, 3, 32, 32), labels


def read_table(
    path: Path, columns: int, separator: str | None, *, header: bool
) -> tuple[NDArray[np.float32], list[str]]:
    """The numbers in all columns but the last, and the texts in the last; a missing value ``?`` becomes NaN.

    The file is UTF-8; ``separator`` None means any white space; blank lines do not count.
    """
    try:
        if path.stat().st_size > TABLE_LIMIT:
            raise damaged(path, f"a table has at most {TABLE_LIMIT:,} bytes", f"{path.stat().st_size:,}")
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise damaged(path, "the file must be readable text in UTF-8", error) from error
    numbers, labels = [], []
    for number, line in enumerate(lines[header:], start=1 + header):
        if not line.strip():
            continue
        *cells, label = (cell.strip() for cell in line.split(separator))
        if len(cells) != columns - 1:
            raise damaged(path, f"every row has {columns} columns", f"{len(cells) + 1} in line {number}")
        try:
            row = [None if cell == "?" else float(cell) for cell in cells]
        except ValueError:
            raise damaged(path, "all columns but the last are numbers", f"{cells} in line {number}") from None
        if any(value is not None and not abs(value) <= LARGEST for value in row):
            raise damaged(path, "numbers must be finite in single precision", f"{cells} in line {number}")
        numbers.append(row)
        labels.append(label)
    return np.array(numbers, np.float32).reshape(-1, columns - 1), labels


def read_picture_folders(folder: Path, classes: Sequence[str]) -> tuple[Pixels, Labels]:
    """The 32x32 PNG pictures in one folder per class, in the order of the classes and of the file names."""
    paths = [(label, path) for label, name in enumerate(classes) for path in sorted((folder / name).glob("*.png"))]
    try:
        return _stack(((label, path, path.read_bytes()) for label, path in paths), len(paths))
    except OSError as error:
        raise damaged(folder, "the pictures must be readable", error) from error


def read_picture_archive(path: Path, parts: Sequence[str], classes: Sequence[str]) -> dict[str, tuple[Pixels, Labels]]:
    """The same from a .tar.gz with members ``part/class/name.png``, for several parts, read in one pass."""
    found: dict[str, list[tuple[int, Path, bytes]]] = {part: [] for part in parts}
    total = 0
    try:
        with tarfile.open(path, "r|gz") as archive:
            for member in archive:
                part, label, name = ("", "", *PurePosixPath(member.name).parts)[-3:]
                if part not in found or label not in classes or not name.endswith(".png"):
                    continue
                total += member.size
                if member.size > PNG_LIMIT or total > ARCHIVE_LIMIT:
                    rule = f"a picture has at most {PNG_LIMIT:,} bytes, and all have {ARCHIVE_LIMIT:,}"
                    raise damaged(path, rule, f"{member.size:,} bytes in {member.name}, {total:,} in all so far")
                if (data := archive.extractfile(member)) is not None:
                    found[part].append((classes.index(label), path / part / label / name, data.read()))
    except (OSError, EOFError, ValueError, tarfile.TarError, zlib.error) as error:
        raise damaged(path, "the file must be a readable .tar.gz", error) from error
    return {part: _stack(sorted(found[part]), len(found[part])) for part in parts}


def _stack(pictures: Iterable[tuple[int, Path, bytes]], count: int) -> tuple[Pixels, Labels]:
    try:
        pillow = importlib.import_module("PIL.Image")
    except ImportError as error:
        raise DataError("PNG pictures need Pillow, which is not installed; run: pip install pillow") from error
    pixels = np.empty((count, 3, 32, 32), np.uint8)
    labels = np.empty(count, np.int64)
    for row, (label, path, data) in enumerate(pictures):
        try:
            with pillow.open(io.BytesIO(data), formats=("PNG",)) as image:
                if image.size != (32, 32):
                    raise damaged(path, "pictures are 32x32", image.size)
                pixels[row] = np.asarray(image.convert("RGB")).transpose(2, 0, 1)
        except DataError:
            raise
        except Exception as error:  # whatever the decoder makes of bad bytes
            raise damaged(path, "the file must be a PNG picture", error) from error
        labels[row] = label
    return pixels, labels
