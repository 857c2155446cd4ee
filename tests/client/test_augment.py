"""Augmentations against the same changes made one image at a time."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.client import augment
from entrofed.client.augment import AUGMENTS, BORDER, GRAY_SHARE, LUMA, NEED_COLOUR, STRENGTH

SEED = 11


def rng() -> np.random.Generator:
    return np.random.default_rng(SEED)


def pictures(n: int = 64, height: int = 7, width: int = 6, channels: int = 3) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).random((n, height, width, channels), np.float32))


unit = st.floats(0, 1, width=32)
batches = st.tuples(st.integers(1, 4), st.integers(1, 6), st.integers(1, 6)).flatmap(
    lambda shape: arrays(np.float32, (*shape, 3), elements=unit)
)


@pytest.mark.parametrize("name", AUGMENTS)
@settings(deadline=None, max_examples=50)
@given(batches, st.integers(0, 2**32))
def test_shape_range_and_inputs(name: str, x: np.ndarray, seed: int) -> None:
    before = x.copy()
    y = AUGMENTS[name](torch.from_numpy(x), np.random.default_rng(seed))
    assert y.shape == x.shape
    assert y.dtype == torch.float32
    assert float(y.min()) >= 0
    assert float(y.max()) <= 1
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("name", AUGMENTS)
def test_decided_by_the_generator_alone(name: str) -> None:
    x = pictures()
    first = AUGMENTS[name](x, rng())
    torch.manual_seed(1)
    assert torch.equal(AUGMENTS[name](x, rng()), first)
    assert not torch.equal(AUGMENTS[name](x, np.random.default_rng(SEED + 1)), first)


@pytest.mark.parametrize("name", sorted(AUGMENTS.keys() - NEED_COLOUR))
def test_grey_pictures_are_taken_too(name: str) -> None:
    x = pictures(channels=1)
    assert AUGMENTS[name](x, rng()).shape == x.shape


def test_flip_mirrors_exactly_the_drawn() -> None:
    x = pictures()
    y = augment.flip(x, rng()).numpy()
    drawn = rng().random(64) < 0.5
    assert 0 < drawn.sum() < 64
    for image, flipped, mirrored in zip(x.numpy(), y, drawn, strict=True):
        np.testing.assert_array_equal(flipped, image[:, ::-1] if mirrored else image)


def test_crop_only_shifts() -> None:
    x = pictures().numpy()
    y = augment.crop(torch.from_numpy(x), rng()).numpy()
    down, right = rng().integers(0, 2 * BORDER + 1, size=(2, 64)) - BORDER
    assert (down.min(), down.max(), right.min(), right.max()) == (-BORDER, BORDER, -BORDER, BORDER)
    n, height, width, _ = x.shape
    expected = np.zeros_like(x)
    for i in range(n):
        for row in range(height):
            for column in range(width):
                a, b = row + down[i], column + right[i]
                if 0 <= a < height and 0 <= b < width:
                    expected[i, row, column] = x[i, a, b]
    np.testing.assert_array_equal(y, expected)


def test_gray_takes_the_colour_out_of_the_drawn() -> None:
    x = pictures()
    y = augment.gray(x, rng()).numpy()
    drawn = rng().random(64) < GRAY_SHARE
    assert 0 < drawn.sum() < 64
    np.testing.assert_array_equal(y[~drawn], x.numpy()[~drawn])
    for image, original in zip(y[drawn], x.numpy()[drawn].astype(np.float64), strict=True):
        np.testing.assert_array_equal(image[..., 0], image[..., 1])
        np.testing.assert_array_equal(image[..., 0], image[..., 2])
        red, green, blue = original[..., 0], original[..., 1], original[..., 2]
        np.testing.assert_allclose(image[..., 0], 0.299 * red + 0.587 * green + 0.114 * blue, rtol=1e-6)


def test_gray_leaves_gray_gray() -> None:
    x = pictures(channels=1).expand(-1, -1, -1, 3)
    np.testing.assert_allclose(augment.gray(x, rng()), x, rtol=1e-6)


def test_neutral_jitter_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(augment, "STRENGTH", 0.0)
    x = pictures()
    np.testing.assert_allclose(augment.jitter(x, rng()), x, rtol=0, atol=5e-7)


TO_YIQ = np.array([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])


def plain_jitter(image: np.ndarray, brightness: float, contrast: float, saturation: float, turn: float) -> np.ndarray:
    """The four changes one after the other on one float64 image; ``turn`` in full circles."""
    luma = image @ LUMA
    image = saturation * image + (1 - saturation) * luma[..., None]
    y, i, q = np.moveaxis(image @ TO_YIQ.T, -1, 0)
    chroma = (i + 1j * q) * np.exp(2j * np.pi * turn)
    image = np.linalg.solve(TO_YIQ, np.stack([y, chroma.real, chroma.imag]).reshape(3, -1)).T.reshape(image.shape)
    image = brightness * image
    image = contrast * image + (1 - contrast) * (image @ LUMA).mean()
    return np.clip(image, 0, 1)


@pytest.mark.parametrize(("side", "together"), [(4, True), (3, False)])  # 16 pixels, changed four at a time, and 9
def test_jitter_is_the_plain_one(side: int, together: bool) -> None:
    assert (side**2 % augment.TOGETHER == 0) is together
    x = pictures(height=side, width=side)
    y = augment.jitter(x, rng()).numpy()
    draws = rng()
    factors = draws.uniform(1 - STRENGTH, 1 + STRENGTH, size=(3, 64))
    turns = draws.uniform(-STRENGTH, STRENGTH, size=64)
    for k in range(64):
        expected = plain_jitter(x[k].double().numpy(), *factors[:, k], turns[k])
        np.testing.assert_allclose(y[k], expected, rtol=0, atol=2e-6)
    assert (y == 0).any()  # clipping is at work
    assert (y == 1).any()


def test_jitter_on_a_uniform_grey_changes_brightness_only() -> None:
    x = torch.full((16, 2, 2, 3), 0.5)
    brightness = rng().uniform(1 - STRENGTH, 1 + STRENGTH, size=(3, 16))[0]
    y = augment.jitter(x, rng()).numpy()
    np.testing.assert_allclose(y, np.broadcast_to(0.5 * brightness[:, None, None, None], y.shape), rtol=2e-6)


def test_names() -> None:
    assert {name: change.__name__ for name, change in AUGMENTS.items()} == {name: name for name in AUGMENTS}
    assert AUGMENTS.keys() >= NEED_COLOUR
