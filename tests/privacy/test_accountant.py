"""The accountant: against closed forms, the library's published example, and what must hold of any."""

from dataclasses import replace
from math import erf, exp, log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.errors import ConfigError
from entrofed.privacy.accountant import Accounting, dp_accounting
from entrofed.privacy.gaussian import gaussian_delta, gaussian_epsilon

DELTA = 1e-5


def by_hand(z: float, epsilon: float) -> float:
    """The curve of one Gaussian, with the normal distribution function written out."""
    phi = lambda x: (1 + erf(x / sqrt(2))) / 2  # noqa: E731
    return phi(1 / (2 * z) - epsilon * z) - exp(epsilon) * phi(-1 / (2 * z) - epsilon * z)


@pytest.mark.parametrize("z", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("library", ["pld", "rdp"])
def test_one_gaussian_against_the_closed_form(z: float, library: str) -> None:
    epsilon = gaussian_epsilon(1 / z, DELTA)
    assert by_hand(z, epsilon) == pytest.approx(DELTA, rel=1e-6)
    assert Accounting(z, DELTA).epsilon(1) == pytest.approx(epsilon)
    everybody = Accounting(z, DELTA, "poisson", 100, 100, library=library)  # type: ignore[arg-type]
    assert epsilon - 1e-6 <= everybody.epsilon(1) <= epsilon * (1.001 if library == "pld" else 1.2)


def test_gaussians_compose_to_one() -> None:
    assert Accounting(4.0, DELTA).epsilon(16) == pytest.approx(gaussian_epsilon(1.0, DELTA))
    assert gaussian_epsilon(0.0, DELTA) == 0
    assert gaussian_delta(0.0, 1.0) == 0
    assert Accounting(0.0, DELTA).epsilon(1) == float("inf")


def test_the_published_examples_of_the_library() -> None:
    """Its own test of the subsampled Gaussian (noise 2.5, rate 0.01, 50 steps) gives the Renyi divergence of order 5 as
    2.18075656e-3; its basic example composes Laplace noise with a Gaussian of standard deviation 5."""
    lib = dp_accounting()
    book = lib.rdp.RdpAccountant([5.0])
    book.compose(lib.PoissonSampledDpEvent(0.01, lib.GaussianDpEvent(2.5)), 50)
    published, conversion = 2.18075656e-3, log(0.8) - log(DELTA * 5) / 4
    assert book.get_epsilon(DELTA) == pytest.approx(published + conversion)
    ours = Accounting(2.5, DELTA, "poisson", 10_000, 100, library="rdp").epsilon(50)
    assert 0 < ours <= published + conversion
    sampled = Accounting(0.5, 0.15594, "poisson", 1000, 200)  # its test of the same by PLD: epsilon 1 at this delta
    assert sampled.epsilon(3) == pytest.approx(1.0, abs=1e-3)
    pld = lib.pld.privacy_loss_distribution
    laplace, gaussian = pld.from_laplace_mechanism(3.0), pld.from_gaussian_mechanism(5.0)
    expected = laplace.compose(gaussian).get_epsilon_for_delta(DELTA)
    assert Accounting(5.0, DELTA, counts=1 / 3).epsilon(1) == pytest.approx(expected, abs=2e-3)


def test_label_counts_are_composed_not_forgotten() -> None:
    """Laplace counts: alone exactly their epsilon; together less than the sum, and more than either."""
    counts = Accounting(5.0, DELTA, counts=0.5)
    alone, updates = counts.epsilon(0), Accounting(5.0, DELTA).epsilon(10)
    assert alone == pytest.approx(0.5, abs=1e-3)
    assert max(0.5, updates) < counts.epsilon(10) < updates + 0.5
    assert counts.unit == "record"
    whole = Accounting(5.0, DELTA, counts=0.5, neighbours="client")
    assert whole.unit == "client"
    assert whole.epsilon(10) == pytest.approx(updates + 0.5)
    assert replace(counts, neighbours="replace").epsilon(0) == pytest.approx(0.5, abs=2e-3)


@settings(max_examples=12, deadline=None)
@given(st.floats(0.5, 8), st.integers(1, 60), st.sampled_from([None, "poisson", "fixed"]), st.booleans())
def test_more_noise_less_epsilon_and_more_rounds_more(z: float, steps: int, sampling: str, counts: bool) -> None:
    one = Accounting(z, DELTA, sampling, 1000, 50, 0.5 if counts else None, library="rdp")  # type: ignore[arg-type]
    assert replace(one, noise=1.3 * z).epsilon(steps) < one.epsilon(steps) < one.epsilon(steps + 5)
    assert replace(one, delta=DELTA / 10).epsilon(steps) > one.epsilon(steps)


def test_sampling_helps_only_where_it_is_claimed() -> None:
    everybody = Accounting(2.0, DELTA).epsilon(20)
    poisson = Accounting(2.0, DELTA, "poisson", 1000, 50).epsilon(20)
    assert poisson < everybody / 4
    fixed = Accounting(2.0, DELTA, "fixed", 1000, 50)
    assert fixed.library == "rdp"
    assert poisson < fixed.epsilon(20) < everybody


def test_cohorts_that_may_be_empty_are_paid_for() -> None:
    """No noise is added in such a round: its probability goes to delta."""
    assert Accounting(5.0, DELTA, "poisson", 10, 1).epsilon(1) == float("inf")


@pytest.mark.parametrize("sampling", [None, "poisson", "fixed"])
def test_calibrated_noise_is_enough_and_not_more(sampling: str) -> None:
    accounting = Accounting(1.0, DELTA, sampling, 1000, 100, counts=0.5)  # type: ignore[arg-type]
    found = accounting.calibrated(4.0, 20)
    assert 3.95 < found.epsilon(20) <= 4.0
    assert found.most_steps(4.0) >= 20
    assert replace(found, noise=found.noise / 1.02).epsilon(20) > 4.0


def test_most_steps_is_the_last_that_fits() -> None:
    accounting = Accounting(3.0, DELTA)
    most = accounting.most_steps(5.0)
    assert accounting.epsilon(most) <= 5.0 < accounting.epsilon(most + 1)
    assert accounting.most_steps(5.0, least=most - 1) == accounting.most_steps(5.0, least=most) == most
    assert Accounting(3.0, DELTA, counts=6.0).most_steps(5.0) == 0
    with pytest.raises(ConfigError, match="label counts alone"):
        Accounting(3.0, DELTA, counts=6.0).calibrated(5.0, 1)
