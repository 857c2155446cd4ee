"""Datasets with natural clients: hospitals, occupations, people, writers."""

import gzip
import os
import struct
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from entrofed.data import images
from entrofed.data.activity import ACTIVITIES, activity, windows
from entrofed.data.adult import adult
from entrofed.data.catalog import CATALOG, SHIPPED, load
from entrofed.data.fetch import verify
from entrofed.data.files.load import load_path
from entrofed.data.hospitals import COLUMNS, heart_hospitals, hospital_table
from entrofed.data.tabular.choice import Choice
from entrofed.errors import DataError

# Heart disease in four hospitals


def test_hospitals() -> None:
    data = load("heart-hospitals")
    assert (data.classes, data.role_names) == (
        ("healthy", "disease"),
        ("Budapest", "Cleveland", "Long Beach", "Switzerland"),
    )
    assert data.roles is not None
    assert np.bincount(data.roles).tolist() == [235, 242, 160, 99]
    assert [column["name"] for column in data.preprocessing["columns"]] == list(COLUMNS)
    assert all(column["fill"] is not None for column in data.preprocessing["columns"])
    assert np.bincount(np.concatenate([data.train_y, data.test_y])).tolist() == [411, 509]
    for k, healthy in enumerate((150, 131, 41, 7)):
        assert (data.train_y[data.roles == k] == 0).sum() == healthy, "four fifths of the healthy, rounded"


def test_no_cholesterol_is_a_missing_value() -> None:
    data = load("heart-hospitals")
    chol = data.train_x[:, [column["name"] for column in data.preprocessing["columns"]].index("chol") + 3]
    median = next(column["fill"] for column in data.preprocessing["columns"] if column["name"] == "chol")
    assert (chol > 0).all()
    assert data.roles is not None
    assert (chol[data.roles == 3] == median).all(), "nobody measured it in Switzerland"


def test_the_catalogue_equals_the_same_table_as_a_file(tmp_path: Path) -> None:
    pyarrow.parquet.write_table(hospital_table(SHIPPED), tmp_path / "patients.parquet")
    choice = Choice(label="disease", client="hospital", test="test", missing="impute")
    own, data = load_path(tmp_path / "patients.parquet", choice), load("heart-hospitals")
    for name in ("train_x", "train_y", "test_x", "test_y", "roles"):
        np.testing.assert_array_equal(getattr(own, name), getattr(data, name), strict=True)
    assert own.role_names == data.role_names


def test_a_damaged_hospital(tmp_path: Path) -> None:
    for path in SHIPPED.glob("processed.*"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "processed.va.data").write_text(",".join(["1"] * 13) + ",7\n")
    with pytest.raises(DataError, match="the last column is one of 0, 1, 2, 3, 4; found 7"):
        heart_hospitals(tmp_path)


# Census income


ROWS = """39, State-gov, 77516, Bachelors, 13, Never-married, {}, Not-in-family, White, Male, 2174, 0, 40, Cuba, {}
50, Private, 83311, HS-grad, 9, Divorced, {}, Husband, Black, Female, 0, 7, 13, Mexico, {}
38, ?, 215646, HS-grad, 9, Divorced, {}, Not-in-family, White, Male, 0, 0, 40, Cuba, {}
"""


def write_adult(folder: Path, packed: bool) -> None:
    folder.mkdir()
    train = ROWS.format("Sales", "<=50K", "Tech-support", ">50K", "Sales", ">50K") + "\n"
    test = "|1x3 Cross validator\n" + ROWS.format("Sales", "<=50K.", "Armed-Forces", ">50K.", "Sales", ">50K.")
    for name, text in (("adult.data", train), ("adult.test", test)):
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)


@pytest.mark.parametrize("packed", [False, True])
def test_adult(tmp_path: Path, packed: bool) -> None:
    write_adult(tmp_path / "adult", packed)
    data = adult(tmp_path)
    assert (data.classes, data.role_names) == (("<=50K", ">50K"), ("Sales", "Tech-support"))
    assert (data.train_y.tolist(), data.test_y.tolist()) == ([0, 1], [0, 1]), "rows with missing values are left out"
    names = [column["name"] for column in data.preprocessing["columns"]]
    assert not {"fnlwgt", "education", "occupation", "income", "test"} & set(names)
    np.testing.assert_array_equal(data.train_x[:, 0], [39, 50])


