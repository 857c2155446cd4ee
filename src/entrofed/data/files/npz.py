"""Arrays of numpy in one file (.npz): samples ``x``, labels ``y`` and, it may be, a test part ``x_test``, ``y_test``;
or each in a file of its own (``x.npy``, ``y.npy`` ...) in a folder: those are mapped, and may be larger than memory.

Keras's names ``x_train`` and ``y_train`` are understood. Arrays of Python objects would need pickle, which can run
code, and are refused.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.errors import ConfigError, DataError, EntrofedError, unknown

Arrays = dict[str, NDArray[Any]]


def read_npz(path: Path, label: str | None = None, client: str | None = None) -> Arrays:
    """The arrays ``x`` and ``y`` and, where they are there, ``owners``, ``x_test`` and ``y_test``.

    Args:
        label: The array of labels, if it has another name than ``y``; then the samples are the one array left.
        client: The array that says who owns each sample.
    """
    try:
        with path.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            names = list(file.files)
            chosen = _chosen(path, names, label, client)
            return {role: _array(path, file, name) for role, name in chosen.items()}
    except EntrofedError:
        raise
    except Exception as error:  # whatever zipfile and numpy make of bad bytes
        raise DataError(f"{path}: not readable as .npz: {error}") from None


def is_npy_folder(path: Path) -> bool:
    """Whether a folder holds arrays."""
    return path.is_dir() and any((path / f"{name}.npy").is_file() for name in ("x", "x_train"))


def read_npy_folder(path: Path, label: str | None = None, client: str | None = None) -> Arrays:
    """The same arrays as :func:`read_npz` finds, mapped from the files of a folder."""
    names = sorted(file.stem for file in path.glob("*.npy"))
    found: Arrays = {}
    for role, name in _chosen(path, names, label, client).items():
        file = path / f"{name}.npy"
        try:
            found[role] = np.load(file, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise DataError(f"{file}: not readable as .npy: {error}; save an array of numbers or texts") from None
    return found


def _array(path: Path, file: Any, name: str) -> NDArray[Any]:
    try:
        found = file[name]
    except ValueError as error:
        if "pickle" in str(error) or "Object" in str(error):
            raise DataError(
                f"{path}: array {name!r} holds Python objects, which only pickle can read, and pickle can run code; "
                "save arrays of numbers or texts"
            ) from None
        raise
    if not isinstance(found, np.ndarray):
        raise DataError(f"{path}: {name!r} is no array of numpy")
    return found


def _chosen(path: Path, names: list[str], label: str | None, client: str | None) -> dict[str, str]:
    """The name of the array for each role."""
    for name in (label, client):
        if name is not None and name not in names:
            raise ConfigError(f"{path}: {unknown('array', name, names)}")
    chosen = {role: name for role in ("x", "y") for name in (f"{role}_train", role) if name in names}
    if label is not None:
        chosen["y"] = label
        left = [name for name in names if name not in (label, client) and not name.endswith("_test")]
        if "x" not in chosen and len(left) == 1:
            chosen["x"] = left[0]
    if "x" not in chosen or "y" not in chosen:
        raise DataError(
            f"{path}: expected arrays 'x' (samples) and 'y' (labels; or another name, with label = ...); "
            f"found {', '.join(names) or 'none'}"
        )
    if ("x_test" in names) != ("y_test" in names):
        raise DataError(f"{path}: 'x_test' and 'y_test' go together; found one of them")
    chosen |= {name: name for name in ("x_test", "y_test") if name in names}
    return chosen | ({"owners": client} if client is not None else {})
