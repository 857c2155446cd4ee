"""A folder of .npy files: mapped from disk, in this process and in workers."""

import numpy as np
import pytest

from entrofed.backends.shared import SharedArrays, in_file
from entrofed.data.federation import Federation
from entrofed.errors import DataError


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for name, many in (("train", 60), ("test", 20)):
        np.save(tmp_path / f"x_{name}.npy", rng.random((many, 3), np.float32))
        np.save(tmp_path / f"y_{name}.npy", np.arange(many) % 2)
    return tmp_path


def test_samples_stay_in_their_file(folder):
    federation = Federation.from_files(folder, clients=4)
    found = in_file(federation.data.train_x)
    assert found is not None
    assert found[0] == str(folder / "x_train.npy")
    np.testing.assert_array_equal(federation.data.train_x, np.load(folder / "x_train.npy"))
    assert federation.sizes.sum() == 60


def test_workers_map_the_same_file(folder):
    mapped = np.load(folder / "x_train.npy", mmap_mode="r")
    shared = SharedArrays.create([mapped, np.arange(5), mapped[7:9]])
    try:
        other = SharedArrays.attach(shared.handle)
        for found, expected in zip(other.arrays, (mapped, np.arange(5), mapped[7:9]), strict=True):
            np.testing.assert_array_equal(found, expected)
        assert [bool(file) for file in shared.handle.files] == [True, False, True]
        other.close()
    finally:
        shared.close()


def test_what_may_change_is_copied(folder):
    """A private copy of a mapping, and every second row of one, are not what the file says."""
    copied = np.load(folder / "x_train.npy", mmap_mode="c")
    assert in_file(copied) is None
    assert in_file(np.load(folder / "x_train.npy", mmap_mode="r")[::2]) is None
    assert in_file(np.zeros(3)) is None


def test_a_bad_file_is_named(folder):
    (folder / "x_train.npy").write_bytes(b"nothing")
    with pytest.raises(DataError, match=r"x_train\.npy: not readable"):
        Federation.from_files(folder, clients=4)
