"""The image datasets, from small files in the published layout."""

import gzip
import io
import struct
import tarfile
from pathlib import Path

import numpy as np
import pytest

from entrofed.data import images
from entrofed.errors import DataError

RNG = np.random.default_rng(0)


def write_idx(path: Path, values: np.ndarray) -> None:
    path.parent.mkdir(exist_ok=True)
    header = struct.pack(f">BBBB{values.ndim}I", 0, 0, 8, values.ndim, *values.shape)
    path.write_bytes(gzip.compress(header + values.tobytes()))


def write_mnist(folder: Path, train: str, test: str, side: int = 28) -> dict[str, np.ndarray]:
    made = {}
    for part, prefix, rows in (("train", train, 12), ("test", test, 5)):
        made[f"{part}_x"] = RNG.integers(256, size=(rows, side, side), dtype=np.uint8)
        made[f"{part}_y"] = np.arange(rows, dtype=np.uint8) % 10
        write_idx(folder / f"{prefix}-images-idx3-ubyte.gz", made[f"{part}_x"])
        write_idx(folder / f"{prefix}-labels-idx1-ubyte.gz", made[f"{part}_y"])
    return made


def test_mnist_and_fashion(tmp_path: Path) -> None:
    for read, name, first in (
        (images.mnist, "mnist", "0"),
        (images.fashion_mnist, "fashion-mnist", "T-shirt/top"),
    ):
        made = write_mnist(tmp_path / name, "train", "t10k")
        data = read(tmp_path)
        assert (data.name, data.kind, data.classes[0], len(data.classes)) == (name, "image", first, 10)
        np.testing.assert_array_equal(data.train_x, made["train_x"][:, None], strict=True)
        np.testing.assert_array_equal(data.test_x, made["test_x"][:, None], strict=True)
        np.testing.assert_array_equal(data.train_y, made["train_y"].astype(np.int64), strict=True)
        np.testing.assert_array_equal(data.test_y, made["test_y"].astype(np.int64), strict=True)


def test_emnist_stands_upright(tmp_path: Path) -> None:
    made = write_mnist(tmp_path / "emnist-digits", "emnist-digits-train", "emnist-digits-test")
    data = images.emnist_digits(tmp_path)
    np.testing.assert_array_equal(data.train_x[:, 0], made["train_x"].transpose(0, 2, 1), strict=True)
    np.testing.assert_array_equal(data.test_x[:, 0], made["test_x"].transpose(0, 2, 1), strict=True)


def test_images_of_another_size(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", "train", "t10k", side=27)
    with pytest.raises(DataError, match="images are 28x28; found 27x27"):
        images.mnist(tmp_path)


def test_labels_must_fit_the_images(tmp_path: Path) -> None:
    write_mnist(tmp_path / "mnist", "train", "t10k")
    write_idx(tmp_path / "mnist/train-labels-idx1-ubyte.gz", np.zeros(11, np.uint8))
    with pytest.raises(DataError, match="each of the 12 images has a label; found 11 labels"):
        images.mnist(tmp_path)
    write_idx(tmp_path / "mnist/train-labels-idx1-ubyte.gz", np.full(12, 10, np.uint8))
    with pytest.raises(DataError, match=r"labels must lie in 0\.\.9; found label 10"):
        images.mnist(tmp_path)


def write_cifar(path: Path, *labels: np.ndarray) -> np.ndarray:
    path.parent.mkdir(exist_ok=True)
    pixels = RNG.integers(256, size=(len(labels[0]), 3, 32, 32), dtype=np.uint8)
    columns = [label.astype(np.uint8) for label in labels]
    path.write_bytes(np.column_stack([*columns, pixels.reshape(len(pixels), -1)]).tobytes())
    return pixels


def test_cifar_10_joins_its_batches_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-bin"
    pixels = [write_cifar(folder / f"data_batch_{i}.bin", np.array([i, i + 4])) for i in range(1, 6)]
    test = write_cifar(folder / "test_batch.bin", np.array([0]))
    data = images.cifar_10(tmp_path)
    np.testing.assert_array_equal(data.train_x, np.concatenate(pixels), strict=True)
    np.testing.assert_array_equal(data.test_x, test, strict=True)
    assert data.train_y.tolist() == [1, 5, 2, 6, 3, 7, 4, 8, 5, 9]
    assert data.classes[:2] == ("airplane", "automobile")
    (folder / "data_batch_3.bin").unlink()
    with pytest.raises(DataError, match="data_batch_3"):
        images.cifar_10(tmp_path)


def test_cifar_100_has_two_kinds_of_labels(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-100-binary"
    coarse, fine = np.array([11, 0, 19]), np.array([19, 4, 99])
    pixels = write_cifar(folder / "train.bin", coarse, fine)
    write_cifar(folder / "test.bin", coarse[:1], fine[:1])
    data = images.cifar_100(tmp_path)
    np.testing.assert_array_equal(data.train_x, pixels, strict=True)
    assert [data.classes[y] for y in data.train_y] == ["cattle", "beaver", "worm"]
    data = images.cifar_100_coarse(tmp_path)
    found = [data.classes[y] for y in data.train_y]
    assert found == ["large_omnivores_and_herbivores", "aquatic_mammals", "vehicles_2"]
    assert (len(images.CIFAR_100_FINE), len(images.CIFAR_100_COARSE)) == (100, 20)
    assert list(images.CIFAR_100_FINE) == sorted(images.CIFAR_100_FINE)


def test_cinic_10_from_folders_and_from_its_archive(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="PNG pictures need Pillow")
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for label, name in enumerate(images.CIFAR_10):
            for part in ("train", "valid", "test"):
                path = tmp_path / "cinic-10" / part / name / "n1.png"
                path.parent.mkdir(parents=True)
                image.fromarray(np.full((32, 32, 3), label + len(part), np.uint8)).save(path)
                archive.add(path, f"./{part}/{name}/n1.png")
    unpacked = images.cinic_10(tmp_path)
    np.testing.assert_array_equal(unpacked.train_x[:, 0, 0, 0], np.arange(10) + 5)
    np.testing.assert_array_equal(unpacked.test_x[:, 0, 0, 0], np.arange(10) + 4)
    other = tmp_path / "other/cinic-10"
    other.mkdir(parents=True)
    (other / "CINIC-10.tar.gz").write_bytes(buffer.getvalue())
    packed = images.cinic_10(other.parent)
    for name in ("train_x", "train_y", "test_x", "test_y"):
        np.testing.assert_array_equal(getattr(packed, name), getattr(unpacked, name), strict=True)