def test_a_damaged_adult(tmp_path: Path) -> None:
    write_adult(tmp_path / "adult", packed=True)
    (tmp_path / "adult/adult.test.gz").write_bytes(b"no gzip")
    with pytest.raises(DataError, match=r"adult\.test: a table of 15 columns"):
        adult(tmp_path)


def test_a_gzipped_file_serves_for_the_published_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_adult(tmp_path / "adult", packed=True)
    assert CATALOG["adult"].here(tmp_path)
    assert [status.state for status in verify("adult", tmp_path)] == ["damaged", "damaged"]
    place = os.environ.get("ENTROFED_TEST_DATA")
    if place is not None and CATALOG["adult"].here(Path(place)):
        assert [status.state for status in verify("adult", Path(place))] == ["ok", "ok"]


# Activities of 30 people


def test_windows_overlap_by_half() -> None:
    signal = np.arange(256 * 6, dtype=np.float32).reshape(256, 6)
    found = windows(signal)
    assert [window[0, 0] / 6 for window in found] == [0, 64, 128]
    np.testing.assert_array_equal(found[1], signal[64:192].T)
    assert windows(signal[:127]) == []


def test_activities_are_cut_at_their_borders(tmp_path: Path) -> None:
    (tmp_path / "activity").mkdir()
    label = np.repeat(np.array([5, 7, 1, -1], np.int8), [700, 300, 600, 400])
    signal = np.arange(2000, dtype=np.float32)[:, None].repeat(6, axis=1)
    arrays = {f"user0{k}_run0_{what}": array for k in (1, 2) for what, array in (("signal", signal), ("label", label))}
    np.savez(tmp_path / "activity/hapt_raw_30_users.npz", **arrays)
    data = activity(tmp_path)
    # standing: 525 + 175 samples, so 7 windows and 1; walking: 450 + 150, so 6 and 1
    assert (data.train_x.shape, data.test_x.shape) == ((26, 6, 128), (4, 6, 128))
    assert [data.classes[y] for y in data.test_y] == ["standing", "walking"] * 2
    assert data.test_x[:, 0, 0].tolist() == [525, 1450] * 2
    assert data.train_x[:7, 0, 0].tolist() == [0, 64, 128, 192, 256, 320, 384]
    assert data.role_names == ("user01", "user02")
    assert data.roles is not None
    assert data.roles.tolist() == [0] * 13 + [1] * 13
    assert len(ACTIVITIES) == CATALOG["activity"].classes


@pytest.mark.parametrize("content", [b"", b"no zip"])
def test_a_damaged_recording(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "activity").mkdir()
    (tmp_path / "activity/hapt_raw_30_users.npz").write_bytes(content)
    with pytest.raises(DataError, match=r"must be a readable .npz"):
        activity(tmp_path)


# MNIST by writer


def write_idx(path: Path, values: np.ndarray, code: int) -> None:
    path.parent.mkdir(exist_ok=True)
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, code, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


def write_writers(folder: Path, writers: list[int], labels: list[int]) -> None:
    for part, prefix in (("train", "train"), ("test", "t10k")):
        write_idx(folder / f"mnist/{prefix}-images-idx3-ubyte.gz", np.zeros((len(writers), 28, 28), np.uint8), 8)
        write_idx(folder / f"mnist/{prefix}-labels-idx1-ubyte.gz", np.arange(len(writers), dtype=np.uint8), 8)
        rows = np.zeros((len(labels), 8), ">i4")
        rows[:, 0] = labels
        rows[: len(writers), 2] = writers
        write_idx(folder / f"mnist-writers/qmnist-{part}-labels-idx2-int.gz", rows, 12)


def test_writers(tmp_path: Path) -> None:
    write_writers(tmp_path, [2100, 7, 2100, 8], [0, 1, 2, 3, 9, 9])
    data = images.mnist_writers(tmp_path)
    assert (data.name, data.role_names) == ("mnist-writers", ("writer 7", "writer 8", "writer 2100"))
    assert data.roles is not None
    assert data.roles.tolist() == [2, 0, 2, 1]


def test_writers_of_other_digits(tmp_path: Path) -> None:
    write_writers(tmp_path, [1, 2], [0, 5])
    with pytest.raises(DataError, match="the first column starts with the 2 labels of MNIST"):
        images.mnist_writers(tmp_path)
