"""Noised label counts: the right noise, no bad input, nothing drawn twice."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from entrofed.core.types import ClientTable
from entrofed.errors import CheckpointError, ConfigError, DataError
from entrofed.experiment.build import prepare, release_once
from entrofed.experiment.config import parse
from entrofed.experiment.manifest import write_listed
from entrofed.experiment.run_folder import RunFolder
from entrofed.facts.label_counts import LabelCounts
from entrofed.privacy.counts import checked_counts, release


@pytest.mark.parametrize("seeded", [True, False])
def test_dp_1(seeded):
    """SPEC oracle: epsilon 0.5 has standard deviation 2.828, P(|Z| > 5) = 0.0821, E[max(Z, 0)] = 1."""
    n = 20_000
    rng = np.random.default_rng(1) if seeded else None
    found = release(np.full((n // 10, 10), 1000), 0.5, "add_remove", rng)
    noise = found.counts.ravel() - 1000
    four_sigma = 4 / math.sqrt(n)
    assert noise.std() == pytest.approx(2.82842712474619, rel=four_sigma * math.sqrt(5) / 2)  # kurtosis of Laplace: 6
    share = 0.0820849986238988
    assert (abs(noise) > 5).mean() == pytest.approx(share, abs=four_sigma * math.sqrt(share * (1 - share)))
    assert np.maximum(noise, 0).mean() == pytest.approx(1, abs=four_sigma * math.sqrt(3))
    assert (noise != np.rint(noise)).any()  # not rounded


def test_replacement_costs_twice_the_scale():
    rng = np.random.default_rng(0)
    assert release(np.ones((1, 2), int), 0.5, "replace", rng).spent["scale"] == 4
    noise = release(np.full((1000, 10), 10**6), 0.5, "replace", rng).counts - 10**6
    assert noise.std() == pytest.approx(4 * math.sqrt(2), rel=0.06)


def test_clipped_at_zero_but_not_rounded():
    counts = release(np.zeros((500, 10), int), 0.5, "add_remove", np.random.default_rng(0)).counts
    assert counts.min() == 0
    assert (counts == 0).mean() == pytest.approx(0.5, abs=0.03)


def test_seeded_noise_repeats_and_says_that_it_is_no_privacy():
    one, two = (release(np.ones((3, 4), int), 1.0, "add_remove", np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one.counts, two.counts)
    assert "not private" in one.spent["mechanism"]
    assert "not private" not in release(np.ones((1, 2), int), 1.0, "add_remove").spent["mechanism"]


@pytest.mark.parametrize("epsilon", [0, -1, math.inf, -math.inf, math.nan])
def test_epsilon_must_be_positive_and_finite(epsilon):
    with pytest.raises(ConfigError, match="epsilon"):
        release(np.ones((2, 2), int), epsilon, "add_remove")


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([[1, -1]], "class 1 has -1"),
        ([[1, math.nan]], "class 1 has nan"),
        ([[0.5, 1]], "class 0 has 0.5"),
        ([[1, 1], [1e300, 1]], "client 1, class 0"),
        ([[1, math.inf]], "inf"),
        ([[1, 2, 3]], "shape"),
        ([1, 2], "shape"),
        ([["a", "b"]], "numbers"),
    ],
)
def test_counts_that_are_none(counts, words):
    with pytest.raises(DataError, match=words):
        checked_counts(np.array(counts), 2)


@given(st.lists(st.lists(st.integers(0, 2**53), min_size=3, max_size=3), min_size=1))
def test_counts_that_are(counts):
    assert checked_counts(np.array(counts, np.float64), 3).tolist() == [[int(float(n)) for n in row] for row in counts]


def private(**privacy):
    return parse(
        {
            "rounds": 2,
            "data": {"name": "digits", "clients": 6},
            "method": {"name": "fedentopt", "cohort": 2},
            "privacy": {"epsilon": 0.5, **privacy},
            "engine": {"backend": "inline"},
        }
    )


def test_a_release_is_kept_and_never_drawn_again(tmp_path):
    experiment, folder = private(), RunFolder(tmp_path)
    setup = prepare(experiment)
    first = release_once(setup, folder)
    second = release_once(setup, folder)
    assert np.array_equal(first.counts, second.counts)
    assert (
        first.spent
        == second.spent
        == {
            "epsilon": 0.5,
            "neighbours": "add_remove",
            "mechanism": "Laplace (OpenDP)",
            "scale": 2.0,
            "epsilon_before": 0.0,
            "epsilon_in_all": 0.5,
            "drawn": 6,
        }
    )
    assert not np.array_equal(first.counts, setup.federation.label_counts)
    (tmp_path / "released.json").unlink()
    third = release_once(setup, folder)
    assert np.array_equal(first.counts, third.counts)
    (tmp_path / "released.json").write_text("{")
    with pytest.raises(CheckpointError, match="damaged or edited"):
        release_once(setup, folder)
    write_listed(tmp_path / "released.json", "{")
    with pytest.raises(CheckpointError, match="to draw others would spend again"):
        release_once(setup, folder)


def test_simulated_noise_comes_from_the_seed(tmp_path):
    experiment = private(simulate=True)
    setup = prepare(experiment)
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, two = (release_once(setup, RunFolder(tmp_path / name)) for name in "ab")
    assert np.array_equal(one.counts, two.counts)


def test_without_privacy_the_true_counts_are_released(tmp_path):
    experiment = parse({"data": {"name": "digits", "clients": 6}, "method": {"name": "fedentopt", "cohort": 2}})
    setup = prepare(experiment)
    released = release_once(setup, RunFolder(tmp_path))
    assert np.array_equal(released.counts, setup.federation.label_counts)
    assert not (tmp_path / "released.json").exists()


def test_privacy_without_released_counts_is_a_mistake():
    with pytest.raises(ConfigError, match="releases none"):
        parse({"data": {"name": "digits", "clients": 6}, "privacy": {"epsilon": 1.0}})
    with pytest.raises(ConfigError, match="epsilon"):
        private(epsilon=0)
    with pytest.raises(ConfigError, match="epsilon"):
        private(epsilon=math.inf)


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        (np.array([[1.0, -1.0], [1, 1]]), "client 0 has -1.0 of class 1"),
        (np.array([[1.0, 1.0], [math.nan, 1]]), "client 1 has nan of class 0"),
        (np.array([[1.0, 1.0], [1, math.inf]]), "inf"),
        (np.array([[1.0, 1.0]]), "2 clients"),
        (np.array([1.0, 1.0]), "shape"),
    ],
)
def test_a_client_table_takes_no_nonsense(counts, words):
    with pytest.raises(DataError, match=words):
        ClientTable(sizes=np.array([1, 1]), facts={LabelCounts.name: counts})
