"""Feature shift: what becomes of the samples of each client."""

from typing import Any

import numpy as np
import pytest

from entrofed.data.federation import Federation
from entrofed.errors import ConfigError

RNG = np.random.default_rng(0)
Y = np.arange(400) % 4
IMAGES = RNG.integers(0, 256, (400, 1, 6, 6), dtype=np.uint8)
TABLE = RNG.normal(size=(400, 30)) * np.linspace(1, 50, 30)


def of(x: np.ndarray, partition: str, **options: Any) -> Federation:
    return Federation.partition(x, Y, partition, **{"clients": 4, "test": (x[:8], Y[:8]), **options})


def test_noise_grows_with_the_number_of_the_client() -> None:
    federation = of(IMAGES, "feature_noise", sigma=0.08)
    assert federation.data.train_x.dtype == np.float32
    noise = (federation.data.train_x - IMAGES) / 255  # pixels in 0..1
    for k, rows in enumerate(federation.shards):
        assert noise[rows].var() == pytest.approx(0.08 * (k + 1) / 4, rel=0.1)
        assert abs(noise[rows].mean()) < 0.02
    assert federation.feature_shift is not None
    assert federation.feature_shift.amounts == pytest.approx((0.02, 0.04, 0.06, 0.08))
    np.testing.assert_array_equal(federation.data.test_x, IMAGES[:8])  # the server's stays as it is
    assert np.ptp(federation.label_counts) < 25


def test_noise_in_a_table_is_in_units_of_each_feature() -> None:
    federation = of(TABLE, "feature_noise", sigma=1.0)
    rows = federation.shards[3]
    noise = (federation.data.train_x[rows] - TABLE[rows]) / TABLE.std(0)
    assert noise.var() == pytest.approx(1.0, rel=0.1)
    assert federation.scale == pytest.approx(federation.data.train_x.std(0), rel=1e-5)  # of what the clients hold


def test_noise_is_the_seeds() -> None:
    one, again, other = (of(TABLE, "feature_noise", sigma=1.0, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.data.train_x, again.data.train_x)
    assert not np.array_equal(one.data.train_x, other.data.train_x)


def test_quarter_turns_by_hand() -> None:
    x = np.tile(np.arange(36, dtype=np.uint8).reshape(1, 1, 6, 6), (400, 1, 1, 1))
    federation = of(x, "rotation", holdout=0.2)
    first = [federation.data.train_x[rows[0], 0] for rows in federation.shards]
    picture = x[0, 0]
    np.testing.assert_array_equal(first[0], picture)
    assert first[1][0].tolist() == picture[:, 5].tolist()  # counterclockwise: the right edge comes up
    assert first[2][0].tolist() == picture[5, ::-1].tolist()
    assert first[3][0].tolist() == picture[::-1, 0].tolist()
    held = federation.data.train_x[federation.holdouts[2][0], 0]
    np.testing.assert_array_equal(held, first[2])  # a client's own test set is turned, too
    assert federation.data.train_x.dtype == np.uint8
    assert federation.feature_shift is not None
    assert federation.feature_shift.amounts == (0.0, 90.0, 180.0, 270.0)


def test_other_angles() -> None:
    x = np.zeros((400, 1, 9, 9), np.uint8)
    x[:, 0, 4, 7] = 200  # right of the centre
    turned = of(x, "rotation", angles=(0, 45, 89.999999)).data
    federation = of(x, "rotation", angles=(0, 45, 89.999999))
    assert federation.feature_shift is not None
    assert federation.feature_shift.amounts == (0.0, 45.0, 89.999999, 0.0)
    right, slanted, up = (turned.train_x[federation.shards[k][0], 0] for k in range(3))
    assert np.unravel_index(right.argmax(), (9, 9)) == (4, 7)
    assert np.unravel_index(slanted.argmax(), (9, 9)) == (2, 6)
    assert np.unravel_index(up.argmax(), (9, 9)) == (1, 4)
    shares = of(x / 255, "rotation", angles=(45,)).data.train_x
    assert shares.dtype == np.float32
    assert 0 <= shares.min() < shares.max() <= 200 / 255


@pytest.mark.parametrize(
    ("x", "partition", "options", "said"),
    [
        (TABLE, "rotation", {}, "'rotation' is for images; 'own' holds none"),
        (np.zeros((400, 1, 6, 8)), "rotation", {}, "needs square images, not 6x8"),
        (IMAGES, "rotation", {"angles": ()}, "angles must be one or more numbers of degrees"),
        (IMAGES, "rotation", {"angles": (np.nan,)}, "angles must be one or more numbers of degrees"),
        (IMAGES, "feature_noise", {"sigma": 0.0}, "sigma must be positive and finite, not 0"),
        (IMAGES, "feature_noise", {}, "partition 'feature_noise' needs sigma"),
        (np.arange(800).reshape(400, 2), "feature_noise", {"sigma": 1.0, "kind": "text"}, "for images and numbers"),
    ],
)
def test_bad_shifts(x: np.ndarray, partition: str, options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        of(x, partition, **options)


def test_half_turns_of_oblong_images() -> None:
    x = RNG.integers(0, 256, (400, 1, 2, 3), dtype=np.uint8)
    federation = of(x, "rotation", angles=(0, 180))
    rows = federation.shards[1]
    np.testing.assert_array_equal(federation.data.train_x[rows], x[rows][:, :, ::-1, ::-1])
