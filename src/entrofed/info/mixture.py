"""A client's labels as a mixture of Gaussians over the class numbers, fitted by EM to the label counts.

Samples with the same label are alike to EM, so it runs on the counts: a step costs classes x components, however many
samples there are, and counts need not be whole (noised ones are not).

Reference: Feng et al., "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling for
Decentralized Federated Learning", phase 1, equations 2 to 10 and Algorithm 2.

Class numbers are names, but a Gaussian takes them for quantities: another order of the classes gives another mixture.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from math import ceil, log, pi
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entrofed.errors import ConfigError, DataError, unknown
from entrofed.info.entropy import Floats

Penalty = Literal["components", "free_params", "complete_data"]
Labels = NDArray[np.int64]
Histogram = tuple[Labels, Floats]
"""The labels that were counted, and how often."""
Gaussians = tuple[Floats, Floats, Floats]
"""The weights, means and variances of components."""

TOLERANCE = 1e-6
"""EM stops at a smaller change of the log-likelihood (nats)."""
UPDATES = 1500
"""EM stops after as many."""
FAR = 1e150
"""Standard deviations beyond which all labels are equally far: its square is still a number."""
MOST = 1e300
"""No class is counted more often, so that counts can be summed."""
TOGETHER = 1024
"""Fits that climb together: more would not be faster, and need more memory."""
TINY = np.finfo(np.float64).tiny


@dataclass(frozen=True, eq=False)
class Mixture:
    """Density f(y) = sum_j pi_j N(y; mu_j, sigma_j^2) of the labels (equation 2) of ``size`` samples."""

    size: float
    weights: Floats
    means: Floats
    variances: Floats

    def to_vector(self) -> Floats:
        """What a client sends, 1 + 3m numbers: N, pi_1, mu_1, sigma_1^2, pi_2, ...

        >>> Mixture(8.0, np.array([0.25, 0.75]), np.array([0.0, 3.0]), np.array([0.5, 1.0])).to_vector().tolist()
        [8.0, 0.25, 0.0, 0.5, 0.75, 3.0, 1.0]
        """
        return np.append(self.size, np.column_stack([self.weights, self.means, self.variances]))

    @classmethod
    def from_vector(cls, vector: ArrayLike) -> "Mixture":
        """What a client has sent, refused unless it is a mixture."""
        try:
            numbers = np.asarray(vector, dtype=np.float64)
        except (TypeError, ValueError):
            raise DataError("a mixture must be a vector of numbers, but it holds something else") from None
        if numbers.ndim != 1 or len(numbers) < 4 or len(numbers) % 3 != 1:
            raise DataError(f"a mixture of m >= 1 components has 1 + 3m numbers, but its shape is {numbers.shape}")
        wrong = np.flatnonzero(~np.isfinite(numbers))
        if len(wrong):
            raise DataError(f"number {wrong[0]} of a mixture is {numbers[wrong[0]]}, but must be finite")
        size, (weights, means, variances) = float(numbers[0]), numbers[1:].reshape(-1, 3).T.copy()
        if size < 0:
            raise DataError(f"the size of a mixture is {size}, but must not be negative")
        if (weights < 0).any() or (weights > 2).any() or abs(weights.sum() - 1) > 1e-6:  # a sum that is a number
            raise DataError(f"the weights of a mixture are {weights.tolist()}, but must be >= 0 and sum to 1")
        if (variances <= 0).any():
            raise DataError(f"the variances of a mixture are {variances.tolist()}, but must be positive")
        return cls(size, weights, means, variances)

    def log_joint(self, labels: Labels) -> Floats:
        """ln(pi_j N(y; mu_j, sigma_j^2)) for every label y (rows) and component j (columns)."""
        return log_joint(self.weights, self.means, self.variances, labels)


def log_joint(weights: Floats, means: Floats, variances: Floats, labels: Labels) -> Floats:
    """:meth:`Mixture.log_joint` of one mixture, or of many if all arrays have an axis of mixtures before theirs."""
    deviations = np.sqrt(variances)[..., None, :]
    distance = np.minimum(np.abs(labels[..., :, None] - means[..., None, :]) / deviations, FAR)
    with np.errstate(divide="ignore"):  # an unused component
        scale = np.log(weights) - 0.5 * (log(2 * pi) + np.log(variances))
    return np.asarray(scale[..., None, :] - 0.5 * distance**2)


@dataclass(frozen=True, eq=False)
class Fit:
    """Where EM has stopped."""

    mixture: Mixture
    log_likelihood: float
    """Of the observed labels, nats."""
    complete: float
    """Q (equation 8), nats: the expected log-likelihood of the labels and the components they belong to."""
    updates: int


def fit(counts: ArrayLike, *, ratio: float = 0.5, penalty: Penalty = "components", floor: float = 1e-2) -> Mixture:
    """The mixture of 1 to ceil(ratio L) components with the lowest BIC, L being the number of labels counted.

    No variance is below ``floor``. One label y alone gives N(y, floor).
    Differs from the paper: the start is fixed instead of random, so that the result can be had again; the BIC takes
    the likelihood of the labels instead of Q (equation 8), which also counts unseen assignments, unless ``penalty`` is
    ``complete_data``.

    >>> mixture = fit([4, 2, 0, 0, 0, 3, 1])
    >>> mixture.weights.round(3).tolist(), mixture.means.round(3).tolist()
    ([0.6, 0.4], [0.333, 5.25])
    """
    return fit_all([counts], ratio=ratio, penalty=penalty, floor=floor)[0]


def fit_all(
    rows: Iterable[ArrayLike], *, ratio: float = 0.5, penalty: Penalty = "components", floor: float = 1e-2
) -> list[Mixture]:
    """:func:`fit` of every row of counts: the same bits in a fraction of the time, since many climb together."""
    if not 0 < ratio <= 1:
        raise ConfigError(f"ratio = {ratio}, but must be above 0 and at most 1: components per distinct label")
    found: dict[int, Mixture] = {}
    alike: dict[int, list[tuple[int, Histogram]]] = {}
    for i, row in enumerate(rows):
        histogram = _histogram(row)
        alike.setdefault(len(histogram[0]), []).append((i, histogram))
    for distinct, members in alike.items():
        most = max(1, ceil(ratio * distinct - 1e-9))  # a product just above a whole number is that number
        for first in range(0, len(members), TOGETHER):
            some = members[first : first + TOGETHER]
            together = [histogram for _, histogram in some]
            tried = [_climb(together, m, floor) for m in range(1, most + 1)]
            for (i, _), fits in zip(some, zip(*tried, strict=True), strict=True):
                found[i] = min(fits, key=lambda one: bic(one, penalty)).mixture
    return [found[i] for i in range(len(found))]


def bic(found: Fit, penalty: Penalty = "components") -> float:
    """Bayesian information criterion -2 ln L + p ln N; p = m as in equation 10, or the 3m - 1 free parameters.

    ``complete_data``: p = m, and Q (equation 8) in place of ln L. Q is ln L less the entropy of the assignments, so
    that components that overlap are penalized too.
    """
    if penalty not in get_args(Penalty):
        raise unknown("penalty", penalty, get_args(Penalty))
    m = len(found.mixture.weights)
    parameters = 3 * m - 1 if penalty == "free_params" else m
    likelihood = found.complete if penalty == "complete_data" else found.log_likelihood
    return -2 * likelihood + parameters * log(found.mixture.size)


def expectation_maximization(counts: ArrayLike, components: int, *, floor: float = 1e-2) -> Fit:
    """EM from equal weights, means at the (j - 1/2)/m quantiles, and the variance of all labels.

    Stops once the log-likelihood changes by less than 1e-6, or after 1500 updates.
    """
    return _climb([_histogram(counts)], components, floor)[0]


def _climb(histograms: Sequence[Histogram], components: int, floor: float) -> list[Fit]:
    """:func:`expectation_maximization` of histograms with the same number of labels; who has arrived leaves."""
    if components < 1:
        raise ConfigError(f"components = {components}, but a mixture must have at least 1")
    if not 0 < floor < np.inf:
        raise ConfigError(f"floor = {floor}, but the least variance must be a positive number")
    starts = [_start(labels, counted, components, floor) for labels, counted in histograms]
    labels, counted = (np.array(arrays) for arrays in zip(*histograms, strict=True))
    weights, means, variances = (np.array(arrays) for arrays in zip(*starts, strict=True))
    climbing, before = np.arange(len(histograms)), np.full(len(histograms), -np.inf)
    fits: dict[int, Fit] = {}
    for updates in count():
        updated, now = em_step((weights, means, variances), labels, counted, floor=floor)
        arrived = (np.abs(now - before) < TOLERANCE) | (updates == UPDATES)
        for i in np.flatnonzero(arrived).tolist():
            mixture = Mixture(float(counted[i].sum()), weights[i], means[i], variances[i])
            complete = complete_log_likelihood(mixture, labels[i], counted[i])
            fits[int(climbing[i])] = Fit(mixture, float(now[i]), complete, updates)
        if len(fits) == len(histograms):
            break
        on = ~arrived
        weights, means, variances = (array[on] for array in updated)
        labels, counted, climbing, before = labels[on], counted[on], climbing[on], now[on]
    return [fits[i] for i in range(len(histograms))]


def _start(labels: Labels, counted: Floats, components: int, floor: float) -> Gaussians:
    share = counted / counted.sum()
    variance = max(float(share @ np.square(labels - share @ labels)), floor)
    means = quantiles(counted, labels, (np.arange(components) + 0.5) / components)
    return np.full(components, 1 / components), means, np.full(components, variance)


def complete_log_likelihood(mixture: Mixture, labels: Labels, counts: Floats) -> float:
    """Q = sum_n sum_m gamma_nm ln(pi_m N(y_n; mu_m, sigma_m^2)) (equation 8), gamma as the mixture gives it; nats."""
    joint = mixture.log_joint(labels)
    belongs = np.exp(joint - np.logaddexp.reduce(joint, axis=1)[:, None])
    return float(counts @ (belongs * np.where(belongs > 0, joint, 0.0)).sum(axis=1))


def em_step(mixtures: Gaussians, labels: Labels, counts: Floats, *, floor: float) -> tuple[Gaussians, Floats]:
    """One update of weights, means and variances (equations 7 and 9), and the log-likelihood before, which never falls.

    Of one mixture, or of many (:func:`log_joint`), with the same bits. A component that no label belongs to any more
    stays where it is, with weight 0. Equal components stay equal to the last bit: sums run over rows, in the same order
    for all columns.
    """
    joint = log_joint(*mixtures, labels)
    peak = joint.max(axis=-1, keepdims=True)
    belongs = np.exp(joint - peak)
    total = belongs.sum(axis=-1, keepdims=True)
    log_likelihood = (counts * (peak + np.log(total))[..., 0]).sum(axis=-1)
    belongs *= (counts / counts.sum(axis=-1, keepdims=True))[..., None] / total

    weights = belongs.sum(axis=-2)
    used = weights > TINY
    divisor = np.where(used, weights, 1.0)
    means = np.where(used, (belongs * labels[..., None]).sum(axis=-2) / divisor, mixtures[1])
    squares = (belongs * np.square(labels[..., None] - means[..., None, :])).sum(axis=-2)
    variances = np.where(used, np.maximum(squares / divisor, floor), mixtures[2])
    return (np.where(used, weights, 0.0), means, variances), log_likelihood


def quantiles(counts: Floats, labels: Labels, levels: Floats) -> Floats:
    """Quantiles of the labels repeated as often as counted, interpolated as by ``numpy.quantile``, without repeating.

    Lay the labels side by side, each as wide as its count, N in all. The quantile at level q is the mean label in a
    window one sample wide that starts at q (N - 1). Counts that are not whole need no other rule; if N < 1 the window
    is as wide as all.

    >>> quantiles(np.array([2.0, 1.0]), np.array([0, 3]), np.array([0.0, 0.5, 0.75, 1.0])).tolist()
    [0.0, 0.0, 1.5, 3.0]
    """
    ends = np.cumsum(counts)
    width = np.clip(1.0, 1e-12 * ends[-1], ends[-1])  # below, it would be lost in rounding
    left = levels[:, None] * (ends[-1] - width)
    inside = np.maximum(np.minimum(ends, left + width) - np.maximum(ends - counts, left), 0.0)
    return np.asarray((inside * labels).sum(axis=1) / inside.sum(axis=1))


def _histogram(counts: ArrayLike) -> Histogram:
    counted = np.asarray(counts, dtype=np.float64)
    if counted.ndim != 1:
        raise DataError(f"counts must be a vector, one number per class, but their shape is {counted.shape}")
    wrong = np.flatnonzero(~((counted >= 0) & (counted <= MOST)))
    if len(wrong):
        raise DataError(f"counts[{wrong[0]}] = {counted[wrong[0]]}, but must be from 0 to {MOST:g}")
    labels = np.flatnonzero(counted)
    if not len(labels):
        raise DataError("all counts are 0: there is no label to fit a mixture to; leave empty clients out")
    return labels, counted[labels]
