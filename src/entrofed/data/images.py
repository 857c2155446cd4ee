"""The image datasets, from the files their authors published."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from entrofed.data.dataset import Dataset
from entrofed.data.readers import (
    Labels,
    Pixels,
    checked_labels,
    damaged,
    read_cifar,
    read_idx,
    read_picture_archive,
    read_picture_folders,
)

_CLOTHES = "T-shirt/top,Trouser,Pullover,Dress,Coat,Sandal,Shirt,Sneaker,Bag,Ankle boot"
_THINGS = "airplane automobile bird cat deer dog frog horse ship truck"
_COARSE = """
aquatic_mammals fish flowers food_containers fruit_and_vegetables household_electrical_devices
household_furniture insects large_carnivores large_man-made_outdoor_things large_natural_outdoor_scenes
large_omnivores_and_herbivores medium_mammals non-insect_invertebrates people reptiles small_mammals trees
vehicles_1 vehicles_2
"""
_FINE = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can
castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin
elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster
man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck
pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk
skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank telephone television tiger
tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""
DIGITS = tuple("0123456789")
CLOTHES = tuple(_CLOTHES.split(","))
CIFAR_10 = tuple(_THINGS.split())
CIFAR_100_COARSE = tuple(_COARSE.split())
CIFAR_100_FINE = tuple(_FINE.split())


def mnist(directory: Path) -> Dataset:
    """MNIST: 28x28 handwritten digits."""
    folder = directory / "mnist"
    return Dataset("mnist", "image", *_idx(folder, "train", 10), *_idx(folder, "t10k", 10), DIGITS)


def mnist_writers(directory: Path) -> Dataset:
    """MNIST with the writer of each digit, from the labels of QMNIST, as natural owners.

    A row of those is the digit, the series, the writer, and five numbers more; their test part goes on after MNIST's.
    """
    data, folder = mnist(directory), directory / "mnist-writers"
    for part, y in (("train", data.train_y), ("test", data.test_y)):
        path = folder / f"qmnist-{part}-labels-idx2-int.gz"
        rows = read_idx(path, 2, "i4")
        if rows.shape[1] < 3 or len(rows) < len(y) or (rows[: len(y), 0] != y).any():
            raise damaged(path, f"the first column starts with the {len(y):,} labels of MNIST", "others")
        if part == "train":
            writers, roles = np.unique(rows[: len(y), 2], return_inverse=True)
    names = tuple(f"writer {number}" for number in writers)
    return replace(data, name="mnist-writers", roles=roles.astype(np.int64), role_names=names)


def fashion_mnist(directory: Path) -> Dataset:
    """Fashion-MNIST: 28x28 pictures of clothes."""
    folder = directory / "fashion-mnist"
    return Dataset("fashion-mnist", "image", *_idx(folder, "train", 10), *_idx(folder, "t10k", 10), CLOTHES)


def emnist_digits(directory: Path) -> Dataset:
    """EMNIST digits; the files store columns as rows, so every picture is transposed to stand upright."""
    folder = directory / "emnist-digits"
    train_x, train_y = _idx(folder, "emnist-digits-train", 10)
    test_x, test_y = _idx(folder, "emnist-digits-test", 10)
    upright = [np.ascontiguousarray(x.swapaxes(2, 3)) for x in (train_x, test_x)]
    return Dataset("emnist-digits", "image", upright[0], train_y, upright[1], test_y, DIGITS)


def _idx(folder: Path, prefix: str, classes: int) -> tuple[Pixels, Labels]:
    images, labels = folder / f"{prefix}-images-idx3-ubyte.gz", folder / f"{prefix}-labels-idx1-ubyte.gz"
    x, y = read_idx(images, 3), checked_labels(labels, read_idx(labels, 1), classes)
    if x.shape[1:] != (28, 28):
        raise damaged(images, "images are 28x28", "x".join(map(str, x.shape[1:])))
    if len(x) != len(y):
        raise damaged(labels, f"each of the {len(x):,} images has a label", f"{len(y):,} labels")
    return x[:, None], y


def cifar_10(directory: Path) -> Dataset:
    """CIFAR-10: 32x32 colour pictures of 10 things."""
    folder = directory / "cifar-10-batches-bin"
    batches = [read_cifar(folder / f"data_batch_{i}.bin", (10,)) for i in range(1, 6)]
    train_x, train_y = np.concatenate([x for x, _ in batches]), np.concatenate([y for _, (y,) in batches])
    test_x, (test_y,) = read_cifar(folder / "test_batch.bin", (10,))
    return Dataset("cifar-10", "image", train_x, train_y, test_x, test_y, CIFAR_10)


def cifar_100(directory: Path) -> Dataset:
    """CIFAR-100 with its 100 fine classes."""
    return _cifar_100("cifar-100", directory, 1, CIFAR_100_FINE)


def cifar_100_coarse(directory: Path) -> Dataset:
    """CIFAR-100 with its 20 superclasses."""
    return _cifar_100("cifar-100-coarse", directory, 0, CIFAR_100_COARSE)


def _cifar_100(name: str, directory: Path, label: int, classes: tuple[str, ...]) -> Dataset:
    folder = directory / "cifar-100-binary"
    train_x, train_y = read_cifar(folder / "train.bin", (20, 100))
    test_x, test_y = read_cifar(folder / "test.bin", (20, 100))
    return Dataset(name, "image", train_x, train_y[label], test_x, test_y[label], classes)


def cinic_10(directory: Path) -> Dataset:
    """CINIC-10: CIFAR-10 and shrunk ImageNet pictures of the same things; its train and its test part.

    Read straight from ``cinic-10/CINIC-10.tar.gz`` if it is there, else from the unpacked folders
    ``cinic-10/train`` and ``cinic-10/test``. The pictures are PNG and need Pillow.
    """
    folder = directory / "cinic-10"
    archive = folder / "CINIC-10.tar.gz"
    if archive.exists():
        parts = read_picture_archive(archive, ("train", "test"), CIFAR_10)
    else:
        parts = {part: read_picture_folders(folder / part, CIFAR_10) for part in ("train", "test")}
    return Dataset("cinic-10", "image", *parts["train"], *parts["test"], CIFAR_10)
