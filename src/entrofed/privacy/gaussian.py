"""What Gaussian noise is worth, in closed form.

Any number of Gaussian mechanisms, each with the multiplier ``z_i`` (standard deviation over L2 sensitivity), together
are one with ``mu = sqrt(sum_i 1 / z_i^2)``: no bound is lost in composing them.

Reference: Balle and Wang, Improving the Gaussian Mechanism for Differential Privacy, ICML 2018, Theorem 8; Dong, Roth
and Su, Gaussian Differential Privacy, JRSS B 2022, Corollary 2.
"""

from math import exp, inf, log

import scipy

LARGEST = 1e6


def gaussian_delta(mu: float, epsilon: float) -> float:
    """The least delta: ``Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu)``.

    >>> round(gaussian_delta(1.0, 1.0), 6)
    0.126937
    """
    if mu == 0:
        return 0.0
    log_phi = scipy.special.log_ndtr
    first, second = float(log_phi(mu / 2 - epsilon / mu)), epsilon + float(log_phi(-mu / 2 - epsilon / mu))
    return exp(first) - exp(min(second, first))


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The least epsilon at delta; 0 where delta alone is enough, infinite without noise.

    >>> round(gaussian_epsilon(1.0, 1e-5), 4)
    4.3772
    """
    if gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    high = mu * mu / 2 + mu * (2 * log(1 / delta)) ** 0.5 + 1
    if not high < LARGEST:
        return inf
    return float(scipy.optimize.brentq(lambda epsilon: gaussian_delta(mu, epsilon) - delta, 0.0, high, xtol=1e-12))
