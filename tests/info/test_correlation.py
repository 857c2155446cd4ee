"""The fit of a covariance of low rank, and what conditioning does to it."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from entrofed.info.correlation import Posterior, factor


def covariance(x, noise):
    return x.T @ x + noise**2 * np.eye(x.shape[1])


def likelihood(x, samples, weights, noise):
    found = multivariate_normal(np.zeros(samples.shape[1]), covariance(x, noise)).logpdf(samples)
    return float(weights @ np.atleast_1d(found))


def test_by_hand():
    """One sample (3, 4), noise 1: length 5, eigenvalue 25, so X = sqrt(24) (0.6, 0.8)."""
    x = factor(np.array([[3.0, 4.0]]), np.ones(1), 2, 1.0)
    assert x.T @ x == pytest.approx(24 * np.array([[0.36, 0.48], [0.48, 0.64]]))
    assert not factor(np.array([[0.3, 0.4]]), np.ones(1), 2, 1.0).any()  # less than the noise
    assert factor(np.zeros((0, 3)), np.zeros(0), 2, 1.0).shape == (0, 3)


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_more_likely(seed):
    """Against a general optimizer, which the closed form must not be below."""
    rng = np.random.default_rng(seed)
    samples, weights, noise = rng.normal(size=(4, 3)), rng.random(4) + 0.1, 0.3
    best = likelihood(factor(samples, weights, 2, noise), samples, weights, noise)
    found = [
        minimize(lambda x: -likelihood(x.reshape(2, 3), samples, weights, noise), rng.normal(size=6)) for _ in range(4)
    ]
    assert best == pytest.approx(max(-one.fun for one in found), abs=1e-5)
    assert best >= max(-one.fun for one in found) - 1e-9


def test_conditioning_is_that_of_the_whole_matrix():
    rng = np.random.default_rng(1)
    x, shares = rng.normal(size=(2, 5)), rng.dirichlet(np.ones(5))
    posterior, whole = Posterior(x, 0.1), covariance(x, 0.1)
    for entry in (3, 0, 4):
        assert posterior.decrease(shares) == pytest.approx(
            np.divide(shares @ whole, np.sqrt(whole.diagonal()), out=np.zeros(5), where=whole.diagonal() > 1e-9)
        )
        posterior.condition(entry)
        whole = whole - np.outer(whole[:, entry], whole[entry]) / whole[entry, entry]
        assert posterior.decrease(shares)[entry] == pytest.approx(0, abs=1e-6)
