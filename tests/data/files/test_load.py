"""Own data from every kind of file."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from entrofed.data.dataset import Dataset
from entrofed.data.files.load import load_path, load_table
from entrofed.data.files.tables import TABLES
from entrofed.data.tabular.choice import ENDINGS, Choice
from entrofed.errors import DataError, EntrofedError

RNG = np.random.default_rng(0)
ROWS = 60
VISITS = pa.table(
    {
        "age": RNG.integers(18, 90, ROWS),
        "bmi": RNG.normal(25, 4, ROWS).round(2),
        "ward": RNG.choice(["A", "B", "C"], ROWS),
        "smoker": RNG.random(ROWS) < 0.3,
        "clinic": RNG.choice(["Basel", "Zug"], ROWS),
        "ill": RNG.choice(["no", "yes"], ROWS),
    }
)
CHOICE = Choice(label="ill", client="clinic")


def equal(a: Dataset, b: Dataset) -> bool:
    names = ("train_x", "train_y", "test_x", "test_y", "roles")
    same = all(getattr(a, name).tobytes() == getattr(b, name).tobytes() for name in names)
    return same and (a.classes, a.role_names, a.preprocessing) == (b.classes, b.role_names, b.preprocessing)


def write(path: Path, table: pa.Table) -> None:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    elif path.suffix == ".tsv":
        pyarrow.csv.write_csv(table, path, pyarrow.csv.WriteOptions(delimiter="\t"))
    elif path.suffix == ".parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=7)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, path, compression="uncompressed")
    else:
        with pyarrow.ipc.new_stream(path, table.schema) as file:
            file.write_table(table, max_chunksize=9)


def test_every_ending_is_known() -> None:
    assert (*TABLES, ".npz") == ENDINGS


@pytest.mark.parametrize("ending", TABLES)
def test_tables_of_all_formats_are_the_same(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"visits{ending}"
    write(path, VISITS)
    data = load_path(path, CHOICE)
    assert (data.name, data.kind, data.classes, data.role_names) == ("visits", "table", ("no", "yes"), ("Basel", "Zug"))
    assert equal(data, load_table(VISITS, CHOICE))
    write(tmp_path / f"test{ending}", VISITS.slice(0, 20))
    other = load_path(path, Choice("ill", "clinic", str(tmp_path / f"test{ending}")))
    assert (len(other.train_y), len(other.test_y)) == (60, 20)
    np.testing.assert_array_equal(other.test_x, other.train_x[:20])


@pytest.mark.parametrize(
    "text", ["a;b;y\n1;x;0\n2;y;1\n", 'a,"b",y\r\n1,"x",0\r\n2,"y",1\r\n', "\ufeffa\tb\ty\n1\tx\t0\n2\ty\t1"]
)
def test_csv_dialects(tmp_path: Path, text: str) -> None:
    rows = text.splitlines()
    path = tmp_path / "a.csv"
    path.write_text("\n".join([rows[0], *rows[1:] * 6]), encoding="utf-8")
    data = load_path(path, Choice(label="y", test=0.5))
    assert [column["name"] for column in data.preprocessing["columns"]] == ["a", "b"]
    assert data.train_x.shape == (6, 3)


def test_a_quoted_text_may_hold_commas_and_line_breaks(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,y\n" + '"one, two\nthree",0\nfour,1\n' * 6)
    data = load_path(path, Choice(label="y"))
    assert data.preprocessing["columns"][0]["categories"] == ["four", "one, two\nthree"]


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_the_row_numbers_of_pandas_are_no_feature(tmp_path: Path, name: str) -> None:
    table = VISITS.add_column(0, name, pa.array(range(ROWS)))
    assert equal(load_table(table, CHOICE), load_table(VISITS, CHOICE))
    pyarrow.csv.write_csv(table, tmp_path / "table.csv")
    assert equal(load_path(tmp_path / "table.csv", CHOICE), load_table(VISITS, CHOICE))


class Stream:
    """What polars and pandas have in common."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return VISITS.__arrow_c_stream__(requested_schema)


class Frame:
    """What older versions of pandas have."""

    def __dataframe__(self, nan_as_null: bool = False, allow_copy: bool = True) -> object:
        return VISITS.__dataframe__(nan_as_null, allow_copy)


@pytest.mark.parametrize(
    "table", [Stream(), Frame(), VISITS.to_pydict(), VISITS.to_batches()[0]], ids=lambda t: type(t).__name__
)
def test_tables_in_memory(table: Any) -> None:
    assert equal(load_table(table, CHOICE), load_table(VISITS, CHOICE))


@pytest.mark.parametrize("table", [7, [1, 2], {"a": [1, "x"]}, {"a": [1], "b": [1, 2]}], ids=repr)
def test_what_is_no_table(table: Any) -> None:
    with pytest.raises(DataError, match="the table"):
        load_table(table, CHOICE)


