"""Classes as Gaussians of features, and the linear classifier that tells these apart."""

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class ClassSums:
    """Of each class: samples n, sum of features h, sum of ``h h^T``. Sums of clients add up to those of all.

    >>> one = ClassSums.of(np.array([[1.0, 0.0], [3.0, 2.0]]), np.array([0, 0]), classes=1)
    >>> one.counts.tolist(), one.first.tolist(), one.second[0].tolist()
    ([2.0], [[4.0, 2.0]], [[10.0, 6.0], [6.0, 4.0]])
    """

    counts: Floats
    first: Floats
    second: Floats

    @classmethod
    def of(cls, features: Floats, labels: NDArray[np.int64], classes: int) -> "ClassSums":
        """Of samples ``[n, d]`` and their labels."""
        own = [features[labels == label] for label in range(classes)]
        return cls(
            np.array([float(len(rows)) for rows in own]),
            np.array([rows.sum(axis=0) for rows in own]),
            np.array([rows.T @ rows for rows in own]),
        )

    def packed(self) -> Floats:
        """A row ``[1 + d + d^2]`` for each class."""
        return np.concatenate([self.counts[:, None], self.first, self.second.reshape(len(self.counts), -1)], axis=1)

    @classmethod
    def unpacked(cls, rows: Floats) -> "ClassSums":
        """The inverse of :meth:`packed`."""
        width = round((4 * rows.shape[1] - 3) ** 0.5 - 1) // 2
        return cls(rows[:, 0], rows[:, 1 : 1 + width], rows[:, 1 + width :].reshape(len(rows), width, width))

    def gaussians(self) -> tuple[Floats, Floats]:
        """Mean and covariance of each class: ``h / n`` and ``(sum h h^T - n m m^T) / (n - 1)``; 0 where n is too small.

        >>> one = ClassSums.of(np.array([[1.0, 0.0], [3.0, 2.0]]), np.array([0, 0]), classes=1)
        >>> [found.tolist() for found in one.gaussians()]
        [[[2.0, 1.0]], [[[2.0, 2.0], [2.0, 2.0]]]]
        """
        means = self.first / np.maximum(self.counts, 1)[:, None]
        spread = self.second - self.counts[:, None, None] * means[:, :, None] * means[:, None, :]
        return means, np.where(self.counts[:, None, None] > 1, spread, 0) / np.maximum(self.counts - 1, 1)[
            :, None, None
        ]


def virtual_features(sums: ClassSums, samples: int, rng: np.random.Generator) -> tuple[Floats, NDArray[np.int64]]:
    """``samples`` draws from the Gaussian of each class that there are samples of, and their labels."""
    means, covariances = sums.gaussians()
    features, labels = [], []
    for label in np.flatnonzero(sums.counts > 0):
        values, vectors = np.linalg.eigh(covariances[label])
        drawn = rng.standard_normal((samples, len(values))) * np.sqrt(np.maximum(values, 0))
        features.append(means[label] + drawn @ vectors.T)
        labels.append(np.full(samples, label))
    return np.concatenate(features), np.concatenate(labels)


def softmax_regression(
    features: Floats, labels: NDArray[np.int64], weight: Floats, bias: Floats, *, decay: float, steps: int
) -> tuple[Floats, Floats]:
    """Weights ``[classes, d]`` and biases that minimize cross entropy (nats) plus ``decay / 2 ||W||^2``, by L-BFGS.

    Starts from ``weight`` and ``bias``, for at most ``steps`` iterations. Rows of classes without a sample stay.
    """
    seen = np.unique(labels)
    places, n, start = np.searchsorted(seen, labels), len(labels), np.column_stack([weight[seen], bias[seen]])

    def loss(flat: Floats) -> tuple[float, Floats]:
        table = flat.reshape(start.shape)
        logits = features @ table[:, :-1].T + table[:, -1]
        logs = logits - scipy.special.logsumexp(logits, axis=1, keepdims=True)
        error = np.exp(logs)
        error[np.arange(n), places] -= 1
        slope = np.column_stack([error.T @ features / n + decay * table[:, :-1], error.sum(axis=0) / n])
        value = -logs[np.arange(n), places].mean() + decay / 2 * (table[:, :-1] ** 2).sum()
        return float(value), slope.ravel()

    found = scipy.optimize.minimize(loss, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": steps}).x
    table = found.reshape(start.shape)
    weight, bias = weight.copy(), bias.copy()
    weight[seen], bias[seen] = table[:, :-1], table[:, -1]
    return weight, bias
