from math import log, pi
from time import process_time

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import ConfigError, DataError
from entrofed.info.mixture import Mixture, bic, em_step, expectation_maximization, fit, fit_all, quantiles

EXAMPLE = [4, 2, 0, 0, 0, 3, 1]  # labels 0, 0, 0, 0, 1, 1, 5, 5, 5, 6

whole = arrays(np.float64, st.integers(1, 8), elements=st.integers(0, 6).map(float)).filter(np.any)
fractional = arrays(
    np.float64, st.integers(1, 8), elements=st.one_of(st.just(0.0), st.floats(1e-3, 50.0, allow_subnormal=False))
).filter(np.any)
EDGES = np.array([0.0, 0.1, 1 / 3, 0.5, 0.75, 0.9, 1.0])


def expand(counts):
    return np.repeat(np.arange(len(counts)), np.asarray(counts, dtype=int)).astype(float)


def parts(counts):
    labels = np.flatnonzero(counts)
    return labels, np.asarray(counts, dtype=float)[labels]


def start(labels, counted, m, floor=1e-2):
    variance = np.average((labels - np.average(labels, weights=counted)) ** 2, weights=counted)
    means = quantiles(counted, labels, (np.arange(m) + 0.5) / m)
    return Mixture(counted.sum(), np.full(m, 1 / m), means, np.full(m, max(variance, floor)))


def step(mixture, labels, counted, floor=1e-2):
    theta = mixture.weights, mixture.means, mixture.variances
    updated, log_likelihood = em_step(theta, labels, counted, floor=floor)
    return Mixture(mixture.size, *updated), float(log_likelihood)


def densities(y, weights, means, variances):
    return weights * np.exp(-((y[:, None] - means) ** 2) / (2 * variances)) / np.sqrt(2 * pi * variances)


def plain_update(y, theta, floor):
    """One EM step, sample by sample, and the log-likelihood before it."""
    joint = densities(y, *theta)
    belongs = joint / joint.sum(axis=1, keepdims=True)
    n = belongs.sum(axis=0)
    means = belongs.T @ y / n
    variances = (belongs * (y[:, None] - means) ** 2).sum(axis=0) / n
    return (n / len(y), means, np.maximum(variances, floor)), np.log(joint.sum(axis=1)).sum()


def plain_em(y, m, floor=1e-2):
    means = np.quantile(y, [(j - 0.5) / m for j in range(1, m + 1)])
    theta = np.full(m, 1 / m), means, np.full(m, max(y.var(), floor))
    _, before = plain_update(y, theta, floor)
    updates = 0
    while True:
        theta, _ = plain_update(y, theta, floor)
        _, now = plain_update(y, theta, floor)
        updates += 1
        if abs(now - before) < 1e-6 or updates == 1500:
            return theta, now, updates
        before = now


def test_known_values():
    one, two = (expectation_maximization(EXAMPLE, m) for m in (1, 2))
    assert one.mixture.to_vector() == pytest.approx([10, 1, 2.3, 6.01], rel=1e-12)
    assert one.log_likelihood == pytest.approx(-23.1565090748, rel=1e-11)
    assert bic(one) == pytest.approx(48.6156032426, rel=1e-11)
    assert bic(one, "free_params") == pytest.approx(50.9181883356, rel=1e-11)

    assert two.updates == 5
    assert two.mixture.to_vector() == pytest.approx([10, 0.6, 1 / 3, 2 / 9, 0.4, 5.25, 0.1875], rel=1e-9)
    assert two.log_likelihood == pytest.approx(-13.0593169447, rel=1e-11)
    assert bic(two) == pytest.approx(30.7238040753, rel=1e-11)
    assert bic(two, "free_params") == pytest.approx(37.6315593543, rel=1e-11)


@pytest.mark.parametrize("penalty", ["components", "free_params"])
def test_the_lowest_bic_is_kept(penalty):
    """Of 1 to ceil(4 / 2) components."""
    assert fit(EXAMPLE, penalty=penalty).means == pytest.approx([1 / 3, 5.25], rel=1e-9)
    assert len(fit(EXAMPLE, ratio=0.25).weights) == 1


@pytest.mark.parametrize("penalty", ["components", "free_params"])
def test_uniform_labels_take_all_components_they_may(penalty):
    falling = [bic(expectation_maximization([100] * 10, m), penalty) for m in range(1, 6)]
    assert (np.diff(falling) < 0).all()
    assert len(fit([100] * 10, penalty=penalty).weights) == 5


