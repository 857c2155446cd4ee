"""Datasets as objects: torch's, Hugging Face's (a stand-in that does what theirs does, and theirs if installed)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import Subset, TensorDataset

from entrofed.data.objects import labelled
from entrofed.data.own import dataset_of, dataset_of_clients
from entrofed.errors import DataError

X = np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32)
PIXELS = np.random.default_rng(0).integers(0, 256, (6, 4, 4, 3), dtype=np.uint8)


class Pairs:
    """A map-style dataset in plain Python."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, i: int) -> Any:
        found = self.items[i]
        if isinstance(found, Exception):
            raise found
        return found


class ClassLabel:
    def __init__(self, *names: str) -> None:
        self.names = list(names)


class Table:
    """What EntroFed asks of a Hugging Face dataset."""

    def __init__(self, columns: dict[str, Any], labels: dict[str, ClassLabel] | None = None) -> None:
        self._columns, self._labels = columns, labels or {}

    @property
    def column_names(self) -> list[str]:
        return list(self._columns)

    @property
    def features(self) -> dict[str, Any]:
        return {name: self._labels.get(name, "a type") for name in self._columns}

    def select_columns(self, names: list[str]) -> "Table":
        return Table({name: self._columns[name] for name in names}, self._labels)

    def with_format(self, kind: str) -> dict[Any, Any] | Any:
        assert kind == "numpy"
        columns = {name: np.asarray(column) for name, column in self._columns.items()}

        class Formatted:
            def __getitem__(self, rows: slice) -> dict[str, Any]:
                return {name: column[rows] for name, column in columns.items()}

        return Formatted()


@pytest.mark.parametrize(
    "y", [[0, 1] * 3, [torch.tensor(k % 2) for k in range(6)], [np.int64(k % 2) for k in range(6)], list("ababab")]
)
def test_map_style_datasets(y: list[Any]) -> None:
    found = labelled(Pairs([(torch.tensor(x), label) for x, label in zip(X, y, strict=True)]), None, "it")
    np.testing.assert_array_equal(found.x, X)
    assert len(set(found.y.tolist())) == 2


def test_datasets_of_torch() -> None:
    whole = TensorDataset(torch.tensor(X), torch.tensor([0, 1] * 3))
    np.testing.assert_array_equal(labelled(whole, None, "it").x, X)
    np.testing.assert_array_equal(labelled(Subset(whole, [4, 1]), None, "it").x, X[[4, 1]])
    data = dataset_of(whole, test=Subset(whole, [0, 1]))
    assert (data.kind, data.classes, data.test_y.tolist()) == ("table", ("0", "1"), [0, 1])


