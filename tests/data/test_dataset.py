"""Scaling against the same statistics computed the plain way."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.data.dataset import SCALINGS, Dataset, scaling
from entrofed.errors import ConfigError


def dataset(kind: str, x: np.ndarray, full_scale: float = 255.0) -> Dataset:
    y = np.zeros(len(x), np.int64)
    return Dataset("toy", kind, x, y, x[:0], y[:0], ("a",), full_scale=full_scale)  # type: ignore[arg-type]


@settings(deadline=None, max_examples=50)
@given(
    arrays(np.uint8, st.tuples(st.integers(1, 5), st.sampled_from([1, 3]), st.just(4), st.just(4))),
    st.sampled_from([16.0, 255.0]),
)
def test_standard_images(x: np.ndarray, full_scale: float) -> None:
    shift, scale = scaling(dataset("image", x, full_scale), "standard")
    plain = x.astype(np.float64) / full_scale
    np.testing.assert_allclose(shift, plain.mean((0, 2, 3)), rtol=1e-6, atol=1e-12)
    deviation = plain.std((0, 2, 3))
    np.testing.assert_allclose(scale, np.where(np.ptp(x, axis=(0, 2, 3)) == 0, 1, deviation), rtol=1e-6)
    assert shift.dtype == scale.dtype == np.float32
    assert shift.shape == scale.shape == x.shape[1:2]


def test_images_are_counted_in_pieces() -> None:
    x = np.random.default_rng(0).integers(256, size=(9000, 1, 2, 2), dtype=np.uint8)
    shift, scale = scaling(dataset("image", x), "standard")
    np.testing.assert_allclose((shift[0], scale[0]), ((x / 255).mean(), (x / 255).std()), rtol=1e-6)


def test_standard_tables() -> None:
    x = np.array([[1, 5, 0.1], [2, 5, 0.1], [6, 5, 0.1]], np.float32)
    shift, scale = scaling(dataset("table", x), "standard")
    np.testing.assert_allclose(shift, [3, 5, 0.1], rtol=1e-6)
    np.testing.assert_allclose(scale, [np.sqrt(14 / 3), 1, 1], rtol=1e-6)


def test_minmax_tables() -> None:
    x = np.array([[1, 5], [2, 5], [6, 5]], np.float32)
    shift, scale = scaling(dataset("table", x), "minmax")
    assert (shift.tolist(), scale.tolist()) == ([1, 5], [5, 1])
    assert ((x - shift) / scale)[:, 0].tolist() == pytest.approx([0, 0.2, 1])


@settings(max_examples=50)
@given(arrays(np.float32, (5, 3, 4, 4), elements=st.floats(0, 1, width=32)), st.sampled_from([1.0, 255.0]))
def test_standard_images_of_numbers(x: np.ndarray, full_scale: float) -> None:
    shift, scale = scaling(dataset("image", x, full_scale), "standard")
    plain = x.astype(np.float64) / full_scale
    np.testing.assert_allclose(shift, plain.mean((0, 2, 3)), rtol=1e-5, atol=1e-9)
    constant = x.min((0, 2, 3)) == x.max((0, 2, 3))  # plain.std() may be off by rounding
    np.testing.assert_allclose(scale, np.where(constant, 1, plain.std((0, 2, 3))), rtol=1e-5, atol=1e-9)


def test_fixed_scalings() -> None:
    image = dataset("image", np.zeros((2, 3, 4, 4), np.uint8))
    for how, shift, scale in (("half", 0.5, 0.5), ("unit", 0, 1)):
        found = scaling(image, how)
        np.testing.assert_array_equal(found, [[shift] * 3, [scale] * 3])
    np.testing.assert_array_equal(scaling(dataset("table", np.ones((2, 2), np.float32)), "unit"), [[0, 0], [1, 1]])


@pytest.mark.parametrize("how", SCALINGS)
def test_text_and_tensors_are_never_scaled(how: str) -> None:
    np.testing.assert_array_equal(scaling(dataset("text", np.zeros((2, 80), np.uint8)), how), [[0], [1]])
    np.testing.assert_array_equal(scaling(dataset("tensor", np.ones((2, 80, 3), np.float32)), how), [[0], [1]])


def test_refusals() -> None:
    table = dataset("table", np.ones((2, 2), np.float32))
    with pytest.raises(ConfigError, match=r"'half' is for images.* toy is a table"):
        scaling(table, "half")
    with pytest.raises(ConfigError, match=r"'minmax' is for tables; toy holds images"):
        scaling(dataset("image", np.zeros((2, 1, 2, 2), np.uint8)), "minmax")
    with pytest.raises(ConfigError, match="did you mean 'standard'"):
        scaling(table, "standart")