def test_the_penalty_can_decide():
    """A second component gains 2.88 nats here: more than (ln 7) / 2, less than 3 (ln 7) / 2."""
    assert len(fit([1, 4, 2]).weights) == 2
    assert len(fit([1, 4, 2], penalty="free_params").weights) == 1


def test_the_papers_likelihood():
    """Q = sum_n sum_m gamma_nm ln(pi_m N(y_n; mu_m, sigma_m^2)), equation 8, sample by sample."""
    counts = [4, 6, 5, 3, 2, 1, 1]
    found = expectation_maximization(counts, 2)
    total = 0.0
    for y in np.repeat(np.arange(7), counts):
        mixture = found.mixture
        density = np.exp(-0.5 * (y - mixture.means) ** 2 / mixture.variances) / np.sqrt(2 * np.pi * mixture.variances)
        joint = mixture.weights * density
        total += (joint / joint.sum() * np.log(joint)).sum()
    assert found.complete == pytest.approx(total, rel=1e-9)
    assert found.complete < found.log_likelihood
    assert bic(found, "complete_data") == pytest.approx(-2 * total + 2 * np.log(22), rel=1e-9)
    one = expectation_maximization(counts, 1)
    assert one.complete == pytest.approx(one.log_likelihood, rel=1e-12)  # there is nothing to assign


def test_the_papers_likelihood_can_decide():
    """Components that overlap gain little by it: the assignments of what lies between them are not certain."""
    assert len(fit([100] * 8).weights) == 4
    assert len(fit([100] * 8, penalty="complete_data").weights) == 1


def test_first_update():
    labels, counted = parts(EXAMPLE)
    mixture = start(labels, counted, 2)
    assert mixture.means.tolist() == [0, 5]
    first, _ = step(mixture, labels, counted)
    assert first.weights == pytest.approx([0.5494382781, 0.4505617219], rel=1e-9)
    assert first.means == pytest.approx([0.6423563703, 4.321416417], rel=1e-9)
    assert first.variances == pytest.approx([1.72422939, 3.799378071], rel=1e-9)
    _, log_likelihood = step(first, labels, counted)
    assert log_likelihood == pytest.approx(-20.8972931023, rel=1e-11)