def test_pictures_as_items() -> None:
    pillow = pytest.importorskip("PIL.Image")
    data = dataset_of(Pairs([(pillow.fromarray(p), k % 2) for k, p in enumerate(PIXELS)]), test=0.4)
    assert (data.kind, data.train_x.shape[1:], data.train_x.dtype) == ("image", (3, 4, 4), np.uint8)


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([(X[0], 0), RuntimeError("disk gone")], "it: sample 1 cannot be read: RuntimeError: disk gone"),
        ([(X[0], 0), X[1]], r"it: item 1 of Pairs must be \(x, y\), found ndarray"),
        ([{"x": X[0], "y": 0}], r"item 0 of Pairs must be \(x, y\), found dict"),
        ([(X[0], 0), (X[1, :2], 1)], r"sample 0 has \(3,\), sample 1 \(2,\)"),
        ([(X[0], 0), (X[1], "a")], "labels must be of one type, found int and str"),
        ([(X[0], 0), (X[1], [1, 2])], "labels must be of one type, found int and list"),
    ],
)
def test_bad_items(items: list[Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        labelled(Pairs(items), None, "it")


@pytest.mark.parametrize("thing", [3, "visits.csv", None, iter([(1, 2)]), X])
def test_what_is_no_dataset(thing: Any) -> None:
    with pytest.raises(DataError, match=r"it: (expected arrays|sample 0 cannot be read|item 0)"):
        labelled(thing, None, "it")


def test_a_part_of_several_must_be_chosen() -> None:
    with pytest.raises(DataError, match=r"found dict; choose one of its parts: 'train', 'test'"):
        labelled({"train": Pairs([]), "test": Pairs([])}, None, "it")


def test_hugging_face_by_type_and_by_name() -> None:
    images = Table({"img": PIXELS, "fine": [2, 0] * 3, "id": list(range(6))}, {"fine": ClassLabel("cat", "dog", "fox")})
    data = dataset_of(images, test=images)
    assert (data.kind, data.classes, data.train_y.tolist()) == ("image", ("cat", "dog", "fox"), [2, 0] * 3)
    table = Table({"age": [1, 2, 3], "weight": [0.5, 1.5, 2.5], "label": ["ill", "well", "ill"]})
    np.testing.assert_array_equal(labelled(table, None, "it").x, [[1, 0.5], [2, 1.5], [3, 2.5]])
    assert labelled(Table({"age": [1, 2, 3], "y": [0, 1, 0]}), None, "it").x.shape == (3, 1)
    tokens = Table({"attention_mask": [[1, 1]] * 2, "input_ids": [[5, 6], [7, 8]], "labels": [0, 1]})
    assert dataset_of(tokens, test=tokens).kind == "text"


def test_partitions_of_a_hugging_face_dataset() -> None:
    names = {"label": ClassLabel("no", "yes", "maybe")}
    parts = [Table({"x": X[rows], "label": np.arange(6)[rows] % 2}, names) for rows in (slice(4), slice(4, 6))]
    data = dataset_of_clients(parts, test=parts[0])
    assert (data.classes, data.role_names) == (("no", "yes", "maybe"), ("0", "1"))
    np.testing.assert_array_equal(data.train_x, X)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (lambda: Table({"a": [1], "b": [2]}), "which of the columns a, b is the label.*rename_column"),
        (
            lambda: Table({"x": np.array([[1, 2], [3]], object), "y": [0, 1]}),
            "it, x: samples must all have the same shape; resize, pad or cut them",
        ),
        (lambda: Table({"label": [1]}), "no column besides the label 'label'"),
        (
            lambda: Table({"a": [1, 2], "text": ["x", "y"], "label": [0, 1]}),
            "columns a, text cannot be one table, for 'text' holds text; .*select_columns",
        ),
        (
            lambda: Table({"x": X[:2], "label": [0, -1]}, {"label": ClassLabel("a")}),
            r"label of sample 1 is missing \(-1\)",
        ),
    ],
)
def test_bad_hugging_face_datasets(table: Callable[[], Table], said: str) -> None:
    with pytest.raises(DataError, match=said):
        labelled(table(), None, "it")


@pytest.mark.filterwarnings("ignore")  # theirs
def test_the_real_ones() -> None:
    datasets = pytest.importorskip("datasets")
    names = datasets.ClassLabel(names=["no", "yes"])
    table = datasets.Dataset.from_dict(
        {"a": [1.0, 2.0, 3.0], "b": [4, 5, 6], "label": [0, 1, 0]},
        features=datasets.Features({"a": datasets.Value("float32"), "b": datasets.Value("int64"), "label": names}),
    )
    found = labelled(table, None, "it")
    np.testing.assert_array_equal(found.x, [[1, 4], [2, 5], [3, 6]])
    assert (found.y.tolist(), found.classes) == (["no", "yes", "no"], ("no", "yes"))
    images = datasets.Dataset.from_dict(
        {"image": list(PIXELS), "label": [0, 1] * 3},
        features=datasets.Features({"image": datasets.Array3D((4, 4, 3), "uint8"), "label": names}),
    )
    np.testing.assert_array_equal(labelled(images, None, "it").x, PIXELS)
