"""A dataset from the user's own file or folder."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.data.dataset import Dataset
from entrofed.data.files.array_columns import holds_arrays, holds_pictures, read_arrays
from entrofed.data.files.memory import memory_rows
from entrofed.data.files.npz import is_npy_folder, read_npy_folder, read_npz
from entrofed.data.files.pictures import PictureFiles, picture_files, read_pictures
from entrofed.data.files.rows import Rows
from entrofed.data.files.tables import is_table, open_rows, there
from entrofed.data.own import dataset_of
from entrofed.data.tabular.choice import TEST_SHARE, Choice, names_a_file
from entrofed.data.tabular.split import TEST, TRAIN, split_rows, split_test
from entrofed.data.tabular.table import table_dataset
from entrofed.errors import ConfigError


def load_path(path: str | Path, choice: Choice) -> Dataset:
    """Read the user's own data.

    ``path`` is a table (.csv .tsv .parquet .arrow .feather), arrays (.npz, or a folder with x.npy and
    y.npy, which are mapped and not loaded), a folder of pictures by class or by client
    and class, or a dataset that Hugging Face saved. ``choice.test`` may be the path of another of the same kind.
    """
    path = there(Path(path))
    if is_npy_folder(path):
        return _of_arrays(path, choice)
    if path.is_dir() and not is_table(path):
        return _of_pictures(path, choice)
    if path.suffix == ".npz":
        return _of_arrays(path, choice)
    rows, test = open_rows(path)
    return load_rows(rows, choice, name=path.stem, test=test)


def load_table(table: Any, choice: Choice) -> Dataset:
    """Read a table that is in memory."""
    return load_rows(memory_rows(table), choice, name="table")


def load_rows(rows: Rows, choice: Choice, *, name: str, test: Rows | None = None) -> Dataset:
    """Rows of a table, or of one column of pictures or arrays. ``test``: their test part, unless ``choice`` has one."""
    if names_a_file(choice.test):
        test, choice = open_rows(Path(choice.test))[0], replace(choice, test=None)
    elif isinstance(choice.test, str | Real):
        test = None
    elif choice.test is not None:
        test, choice = memory_rows(choice.test), replace(choice, test=None)
    features, roles = choice.columns(rows)
    if len(features) == 1 and holds_arrays(rows.types[features[0]]):
        return _of_column(rows, choice, name, test, features[0], roles)
    choice.only_of_tables(rows.where)
    return table_dataset(rows, choice, name=name, test=test)


def _other(test: Any, where: str) -> Path:
    """The file or folder with the test part of one that has no columns."""
    if not names_a_file(test):
        raise ConfigError(
            f"{where}: test = {test!r} is neither a share nor a path; a folder is named with a slash, ./test"
        )
    return there(Path(test))


def _of_column(rows: Rows, choice: Choice, name: str, test: Rows | None, column: str, roles: Sequence[str]) -> Dataset:
    choice.only(rows.where, "a column of arrays", "label", "client", "test", "features", "drop", "kind", "size")
    split = split_rows(rows, choice, roles, test_part=test is not None)
    x = read_arrays(rows, column, choice.size)
    names = np.array(split.classes)
    tested = (x[split.part == TEST], names[split.labels(TEST)])
    if test is not None:
        alone = replace(choice, client=None, features=[column], drop=())
        part = split_test(test, alone, alone.columns(test)[1], split.classes)
        tested = (read_arrays(test, column, choice.size), names[part.y])
    owners, owner_names = split.owners()
    return dataset_of(
        x[split.part == TRAIN],
        names[split.labels(TRAIN)],
        test=tested,
        kind=choice.kind or ("image" if holds_pictures(rows.types[column]) else None),
        owners=owners,
        owner_names=owner_names,
        classes=split.classes,
        name=name,
        preprocessing={"column": column, "label": choice.label},
    )


def _of_pictures(folder: Path, choice: Choice) -> Dataset:
    choice.only(str(folder), "a folder of pictures", "test", "size")
    files = picture_files(folder)
    test: Any = TEST_SHARE if choice.test is None else choice.test
    if not isinstance(test, Real):
        tested = picture_files(_other(test, str(folder)))
        test = (_pixels(tested, choice), tested.labels)
    return dataset_of(
        _pixels(files, choice), files.labels, test=test, kind="image", owners=files.owners, name=folder.name
    )


def _pixels(files: PictureFiles, choice: Choice) -> NDArray[np.uint8]:
    return read_pictures([(str(path), partial(Path, path)) for path in files.paths], str(files.root), choice.size)


def _of_arrays(path: Path, choice: Choice) -> Dataset:
    choice.only(str(path), "a file of arrays", "label", "client", "test", "kind")
    read = read_npy_folder if path.is_dir() else read_npz
    arrays = read(path, choice.label, choice.client)
    test: Any = TEST_SHARE if choice.test is None else choice.test
    if not isinstance(test, Real):
        other = read(_other(test, str(path)), choice.label)
        test = (other["x"], other["y"])
    elif choice.test is None and "x_test" in arrays:
        test = (arrays["x_test"], arrays["y_test"])
    return dataset_of(
        arrays["x"], arrays["y"], test=test, kind=choice.kind, owners=arrays.get("owners"), name=path.stem
    )
