"""Files that cannot be used: each is refused with words that say what is wrong and what to do."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.ipc
import pyarrow.parquet
import pytest

from entrofed.data.files.load import load_path
from entrofed.data.tabular.choice import Choice
from entrofed.errors import ConfigError, DataError, EntrofedError

GOOD = {"age": list(range(40)), "ward": ["A", "B"] * 20, "ill": ["no", "yes"] * 20, "clinic": ["X"] * 20 + ["Y"] * 20}
CHOICE = Choice(label="ill", client="clinic")


def csv(path: Path, columns: dict[str, list[Any]]) -> Path:
    lines = [
        ",".join(columns),
        *(",".join("" if v is None else str(v) for v in row) for row in zip(*columns.values(), strict=True)),
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def changed(**columns: list[Any]) -> Callable[[Path], Path]:
    return lambda folder: csv(folder / "visits.csv", {**GOOD, **columns})


def raw(content: bytes, name: str = "visits.csv") -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return write


def truncated_parquet(folder: Path) -> Path:
    path = folder / "visits.parquet"
    pyarrow.parquet.write_table(pyarrow.table(GOOD), path)
    path.write_bytes(path.read_bytes()[:-40])
    return path


def damaged_arrow(folder: Path) -> Path:
    path = folder / "visits.arrow"
    with pyarrow.ipc.new_file(path, pyarrow.table(GOOD).schema) as file:
        file.write_table(pyarrow.table(GOOD))
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    return path


def objects_npz(folder: Path) -> Path:
    path = folder / "arrays.npz"
    np.savez(path, x=np.eye(4), y=np.array(["a", 1, None, {}], dtype=object))
    return path


def half_npz(folder: Path) -> Path:
    path = folder / "arrays.npz"
    np.savez(path, x=np.eye(4), y=np.arange(4))
    path.write_bytes(path.read_bytes()[:100])
    return path


def npz_without_labels(folder: Path) -> Path:
    path = folder / "arrays.npz"
    np.savez(path, pixels=np.eye(4))
    return path


def saved_without_arrow(folder: Path) -> Path:
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def saved_elsewhere(folder: Path) -> Path:
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "../../secret.arrow"}]}))
    (folder / "dataset_info.json").write_text("{}")
    return folder


def saved_with_bad_state(folder: Path) -> Path:
    (folder / "state.json").write_text("[")
    return folder


def broken_pictures(folder: Path) -> Path:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    for name in ("cat", "dog"):
        (folder / name).mkdir()
        image.fromarray(np.zeros((4, 4), np.uint8)).save(folder / name / "good.png")
    for i in range(3):
        (folder / "dog" / f"bad{i}.png").write_bytes(b"no picture")
    return folder


def pictures_of_two_sizes(folder: Path) -> Path:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    for side, name in ((4, "cat"), (5, "dog")):
        (folder / name).mkdir()
        image.fromarray(np.zeros((side, side), np.uint8)).save(folder / name / "one.png")
    return folder


def pictures_at_two_depths(folder: Path) -> Path:
    (folder / "anna" / "cat").mkdir(parents=True)
    (folder / "anna" / "cat" / "one.png").touch()
    (folder / "cat").mkdir()
    (folder / "cat" / "two.png").touch()
    return folder


TABLES: dict[str, tuple[Callable[[Path], Path], Choice, type[EntrofedError], str]] = {
    "wrong column": (changed(), Choice(label="il"), ConfigError, "unknown column 'il'; did you mean 'ill'?"),
    "no label": (
        changed(),
        Choice(),
        ConfigError,
        r"which column is the label\? Say label = ..., one of age, ward, ill",
    ),
    "wrong feature": (changed(), Choice(label="ill", features=("agee",)), ConfigError, "did you mean 'age'?"),
    "label twice": (changed(), Choice(label="ill", client="ill"), ConfigError, "'ill' is named twice"),
    "no features": (changed(), Choice(label="ill", drop=("age", "ward", "clinic")), ConfigError, "no column is left"),
    "one class": (
        changed(ill=["no"] * 40),
        CHOICE,
        DataError,
        "'ill' is 'no' in all 40 rows; EntroFed does classification",
    ),
    "regression": (
        changed(ill=[i + 0.5 for i in range(40)]),
        CHOICE,
        DataError,
        "numbers that are not whole such as 0.5; EntroFed does classification .* Regression is out of scope",
    ),
    "label missing": (
        changed(ill=["no", "yes"] * 19 + ["", ""]),
        CHOICE,
        DataError,
        "'ill' has no value in 2 of 40 rows",
    ),
    "client missing": (
        changed(clinic=["X", ""] * 20),
        CHOICE,
        DataError,
        r"no value in 20 of 40 rows \(first in row 2\)",
    ),
    "NaN": (changed(age=[1, float("nan")] * 20), CHOICE, DataError, "'age' has no value in 20 of 40 rows.*impute"),
    "infinite": (
        changed(age=[1, float("inf")] * 20),
        CHOICE,
        DataError,
        'not finite in single precision.*drop = ."age"',
    ),
    "too large": (changed(age=[1, 1e300] * 20), CHOICE, DataError, "not finite in single precision"),
    "mixed types": (
        changed(age=[*range(39), "old"]),
        CHOICE,
        DataError,
        "'age' mixes numbers and texts .39 and 1 rows, such as 'old'",
    ),
    "constant": (changed(ward=["A"] * 40), CHOICE, DataError, "'ward' holds nothing but 'A'.*drop = .\"ward\""),
    "empty column": (changed(ward=[""] * 40), Choice(label="ill", missing="impute"), DataError, "'ward' is empty"),
    "dates": (
        changed(ward=[f"2024-01-{i % 28 + 1:02}" for i in range(40)]),
        CHOICE,
        DataError,
        "'ward' holds dates.*drop",
    ),
    "third test value": (
        changed(ward=["train", "test", "valid", "train"] * 10),
        Choice(label="ill", test="ward"),
        DataError,
        "holds true and false, 1 and 0, or test and train; found 'valid'",
    ),
    "test only": (
        changed(ward=["train"] * 30 + ["test"] * 10, ill=["no"] * 15 + ["yes"] * 15 + ["maybe"] * 10),
        Choice(label="ill", test="ward"),
        DataError,
        "class 'maybe' is in the test part .10 rows. and not in the training part",
    ),
    "all rows dropped": (changed(ward=[""] * 40), Choice(label="ill", missing="drop_rows"), DataError, "leaves none"),
    "kind": (changed(), Choice(label="ill", kind="image"), ConfigError, "kind does not apply to a table"),
    "empty file": (raw(b""), CHOICE, DataError, "must name the columns; the file is empty"),
    "header only": (raw(b"age,ward,ill,clinic\n"), CHOICE, DataError, "the table has no rows"),
    "no header": (raw(b"1,2,3\n4,5,6\n"), CHOICE, DataError, r"the first line holds numbers \(1, 2, 3\)"),
    "no names": (raw(b"age,,,ill\n1,2,3,no\n"), CHOICE, DataError, "2 columns have no name in the first line"),
    "name twice": (raw(b"age,age,ill\n1,2,no\n"), CHOICE, DataError, "'age' comes twice"),
    "long first line": (raw(b"x" * 10_000_000), CHOICE, DataError, "first line.* has more than 1,048,576 bytes"),
    "long line": (raw(b"age,ill,clinic\n" + b"7" * 3_000_000), CHOICE, DataError, "a line has more than"),
    "short row": (raw(b"age,ill,clinic\n1,no,X\n2,yes\n"), CHOICE, DataError, "Expected 3 columns, got 2"),
    "not UTF-8": (
        raw("age,ill,clinic\n1,nö,X\n".encode("latin-1")),
        CHOICE,
        DataError,
        "not UTF-8; save the table again",
    ),
    "header not UTF-8": (raw("äge,ill,clinic\n".encode("latin-1")), CHOICE, DataError, "not UTF-8"),
    "other ending": (raw(b"PK", "visits.xlsx"), CHOICE, DataError, r"known are \.csv, \.tsv, \.parquet"),
    "no file": (lambda folder: folder / "none.csv", CHOICE, DataError, "there is no such file or folder"),
    "no parquet": (raw(b"age,ill\n1,no\n", "visits.parquet"), CHOICE, DataError, "not readable"),
    "truncated parquet": (truncated_parquet, CHOICE, DataError, "visits.parquet: not readable"),
    "half an arrow file": (damaged_arrow, CHOICE, DataError, "visits.arrow: not readable"),
    "no arrow": (raw(b"age,ill\n", "visits.feather"), CHOICE, DataError, "visits.feather: not readable"),
    "objects": (objects_npz, Choice(), DataError, "array 'y' holds Python objects, which only pickle can read"),
    "half an npz": (half_npz, Choice(), DataError, "not readable as .npz"),
    "npz without labels": (npz_without_labels, Choice(), DataError, "expected arrays 'x'.* found pixels"),
    "npz without label": (npz_without_labels, Choice(label="pixel"), ConfigError, "did you mean 'pixels'"),
    "no arrow files": (saved_without_arrow, CHOICE, DataError, "not there .data-00000-of-00001.arrow"),
    "arrow elsewhere": (saved_elsewhere, CHOICE, DataError, "not there"),
    "bad state": (saved_with_bad_state, CHOICE, DataError, "state.json: not readable"),
    "broken pictures": (
        broken_pictures,
        Choice(),
        DataError,
        "3 of 5 files cannot be read as pictures. The first is .*bad0",
    ),
    "two sizes": (
        pictures_of_two_sizes,
        Choice(),
        DataError,
        r"2 sizes \(4x4, 5x5 ...\); set size = \[height, width\]",
    ),
    "two depths": (pictures_at_two_depths, Choice(), DataError, "every picture lies in class/ or .* in client/class/"),
    "no pictures": (lambda folder: folder, Choice(), DataError, "no pictures"),
    "label of a folder": (pictures_of_two_sizes, CHOICE, ConfigError, "label does not apply to a folder of pictures"),
}


@pytest.mark.parametrize("name", TABLES)
def test_refused_with_words(tmp_path: Path, name: str) -> None:
    make, choice, kind, words = TABLES[name]
    with pytest.raises(kind, match="(?s)" + words) as caught:
        load_path(make(tmp_path), choice)
    assert str(tmp_path) in str(caught.value)


def test_a_zip_that_is_no_npz(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("x", b"text")
        archive.writestr("y", b"text")
    (tmp_path / "arrays.npz").write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match="no array of numpy"):
        load_path(tmp_path / "arrays.npz", Choice())
