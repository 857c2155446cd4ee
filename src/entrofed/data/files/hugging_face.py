"""Datasets that Hugging Face's ``save_to_disk`` wrote: Arrow streams beside ``state.json`` and ``dataset_info.json``.

They are read directly; the package ``datasets`` is not needed. A folder with ``dataset_dict.json`` holds several, its
splits, of which ``train`` and ``test`` are used.
"""

import json
from pathlib import Path
from typing import Any

from entrofed.data.files.arrow import open_arrow
from entrofed.data.files.rows import Rows, readable
from entrofed.errors import DataError

SPLITS, STATE, INFO = "dataset_dict.json", "state.json", "dataset_info.json"


def is_saved_dataset(folder: Path) -> bool:
    """Whether a folder is one of a saved dataset, or of several splits."""
    return any((folder / name).is_file() for name in (SPLITS, STATE, INFO))


def open_saved(folder: Path) -> tuple[Rows, Rows | None]:
    """The rows of a saved dataset and, where it has a split for testing, the rows of that."""
    if not (folder / SPLITS).is_file():
        return _open(folder), None
    splits = _json(folder / SPLITS).get("splits", [])
    if "train" not in splits:
        raise DataError(
            f"{folder}: no split 'train' among {', '.join(map(repr, splits)) or 'none'}; name one split's folder"
        )
    return _open(folder / "train"), _open(folder / "test") if "test" in splits else None


def _open(folder: Path) -> Rows:
    state, info = _json(folder / STATE), _json(folder / INFO)
    if state.get("_indices_data_files"):
        raise DataError(
            f"{folder}: saved with a choice of rows aside (an old version); flatten_indices() and save it again"
        )
    names = [str(entry.get("filename", "")) for entry in state.get("_data_files") or ()]
    paths = [folder / name for name in names if name and Path(name).name == name]
    lacking = [path.name for path in paths if not path.is_file()]
    if not paths or lacking or len(paths) < len(names):
        raise DataError(
            f"{folder}: the arrow files that {STATE} names are not there ({', '.join(lacking or names) or 'none'})"
        )
    features = info.get("features") or {}
    named = {
        name: tuple(map(str, feature["names"]))
        for name, feature in features.items()
        if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names")
    }
    return open_arrow(*paths, where=str(folder), class_names=named)


def _json(path: Path) -> dict[str, Any]:
    with readable(str(path)):
        found = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise DataError(f"{path}: expected a table of JSON")
    return found
