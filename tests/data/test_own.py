"""Own arrays: which kind they are, how labels become classes, what is for testing, and what is refused."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.data.own import dataset_of, dataset_of_clients, stratified_rows
from entrofed.errors import ConfigError, DataError

RNG = np.random.default_rng(0)
TABLE = RNG.normal(size=(12, 3))
Y = np.arange(12) % 3


def of(x: Any, y: Any = None, **options: Any) -> Any:
    y = np.arange(len(x)) % 2 if y is None else y
    return dataset_of(x, y, **{"test": (x, y), **options})


@pytest.mark.parametrize(
    ("shape", "kind", "stored"),
    [
        ((6, 8, 8), "image", (1, 8, 8)),
        ((6, 8, 8, 3), "image", (3, 8, 8)),
        ((6, 3, 8, 8), "image", (3, 8, 8)),
        ((6, 1, 8, 8), "image", (1, 8, 8)),
        ((6, 9, 7, 4), "image", (4, 9, 7)),
        ((6, 8, 8, 8), "tensor", (8, 8, 8)),
        ((6, 2, 3, 8, 8), "tensor", (2, 3, 8, 8)),
        ((6, 5), "table", (5,)),
    ],
)
@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.float64])
def test_the_kind_follows_from_the_shape(
    shape: tuple[int, ...], kind: str, stored: tuple[int, ...], dtype: type[Any]
) -> None:
    data = of(RNG.integers(0, 256, shape).astype(dtype))
    assert (data.kind, data.train_x.shape[1:], data.test_x.shape[1:]) == (kind, stored, stored)
    expected = {"image": np.uint8, "table": np.float32, "tensor": np.float32 if dtype is np.float64 else np.int64}
    assert data.train_x.dtype == data.test_x.dtype == expected[kind]
    assert data.train_x.flags.c_contiguous


def test_channels_move_to_the_front() -> None:
    x = RNG.integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    np.testing.assert_array_equal(of(x).train_x[2, 1], x[2, :, :, 1])
    np.testing.assert_array_equal(of(np.moveaxis(x, 3, 1)).train_x, of(x).train_x)
    satellite = of(RNG.integers(0, 256, (4, 32, 32, 13)), kind="image")  # only where it is said
    assert satellite.train_x.shape == (4, 13, 32, 32)


def test_pixels_in_other_units() -> None:
    whole = RNG.integers(0, 256, (4, 6, 6))
    bytes_, shares, between = of(whole.astype(np.float32)), of(whole / 255), of(whole / 2)
    assert (bytes_.full_scale, bytes_.train_x.dtype) == (255.0, np.uint8)
    np.testing.assert_array_equal(bytes_.train_x[:, 0], whole)
    assert (shares.full_scale, shares.train_x.dtype) == (1.0, np.float32)
    assert (between.full_scale, between.train_x.dtype) == (255.0, np.float32)
    standardized = of(whole / 255 - 0.5)
    assert standardized.kind == "tensor"  # already scaled: left as it is
    assert of(whole > 99).full_scale == 1.0


def test_text_and_tensors_where_they_are_asked_for() -> None:
    few, many = of(np.arange(12).reshape(6, 2), kind="text"), of(np.arange(400).reshape(200, 2), kind="text")
    assert (few.train_x.dtype, few.vocabulary) == (np.uint8, 12)
    assert (many.train_x.dtype, many.vocabulary) == (np.int64, 400)
    assert of(np.arange(12).reshape(6, 2)).kind == "table"
    assert of(TABLE, kind="tensor").train_x.dtype == np.float32


@pytest.mark.parametrize(
    ("y", "classes", "numbers"),
    [
        (["b", "a", "c", "a"], ("a", "b", "c"), [1, 0, 2, 0]),
        ([True, False, True, True], ("False", "True"), [1, 0, 1, 1]),
        ([7, -2, 7, 100], ("-2", "7", "100"), [1, 0, 1, 2]),
        ([10.0, 9.0, 10.0, 9.0], ("9", "10"), [1, 0, 1, 0]),
        (np.array([b"no", b"yes", b"no", b"no"]), ("no", "yes"), [0, 1, 0, 0]),
        (np.array(["x", "y", "x", "x"], object), ("x", "y"), [0, 1, 0, 0]),
        (np.array([3, 4, 3, 3], object), ("3", "4"), [0, 1, 0, 0]),
        (np.array([[3], [4], [3], [3]]), ("3", "4"), [0, 1, 0, 0]),
        (np.array([2, 9, 2, 2], np.uint8), ("2", "9"), [0, 1, 0, 0]),
        (torch.tensor([2, 9, 2, 2]), ("2", "9"), [0, 1, 0, 0]),
    ],
)
def test_labels_of_any_type_in_sorted_order(y: Any, classes: tuple[str, ...], numbers: list[int]) -> None:
    data = of(TABLE[:4], y)
    assert data.classes == classes
    assert data.train_y.tolist() == data.test_y.tolist() == numbers
    assert data.train_y.dtype == np.int64


@pytest.mark.parametrize(
    ("y", "names", "numbers"),
    [
        (["b", "a", "b"], ("b", "a", "z"), [0, 1, 0]),  # z has no samples
        ([0, 2, 0], ("zero", "one", "two"), [0, 2, 0]),
        ([1, 2, 1], ("1", "2", "3"), [0, 1, 0]),  # by name rather than by number
        ([True, False, True], ("True", "False"), [0, 1, 0]),
    ],
)
def test_named_classes(y: Any, names: tuple[str, ...], numbers: list[int]) -> None:
    data = of(TABLE[:3], y, classes=names)
    assert (data.classes, data.train_y.tolist()) == (names, numbers)


@pytest.mark.parametrize("make", [np.asarray, torch.tensor, np.ndarray.tolist])
def test_arrays_of_any_library(make: Any) -> None:
    np.testing.assert_array_equal(of(make(TABLE), make(Y)).train_x, TABLE.astype(np.float32))


def test_anything_that_says_it_is_an_array() -> None:
    class Column:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
            return TABLE

    assert of(Column(), Y).train_x.shape == (12, 3)


def test_arrays_are_copied() -> None:
    x = TABLE.astype(np.float32)
    data = dataset_of(x, Y, test=(x, Y))
    x[:] = 0
    np.testing.assert_array_equal(data.train_x, TABLE.astype(np.float32))


def test_a_validation_set_and_how_features_came_about() -> None:
    data = of(TABLE, Y, valid=(TABLE[:5], Y[:5]), preprocessing={"columns": ["age"]}, name="mine")
    assert (data.validation_size, data.preprocessing, data.name) == (5, {"columns": ["age"]}, "mine")


# The test part


@settings(max_examples=60)
@given(st.lists(st.integers(0, 4), min_size=4, max_size=80), st.floats(0.05, 0.9))
def test_every_class_gives_its_share_to_the_test_part(y: list[int], share: float) -> None:
    labels = np.array(y)
    counts = np.bincount(labels, minlength=5)
    if round(share * len(y)) == 0 or (counts <= 1).all():
        return
    try:
        rows = stratified_rows(labels, share)
    except DataError:
        assert (np.floor(share * counts) == 0).all()
        return
    assert (np.diff(rows) > 0).all()
    given_away = np.bincount(labels[rows], minlength=5)
    assert (np.abs(given_away - share * counts) <= 1).all()
    assert (given_away[counts > 0] < counts[counts > 0]).all()
    if (counts[counts > 0] > 1 / (1 - share)).all():
        assert len(rows) == round(share * len(y))


def test_rounding_never_leaves_the_test_part_empty_of_many_small_classes() -> None:
    assert len(stratified_rows(np.repeat(np.arange(50), 4), 0.1)) == 20  # each class alone would give 0.4 samples


def test_the_test_part_is_the_same_for_every_seed_and_belongs_to_nobody() -> None:
    owners = ["b", "a", "a", "b", "c", "c"] * 2
    data = dataset_of(TABLE, Y, test=0.25, owners=owners)
    rows = stratified_rows(Y, 0.25)
    assert len(rows) == 3
    np.testing.assert_array_equal(data.test_x, TABLE.astype(np.float32)[rows])
    kept = np.setdiff1d(np.arange(12), rows)
    np.testing.assert_array_equal(data.train_x, TABLE.astype(np.float32)[kept])
    assert data.role_names == ("a", "b", "c")
    assert data.roles is not None
    assert [data.role_names[role] for role in data.roles] == [owners[row] for row in kept]


# What is refused

NAN, INFINITE = TABLE.copy(), TABLE.copy()
NAN[7, 1], INFINITE[2, 0] = np.nan, np.inf
SCOPE = r"EntroFed does classification \(two or more classes\)"


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        (TABLE, RNG.normal(size=12), SCOPE + r"; found 12 different labels that are not whole, such as .*regression"),
        (TABLE, np.eye(12), SCOPE + r", with one label per sample; found an array of shape \(12, 12\).*argmax"),
        (TABLE, np.zeros(12), SCOPE + "; all 12 labels of the training part are '0'"),
        (np.ones((60, 2)), np.arange(60), SCOPE + "; y holds 60 different labels for 60 samples.*identifier"),
        (NAN, Y, r"training part, x: sample 7 holds nan \(at \[1\]\); values must be finite"),
        (INFINITE, Y, r"sample 2 holds inf"),
        (np.ma.masked_array(TABLE, TABLE > 1), Y, r"values are missing \(masked\)"),
        (TABLE, Y[:11], "x has 12 samples and y 11 labels"),
        (TABLE[:0], Y[:0], "the training part is empty"),
        ([], [], "the training part is empty"),
        (TABLE, [*Y[:11], np.nan], r"the label of sample 11 is missing \(nan\)"),
        (TABLE, np.array([*"abcabcabcab", None], object), r"the label of sample 11 is missing \(None\)"),
        (TABLE, np.array([*"abcabcabcab", 3], object), "labels must be of one type, found int and str"),
        (TABLE, np.full(12, 2**60, np.uint64), "too large for a label"),
        (TABLE, np.full(12, 1j), "labels are whole numbers, truth values or text, not complex128"),
        (np.array([["a", 1.0]] * 12, object), Y, "expected numbers, found a mixture of float and str; .*from_table"),
        (TABLE.astype(str), Y, "expected numbers, found text"),
        (TABLE * 1j, Y, "expected numbers, found complex numbers"),
        ([[1, 2], [3]] * 6, Y, "samples must all have the same shape"),
        (TABLE[:, 0], Y, r"a single number per sample; give a table of one column, x\.reshape\(-1, 1\)"),
        (TABLE[:, :0], Y, r"samples of shape \(0,\) hold nothing"),
        (TABLE * 1e300, Y, "too large for 32-bit numbers; scale the feature"),
        (3.0, 1, "one label per sample"),
    ],
)
def test_bad_samples_and_labels(x: Any, y: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        dataset_of(x, y, test=(TABLE, Y))


@pytest.mark.parametrize(
    ("test", "said"),
    [
        ((TABLE, Y + 1), "class '3' is in the test part .sample 2. and not in the training part.*leave out the class"),
        ((TABLE, Y.astype(str)), "labels of the training part are numbers, those of the test part text"),
        ((TABLE[:, :2], Y), r"samples of the test part have shape \(2,\), those of the training part \(3,\)"),
        ((NAN, Y), "the test part, x: sample 7 holds nan"),
        ((TABLE[:0], Y[:0]), "the test part is empty"),
        ((TABLE, Y[:3]), "the test part: x has 12 samples and y 3 labels"),
        (TABLE, "the test part: expected arrays .x, y., .*found ndarray"),
        (None, "the test part: expected arrays .*found NoneType"),
        (torch.utils.data.DataLoader([(1, 2)]), "found DataLoader; give its .dataset"),  # type: ignore[arg-type]
    ],
)
def test_bad_test_parts(test: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        dataset_of(TABLE, Y, test=test)


@pytest.mark.parametrize("share", [0, 1, 1.5, -0.1, True])
def test_bad_shares(share: float) -> None:
    with pytest.raises(ConfigError, match="lies between 0 and 1, for example"):
        dataset_of(TABLE, Y, test=share)


def test_samples_are_named_by_their_own_number_also_where_a_share_is_for_testing() -> None:
    with pytest.raises(DataError, match="the training part, x: sample 7 holds nan"):
        dataset_of(NAN, Y, test=0.5)


def test_a_share_of_nothing() -> None:
    with pytest.raises(DataError, match=r"test = 0\.01 of 12 samples leaves none for testing; raise the share"):
        dataset_of(TABLE, Y, test=0.01)


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"kind": "picture"}, ConfigError, "unknown kind 'picture'"),
        ({"kind": "image"}, DataError, r"an image has two or three dimensions, found samples of shape \(3,\)"),
        ({"kind": "text"}, DataError, "text is a row of token numbers per sample.*found float64"),
        ({"classes": ("a", "b")}, DataError, "label '0' is not one of classes = 'a', 'b'"),
        ({"classes": ("a", "a", "b")}, ConfigError, "names must differ"),
        ({"owners": ["a"]}, DataError, r"owners: expected one for each of 12 samples, found an array of shape \(1,\)"),
        ({"owners": Y, "owner_names": ("a", "b")}, DataError, r"owners are whole numbers in 0\.\.1"),
        ({"valid": (TABLE[:0], Y[:0])}, DataError, "the validation part is empty"),
    ],
)
def test_bad_options(options: dict[str, Any], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        dataset_of(TABLE, Y, test=(TABLE, Y), **options)


def test_images_must_be_images() -> None:
    x = RNG.random((12, 4, 4))
    with pytest.raises(DataError, match=r"pixels of the training part lie in 0\.\.1, those of the test part reach 255"):
        dataset_of(x, Y, test=(x * 0 + 255, Y))
    with pytest.raises(DataError, match=r"pixels lie in 0..1 or in 0..255, found -1 to .*kind='tensor'"):
        dataset_of(x * 0 - 1, Y, test=(x, Y), kind="image")
    with pytest.raises(DataError, match=r"a table has a row of features per sample, found samples of shape \(4, 4\)"):
        dataset_of(x, Y, test=(x, Y), kind="table")
    with pytest.raises(DataError, match=r"whole and from 0 on.* with -3"):
        dataset_of(np.full((12, 2), -3), Y, test=(TABLE[:, :2], Y), kind="text")


# Clients with their own data


def test_clients_one_after_the_other() -> None:
    parts = {"B": (TABLE[:5], Y[:5]), "none": (TABLE[:0], Y[:0]), "A": (TABLE[5:], Y[5:]), "last": ([], [])}
    data = dataset_of_clients(parts, test=(TABLE, Y))
    assert data.role_names == ("B", "none", "A", "last")
    assert data.roles is not None
    assert data.roles.tolist() == [0] * 5 + [2] * 7
    np.testing.assert_array_equal(data.train_x, TABLE.astype(np.float32))
    row = dataset_of_clients(list(parts.values()), test=(TABLE, Y))
    assert row.role_names == ("0", "1", "2", "3")
    assert replace(row, role_names=()).train_y.tolist() == data.train_y.tolist()


@pytest.mark.parametrize(
    ("clients", "said"),
    [
        ({}, "none of 0 clients has a sample"),
        ({"A": (TABLE[:0], Y[:0])}, "none of 1 clients has a sample"),
        ({"A": (TABLE, Y), "B": (TABLE[:, :2], Y)}, r"client 'B' has samples of shape \(2,\), client 'A' \(3,\)"),
        ({"A": (TABLE, Y), "B": (TABLE, Y.astype(str))}, "client 'B' has labels that are text, client 'A' numbers"),
        ({"A": (TABLE, Y), "B": (TABLE.astype(np.uint8), Y)}, "'B' has samples that are bytes, client 'A' no bytes"),
        ({"A": (TABLE, Y), "B": (NAN, Y)}, "client 'B', x: sample 7 holds nan"),
        ({"A": (TABLE, Y[:3])}, "client 'A': x has 12 samples and y 3 labels"),
        ({"A": (TABLE, Y), "B": TABLE}, r"client 'B': expected arrays \(x, y\)"),
        ((TABLE, Y), r"client '0': expected arrays \(x, y\)"),
        ({1: (TABLE, Y), "1": (TABLE, Y)}, "names that differ, found '1', '1'"),
    ],
)
def test_bad_clients(clients: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        dataset_of_clients(clients, test=(TABLE, Y))
