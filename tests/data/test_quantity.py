"""Clients of unequal size. That shards are disjoint and complete is tested with all partitions."""

from typing import Any

import numpy as np
import pytest
from numpy.random import default_rng

from entrofed.data.partition import label_counts
from entrofed.data.quantity import label_and_quantity, quantity
from entrofed.errors import ConfigError

TEN = np.repeat(np.arange(10), 600)


class Fixed:
    """A generator whose Dirichlet draw is known, and that shuffles nothing."""

    def dirichlet(self, alpha: np.ndarray, rows: int) -> np.ndarray:
        return np.tile([0.5, 0.29, 0.21], (rows, 1))

    def normal(self, size: int) -> np.ndarray:
        return np.log([2.0, 1.0, 1.0])

    def permutation(self, n: int) -> np.ndarray:
        return np.arange(n)


@pytest.mark.parametrize(("options", "sizes"), [({"alpha": 1.0}, [5, 2, 3]), ({"sigma": 2.0}, [6, 2, 2])])
def test_by_hand(options: dict[str, Any], sizes: list[int]) -> None:
    # cuts at floor(10 cumsum): 5, 7 (of 7.9), 10; sigma = 2 makes shares of 4 : 1 : 1, cuts 6 (of 6.67), 8 (of 8.33)
    shards = quantity(np.zeros(10, np.int64), 3, Fixed(), min_size=0, **options)  # type: ignore[arg-type]
    assert [len(shard) for shard in shards] == sizes
    assert np.concatenate(shards).tolist() == list(range(10))


@pytest.mark.parametrize("options", [{"alpha": 0.5}, {"sigma": 1.0}])
def test_sizes_differ_and_labels_do_not(options: dict[str, float]) -> None:
    counts = label_counts(TEN, quantity(TEN, 20, default_rng(0), **options), 10)
    sizes = counts.sum(axis=1)
    assert sizes.max() > 5 * sizes.min() >= 50
    expected = sizes[:, None] / 10
    chi = ((counts - expected) ** 2 / expected).sum()
    assert chi < 230  # 171 degrees of freedom, 99.8 %


def test_the_spread_of_log_normal_sizes_is_sigma() -> None:
    sizes = [len(shard) for shard in quantity(np.zeros(10**6, np.int64), 2000, default_rng(0), sigma=0.7)]
    assert np.log(sizes).std() == pytest.approx(0.7, abs=0.04)


def test_sizes_and_labels_differ_together() -> None:
    alone = [len(shard) for shard in quantity(TEN, 20, default_rng(1), alpha=1.0)]
    counts = label_counts(TEN, label_and_quantity(TEN, 20, default_rng(1), alphas=(0.1, 1.0)), 10)
    assert counts.sum(axis=1).tolist() == alone  # the sizes are drawn first, and kept
    assert (counts > 0).sum(axis=1).mean() < 5
    even = label_counts(TEN, label_and_quantity(TEN, 20, default_rng(1), alphas=(1e6, 1.0)), 10)
    assert even.sum(axis=1).tolist() == alone
    assert np.median((even > 0).sum(axis=1)) == 10  # the last ones take what is left


def test_late_clients_take_what_is_left() -> None:
    labels = np.array([0] * 9 + [1])
    for seed in range(20):  # every client wants one label only, and all sizes are about three
        shards = label_and_quantity(labels, 3, default_rng(seed), alphas=(1e-9, 1e9), min_size=1)
        assert sorted(len(shard) for shard in shards) in ([3, 3, 4], [2, 4, 4])
        counts = label_counts(labels, shards, 2)
        assert (counts[:, 0] > 0).sum() >= 2


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "either alpha or sigma, found alpha = None and sigma = None"),
        ({"alpha": 1.0, "sigma": 1.0}, "either alpha or sigma"),
        ({"alpha": 0.0}, "alpha must be positive and finite, not 0"),
        ({"sigma": -1.0}, "sigma must be positive and finite, not -1"),
        ({"alpha": 1.0, "min_size": 601}, "10 clients cannot have min_size = 601 samples each: there are 6000"),
        ({"alpha": 1.0, "min_size": -1}, "min_size must be at least 0"),
        (
            {"alpha": 0.01, "min_size": 500, "max_tries": 3},
            "min_size = 500 samples in max_tries = 3; choose more equal",
        ),
    ],
)
def test_bad_quantities(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        quantity(TEN, 10, default_rng(0), **options)


@pytest.mark.parametrize("alphas", [(1.0,), (0.0, 1.0), (1.0, 0.0), (np.nan, 1.0)])
def test_bad_alphas(alphas: Any) -> None:
    with pytest.raises(ConfigError, match="alpha"):
        label_and_quantity(TEN, 10, default_rng(0), alphas=alphas)
