"""The public FedKLEntropy runs, drawn again."""

import os
from pathlib import Path

import numpy as np
import pytest

from entrofed.data.catalog import load
from entrofed.data.replay import fedklentropy_replay, replayed_cohorts
from entrofed.experiment.config import read

MNIST = (5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949)
RECORDED = {
    "mnist": (0.1, [(31, 46, 37, 6, 39), (8, 37, 5, 11, 27), (35, 17, 31, 44, 7)]),
    "fashion-mnist": (0.3, [(14, 49, 11, 1, 22), (13, 21, 14, 39, 26), (20, 48, 42, 18, 0)]),
}
EXAMPLE = Path(__file__).parents[2] / "examples" / "mnist-replay.toml"


def labels_of(name):
    return np.repeat(np.arange(10), MNIST if name == "mnist" else [6000] * 10)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_cohorts(name):
    """They depend on the class counts alone, so no dataset is needed."""
    alpha, cohorts = RECORDED[name]
    assert replayed_cohorts(labels_of(name), 50, alpha=alpha, tests=10_000, rounds=3, size=5) == cohorts


def test_partition_of_the_recorded_run():
    shards = fedklentropy_replay(labels_of("mnist"), 50, np.random.default_rng(0), alpha=0.1)
    sizes = np.array([len(shard) for shard in shards])
    classes = np.array([len(np.unique(labels_of("mnist")[shard])) for shard in shards])
    assert classes.mean() == pytest.approx(4.82)
    assert (classes.argmax(), classes.max(), classes.argmin(), classes.min()) == (49, 10, 13, 1)
    assert (sizes.argmax(), sizes.max(), sizes.argmin(), sizes.min()) == (25, 3635, 27, 8)


def test_the_example_lists_the_cohorts():
    selector = read(EXAMPLE).method.recipe.selector
    expected = replayed_cohorts(labels_of("mnist"), 50, alpha=0.1, tests=10_000, rounds=50, size=5)
    assert list(selector.cohorts) == expected


@pytest.mark.skipif("ENTROFED_TEST_DATA" not in os.environ, reason="needs real data: set ENTROFED_TEST_DATA")
@pytest.mark.parametrize("name", RECORDED)
def test_recorded_cohorts_with_the_real_labels(name):
    alpha, cohorts = RECORDED[name]
    labels = load(name, Path(os.environ["ENTROFED_TEST_DATA"])).train_y
    assert replayed_cohorts(labels, 50, alpha=alpha, tests=10_000, rounds=3, size=5) == cohorts