def save_dataset(folder: Path, table: pa.Table, features: dict[str, Any] | None = None) -> None:
    folder.mkdir(parents=True)
    half = len(table) // 2
    for number, part in enumerate((table[:half], table[half:])):
        write(folder / f"data-0000{number}-of-00002.arrow", part)
    names = [{"filename": f"data-0000{number}-of-00002.arrow"} for number in (0, 1)]
    (folder / "state.json").write_text(json.dumps({"_data_files": names, "_fingerprint": "0"}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": features or {}}))


def test_a_saved_dataset_that_is_a_table(tmp_path: Path) -> None:
    save_dataset(tmp_path / "visits", VISITS)
    assert equal(load_path(tmp_path / "visits", CHOICE), load_table(VISITS, CHOICE))


def test_the_classes_of_a_saved_dataset_have_names(tmp_path: Path) -> None:
    table = pa.table({"a": list(range(20)), "label": [1, 0] * 10})
    save_dataset(tmp_path / "own", table, {"label": {"names": ["zebra", "ape"], "_type": "ClassLabel"}})
    data = load_path(tmp_path / "own", Choice(label="label"))
    assert data.classes == ("zebra", "ape")
    assert data.train_y[:2].tolist() == [1, 0]
    save_dataset(
        tmp_path / "bad",
        pa.table({"a": [1, 2], "label": [0, -1]}),
        {"label": {"names": ["x", "y"], "_type": "ClassLabel"}},
    )
    with pytest.raises(DataError, match="the label 'label' is '-1' in some rows"):
        load_path(tmp_path / "bad", Choice(label="label"))


def test_a_saved_dataset_of_splits(tmp_path: Path) -> None:
    save_dataset(tmp_path / "own/train", VISITS)
    save_dataset(tmp_path / "own/test", VISITS.slice(0, 10))
    (tmp_path / "own/dataset_dict.json").write_text(json.dumps({"splits": ["train", "test"]}))
    data = load_path(tmp_path / "own", CHOICE)
    assert (len(data.train_y), len(data.test_y)) == (60, 10)
    shared = load_path(tmp_path / "own", Choice("ill", "clinic", 0.5))
    assert (len(shared.train_y), len(shared.test_y)) == (30, 30)
    (tmp_path / "own/dataset_dict.json").write_text(json.dumps({"splits": ["test"]}))
    with pytest.raises(DataError, match="no split 'train' among 'test'"):
        load_path(tmp_path / "own", CHOICE)


def test_a_saved_dataset_of_tokens(tmp_path: Path) -> None:
    tokens = RNG.integers(300, size=(20, 5))
    save_dataset(
        tmp_path / "text", pa.table({"input_ids": tokens.tolist(), "label": ["a", "b"] * 10, "who": [1, 2] * 10})
    )
    data = load_path(tmp_path / "text", Choice("label", "who", kind="text"))
    assert (data.kind, data.train_x.shape, data.role_names) == ("text", (16, 5), ("1", "2"))
    assert {tuple(row) for row in (*data.train_x, *data.test_x)} == {tuple(row) for row in tokens}
    save_dataset(tmp_path / "ragged", pa.table({"input_ids": [[1], [1, 2]] * 4, "label": ["a", "b"] * 4}))
    with pytest.raises(DataError, match="column 'input_ids': lists must all have one length, found 1 and 2"):
        load_path(tmp_path / "ragged", Choice("label"))


def test_a_saved_dataset_of_arrays(tmp_path: Path) -> None:
    """Of a type that another package brings, known or not."""
    x = RNG.normal(size=(20, 2, 3)).astype(np.float32)
    inner = pa.list_(pa.list_(pa.float32()))

    class Matrix(pa.ExtensionType):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(inner, "test.matrix")

        def __arrow_ext_serialize__(self) -> bytes:
            return b""

        @classmethod
        def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: bytes) -> "Matrix":
            return cls()

    matrices = pa.ExtensionArray.from_storage(Matrix(), pa.array(x.tolist(), inner))
    save_dataset(tmp_path / "own", pa.table({"m": matrices, "label": ["a", "b"] * 10}))
    unknown = load_path(tmp_path / "own", Choice("label", kind="tensor"))
    pa.register_extension_type(Matrix())
    try:
        known = load_path(tmp_path / "own", Choice("label", kind="tensor"))
    finally:
        pa.unregister_extension_type("test.matrix")
    for data in (unknown, known):
        assert {row.tobytes() for row in (*data.train_x, *data.test_x)} == {row.tobytes() for row in x}


def picture(value: int, side: int = 4, mode: str = "L", form: str = "PNG") -> bytes:
    image = pytest.importorskip("PIL.Image", reason="pictures need Pillow")
    buffer = io.BytesIO()
    image.new(mode, (side, side), value if mode == "L" else (value, 0, 0)).save(buffer, form)
    return buffer.getvalue()


def test_a_saved_dataset_of_pictures(tmp_path: Path) -> None:
    images = [{"bytes": picture(value), "path": None} for value in range(10)]
    table = pa.table({"image": images, "label": [0, 1] * 5})
    save_dataset(tmp_path / "own", table, {"label": {"names": ["even", "odd"], "_type": "ClassLabel"}})
    data = load_path(tmp_path / "own", Choice("label", size=(2, 3)))
    assert (data.kind, data.classes, data.train_x.shape) == ("image", ("even", "odd"), (8, 1, 2, 3))
    assert [data.classes[y] for y in data.test_y] == ["odd" if x[0, 0, 0] % 2 else "even" for x in data.test_x]
    lost = pa.table({"image": [{"bytes": None, "path": None}] * 4, "label": [0, 1] * 2}, table.schema)
    save_dataset(tmp_path / "far", lost)
    with pytest.raises(DataError, match=r"4 of 4 files cannot be read as pictures\. The first is row 1"):
        load_path(tmp_path / "far", Choice("label"))


def test_pictures_by_class(tmp_path: Path) -> None:
    for name, value in (("dog", 200), ("cat", 100)):
        (tmp_path / name).mkdir()
        for i in range(5):
            (tmp_path / name / f"{i}.png").write_bytes(picture(value + i))
    (tmp_path / "cat/notes.txt").write_text("ignored")
    (tmp_path / "cat/.hidden.png").write_text("ignored")
    data = load_path(tmp_path, Choice())
    assert (data.kind, data.classes, data.train_x.shape, data.roles) == ("image", ("cat", "dog"), (8, 1, 4, 4), None)
    assert [data.classes[y] for y in data.train_y] == ["dog" if x[0, 0, 0] >= 200 else "cat" for x in data.train_x]


def test_pictures_by_client_and_class(tmp_path: Path) -> None:
    for k, client in enumerate(("anna", "ben")):
        for c, name in enumerate(("cat", "dog")):
            for root in ("train", "test"):
                folder = tmp_path / root / client / name
                folder.mkdir(parents=True)
                (folder / "one.jpg").write_bytes(picture(100 * k + 50 * c, 8, "RGB", "JPEG"))
    data = load_path(tmp_path / "train", Choice(test=str(tmp_path / "test"), size=(4, 4)))
    assert (data.train_x.shape, data.role_names) == ((4, 3, 4, 4), ("anna", "ben"))
    assert data.roles is not None
    assert (data.roles.tolist(), data.train_y.tolist(), len(data.test_y)) == ([0, 0, 1, 1], [0, 1, 0, 1], 4)


def test_arrays(tmp_path: Path) -> None:
    x, y, who = RNG.normal(size=(20, 3)), np.array(["a", "b"] * 10), np.repeat(["u", "v"], 10)
    np.savez(tmp_path / "own.npz", x=x, y=y, who=who)
    data = load_path(tmp_path / "own.npz", Choice(client="who"))
    assert (data.kind, data.classes, data.role_names, data.train_x.shape) == ("table", ("a", "b"), ("u", "v"), (16, 3))
    np.savez(tmp_path / "keras.npz", x_train=x[:15], y_train=y[:15], x_test=x[15:], y_test=y[15:])
    data = load_path(tmp_path / "keras.npz", Choice(kind="tensor"))
    assert (data.kind, len(data.train_y), len(data.test_y)) == ("tensor", 15, 5)
    np.testing.assert_array_equal(data.test_x, x[15:].astype(np.float32))
    np.savez(tmp_path / "named.npz", pixels=x, digit=y)
    data = load_path(tmp_path / "named.npz", Choice(label="digit", test=tmp_path / "named.npz"))
    assert (len(data.train_y), len(data.test_y)) == (20, 20)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(ENDINGS), st.binary(max_size=200), st.integers(0, 10_000), st.integers(0, 255))
def test_damaged_files_are_refused_or_read(tmp_path: Path, ending: str, content: bytes, place: int, byte: int) -> None:
    """Random bytes, and good files with one byte changed: never anything but an error of ours."""
    path = tmp_path / f"random{ending}"
    path.write_bytes(content)
    with pytest.raises(EntrofedError):
        load_path(path, CHOICE)
    path = tmp_path / f"changed{ending}"
    if ending == ".npz":
        np.savez(path, x=np.eye(8), ill=np.arange(8) % 2, clinic=np.arange(8))
    else:
        write(path, VISITS)
    raw = bytearray(path.read_bytes())
    raw[place % len(raw)] = byte
    path.write_bytes(bytes(raw))
    with contextlib.suppress(EntrofedError):
        load_path(path, CHOICE)