@given(counts=whole, m=st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_same_as_sample_by_sample(counts, m):
    """Labels that are their own mirror image are left out: there EM balances on a saddle, and rounding tips it."""
    assume(m == 1 or np.trim_zeros(counts).tolist() != np.trim_zeros(counts)[::-1].tolist())
    (weights, means, variances), log_likelihood, updates = plain_em(expand(counts), m)
    found = expectation_maximization(counts, m)
    assert found.updates == updates
    assert found.log_likelihood == pytest.approx(log_likelihood, rel=1e-9, abs=1e-9)
    assert found.mixture.size == counts.sum()
    assert found.mixture.weights == pytest.approx(weights, rel=1e-9, abs=1e-9)
    assert found.mixture.means == pytest.approx(means, rel=1e-9, abs=1e-9)
    assert found.mixture.variances == pytest.approx(variances, rel=1e-9, abs=1e-9)


@given(counts=whole, m=st.integers(1, 4))
@settings(deadline=None, max_examples=50)
def test_every_update_is_the_same_as_sample_by_sample(counts, m):
    mixture = start(*parts(counts), m)
    for _ in range(20):
        theta, before = plain_update(expand(counts), (mixture.weights, mixture.means, mixture.variances), 1e-2)
        mixture, log_likelihood = step(mixture, *parts(counts))
        assert log_likelihood == pytest.approx(before, rel=1e-9, abs=1e-9)
        found = [mixture.weights, mixture.means, mixture.variances]
        assert np.array(found) == pytest.approx(np.array(theta), rel=1e-9, abs=1e-9)


@given(counts=whole)
def test_quantiles_are_those_of_the_samples(counts):
    labels, counted = parts(counts)
    assert quantiles(counted, labels, EDGES) == pytest.approx(np.quantile(expand(counts), EDGES), abs=1e-12)


@given(counts=fractional)
def test_quantiles_of_fractional_counts_rise_within_the_labels(counts):
    labels, counted = parts(counts)
    found = quantiles(counted, labels, EDGES)
    assert (np.diff(found) >= -1e-12).all()
    assert found[0] >= labels[0] - 1e-12
    assert found[-1] <= labels[-1] + 1e-12


@given(counts=whole, data=st.data())
def test_quantiles_change_little_with_the_counts(counts, data):
    labels, counted = parts(counts)
    nearly = counted + data.draw(arrays(np.float64, len(counted), elements=st.floats(-1e-9, 1e-9)))
    moved = quantiles(nearly, labels, EDGES) - quantiles(counted, labels, EDGES)
    assert np.abs(moved).max() <= 1e-6


@given(counts=fractional, m=st.integers(1, 5), floor=st.sampled_from([1e-6, 1e-2, 1.0]))
@settings(deadline=None, max_examples=50)
def test_the_log_likelihood_never_falls(counts, m, floor):
    """Not even where a variance is floored: the floor is the best that is allowed there."""
    labels, counted = parts(counts)
    mixture, before = start(labels, counted, m, floor), -np.inf
    for _ in range(30):
        mixture, now = step(mixture, labels, counted, floor)
        assert now >= before - 1e-9 * (1 + abs(now))
        before = now


@given(counts=fractional, m=st.integers(1, 5))
@settings(deadline=None, max_examples=50)
def test_a_fit_is_a_mixture(counts, m):
    for mixture in (expectation_maximization(counts, m).mixture, fit(counts)):
        again = Mixture.from_vector(mixture.to_vector())
        assert again.to_vector().tolist() == mixture.to_vector().tolist()
        assert mixture.size == pytest.approx(counts.sum())
        assert mixture.weights.sum() == pytest.approx(1, abs=1e-12)
        assert (mixture.variances >= 1e-2).all()
        assert mixture.means.min() >= np.flatnonzero(counts)[0] - 1e-9
        assert mixture.means.max() <= np.flatnonzero(counts)[-1] + 1e-9


@given(counts=fractional)
@settings(deadline=None, max_examples=50)
def test_means_and_variances_add_up(counts):
    """EM keeps the mean of all labels, and their variance as long as no component is floored."""
    mixture = expectation_maximization(counts, 2).mixture
    labels = np.arange(len(counts))
    mean = np.average(labels, weights=counts)
    assert mixture.weights @ mixture.means == pytest.approx(mean, rel=1e-9, abs=1e-9)
    if (mixture.variances > 1e-2).all():
        variance = np.average((labels - mean) ** 2, weights=counts)
        assert mixture.weights @ (mixture.variances + (mixture.means - mean) ** 2) == pytest.approx(variance, rel=1e-9)


@pytest.mark.parametrize("classes", [1, 2, 10, 40])
@pytest.mark.parametrize("penalty", ["components", "complete_data"])
def test_many_at_once_are_as_one_by_one(classes, penalty, monkeypatch):
    """To the last bit, whoever else climbs and however many at once; in the order of the rows."""
    monkeypatch.setattr("entrofed.info.mixture.TOGETHER", 7)
    rng = np.random.default_rng(0)
    counts = rng.multinomial(30, rng.dirichlet(np.full(classes, 0.4), 30)) * rng.choice([1.0, 0.37], (30, 1))
    together = fit_all(counts, penalty=penalty)
    assert [one.to_vector().tolist() for one in together] == [
        fit(row, penalty=penalty).to_vector().tolist() for row in counts
    ]
    assert len({len(one.weights) for one in together}) > 1 or classes <= 2 or penalty == "complete_data"


def test_no_rows():
    assert fit_all([]) == []


def test_a_trailing_class_without_labels_changes_nothing():
    assert fit([*EXAMPLE, 0, 0]).to_vector().tolist() == fit(EXAMPLE).to_vector().tolist()


def test_one_label():
    assert fit([0, 0, 7, 0]).to_vector().tolist() == [7, 1, 2, 0.01]
    assert fit([0, 0, 0.3]).to_vector().tolist() == pytest.approx([0.3, 1, 2, 0.01])


def test_two_labels_far_apart_become_one_gaussian():
    """The limit of ceil(0.5 * 2) components."""
    assert fit([5, 0, 0, 0, 0, 0, 0, 0, 0, 5]).to_vector() == pytest.approx([10, 1, 4.5, 20.25], rel=1e-12)


def test_components_that_start_equal_stay_equal():
    mixture = expectation_maximization([90, 1, 2, 1, 3], 4).mixture
    assert mixture.to_vector()[1:4].tolist() == mixture.to_vector()[4:7].tolist()


def test_labels_far_from_every_component():
    """Densities of exp(-500000) and less: only their logarithms are numbers."""
    labels, counted = np.array([0, 1000]), np.array([3.0, 1.0])
    near = Mixture(4.0, np.array([0.5, 0.5]), np.array([0.0, 1.0]), np.array([1e-2, 1e-2]))
    updated, log_likelihood = step(near, labels, counted)
    assert log_likelihood == pytest.approx(4 * (log(0.5) - 0.5 * log(2e-2 * pi)) - 999**2 / 2e-2, rel=1e-12)
    assert updated.weights == pytest.approx([0.75, 0.25])
    assert updated.means == pytest.approx([0, 1000])


def test_an_unused_component_stays_where_it_is():
    labels, counted = np.array([0, 1]), np.array([1.0, 1.0])
    mixture = Mixture(2.0, np.array([0.5, 0.5]), np.array([0.5, 90.0]), np.array([1.0, 0.5]))
    for _ in range(2):
        mixture, log_likelihood = step(mixture, labels, counted)
    assert mixture.to_vector() == pytest.approx([2, 1, 0.5, 0.25, 0, 90, 0.5])
    assert np.isfinite(log_likelihood)


@pytest.mark.parametrize("scale", [1e9, 1e15, 1e250, 1e-9, 1e-250])
def test_cost_does_not_grow_with_the_samples(scale):
    began = process_time()
    found = fit(np.array(EXAMPLE) * scale, penalty="free_params")
    assert process_time() - began < 5
    assert found.size == pytest.approx(10 * scale)
    if scale > 1:
        assert found.means == pytest.approx([1 / 3, 5.25], rel=1e-6)


@pytest.mark.parametrize(
    ("vector", "says"),
    [
        ([], "shape is (0,)"),
        ([0.0], "shape is (1,)"),
        ([5, 1, 0], "1 + 3m numbers"),
        ([[5, 1, 0, 1]], "shape is (1, 4)"),
        ([5, 1, np.nan, 1], "number 2 of a mixture is nan"),
        ([np.inf, 1, 0, 1], "number 0 of a mixture is inf"),
        ([-1, 1, 0, 1], "size of a mixture is -1.0"),
        ([5, 0.9, 0, 1], "sum to 1"),
        ([5, 1.5, 0, 1, -0.5, 0, 1], "must be >= 0"),
        ([5, 1, 0, 0], "variances of a mixture are [0.0]"),
        (["a", 1, 0, 1], "something else"),
        ([[1], 1, 0, 1], "something else"),
    ],
)
def test_garbage_is_no_mixture(vector, says):
    with pytest.raises(DataError) as caught:
        Mixture.from_vector(vector)
    assert says in str(caught.value)


@given(vector=arrays(np.float64, st.integers(0, 8), elements=st.floats()))
def test_any_numbers_are_a_mixture_or_refused(vector):
    try:
        mixture = Mixture.from_vector(vector)
    except DataError:
        return
    assert mixture.to_vector().tolist() == vector.tolist()


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ([0, 0, 0], "all counts are 0"),
        ([], "all counts are 0"),
        ([[1, 2]], "shape is (1, 2)"),
        ([1, -2], "counts[1] = -2.0"),
        ([1, 2, np.nan], "counts[2] = nan"),
        ([1e308, 1e308], "counts[0] = 1e+308"),
    ],
)
def test_bad_counts(counts, says):
    for fitting in (fit, lambda counts: expectation_maximization(counts, 1)):
        with pytest.raises(DataError) as caught:
            fitting(counts)
        assert says in str(caught.value)


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ({"ratio": 0.0}, "ratio = 0.0"),
        ({"ratio": 1.5}, "ratio = 1.5"),
        ({"floor": 0.0}, "floor = 0.0"),
        ({"floor": np.inf}, "floor = inf"),
        ({"penalty": "component"}, "did you mean 'components'"),
    ],
)
def test_bad_options(option, says):
    with pytest.raises(ConfigError) as caught:
        fit(EXAMPLE, **option)
    assert says in str(caught.value)
    with pytest.raises(ConfigError, match="components = 0"):
        expectation_maximization(EXAMPLE, 0)


def test_a_product_just_above_a_whole_number_is_that_number():
    """0.07 * 100 is 7.000000000000001."""
    assert len(fit([1000] * 100, ratio=0.07).weights) <= 7
    assert len(fit(EXAMPLE, ratio=1e-12).weights) == 1
