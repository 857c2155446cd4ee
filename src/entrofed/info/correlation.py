"""Gaussian vectors with a covariance of low rank and noise: its fit, and what is left once some entries are known."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def factor(samples: Floats, weights: Floats, dimension: int, noise: float) -> Floats:
    """The X of at most ``dimension`` rows for which ``N(0, X^T X + noise^2 I)`` makes the samples most likely.

    ``sum_s w_s ln N(y_s)`` is largest for ``X = diag(sqrt(max(e - noise^2, 0))) V^T`` with the largest eigenvalues e
    and eigenvectors V of the weighted second moments ``sum_s w_s y_s y_s^T / sum_s w_s``: probabilistic principal
    components with a known noise.

    Reference: Tipping and Bishop, "Probabilistic Principal Component Analysis", J. R. Statist. Soc. B 61, 1999.

    >>> factor(np.array([[3.0, 4.0]]), np.ones(1), 1, 0.01).shape
    (1, 2)
    """
    if not len(samples):
        return np.zeros((0, samples.shape[1]))
    scaled = samples * np.sqrt(weights / weights.sum())[:, None]
    _, singular, directions = np.linalg.svd(scaled, full_matrices=False)
    lengths = np.sqrt(np.maximum(np.square(singular) - noise**2, 0))
    return np.asarray(lengths[:dimension, None] * directions[:dimension])


class Posterior:
    """The covariance ``S = X^T X + noise^2 I``, without ever being written out, and conditioned entry by entry."""

    def __init__(self, x: Floats, noise: float) -> None:
        self._x, self._noise = x, noise**2
        self._known: list[Floats] = []
        self._variances = np.square(x).sum(axis=0) + self._noise

    def decrease(self, shares: Floats) -> Floats:
        """``sum_i p_i S_ik / sqrt(S_kk)`` of each entry k; 0 where it is known."""
        sums = (self._x @ shares) @ self._x + self._noise * shares
        for row in self._known:
            sums -= (row @ shares) * row
        found = self._variances > 1e-9 * self._noise
        roots = np.sqrt(np.maximum(self._variances, 0))
        return np.asarray(np.divide(sums, roots, out=np.zeros_like(sums), where=found))

    def condition(self, entry: int) -> None:
        """Entry ``entry`` is known: ``S -= S_:k S_k: / S_kk``."""
        column = self._x[:, entry] @ self._x
        column[entry] += self._noise
        for row in self._known:
            column -= row[entry] * row
        row = column / np.sqrt(self._variances[entry])
        self._known.append(row)
        self._variances = self._variances - np.square(row)
