"""How far each client's labels are from the pooled labels of its neighbourhood, and the weights that follow.

Reference: Feng et al., "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling for
Decentralized Federated Learning", phases 2 and 3, equations 11 to 14.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entrofed.errors import ConfigError, DataError, unknown
from entrofed.info.divergence import kl
from entrofed.info.entropy import Floats
from entrofed.info.mixture import MOST, Labels, Mixture

Mode = Literal["smoothed", "paper", "printed", "histogram", "authors"]
Direction = Literal["divergent", "aligned"]

FLOOR = 1e-12
"""Least probability of a label; a label that a client lacks would make its divergence infinite."""
NONE = 1e-12
"""Divergences that sum to less are no divergence at all."""
LARGEST = 1e290
"""No divergence is larger, so that hostile mixtures can be summed."""
REMEMBERED = 1 << 14
"""Mixtures that are kept as read, and neighbourhoods whose weights are: in a run the same come in every round."""
NEIGHBOURS = 64
"""No larger neighbourhood is kept: that would be all clients of a server."""
Stored = tuple[bytes, str, tuple[int, ...]] | None
"""The bytes of an array, its dtype and its shape."""


def pooled_divergences(
    summaries: Sequence[NDArray[Any]],
    classes: int,
    *,
    mode: Mode = "smoothed",
    smoothing: float = 1e-2,
    labels: ArrayLike | None = None,
) -> tuple[Floats, Floats]:
    """KL(P || P_k) of every client to the pooled distribution P (equation 12), and the sizes N_k; 0, 0 if empty.

    A summary is a mixture as a vector, ``[0.0]`` from an empty client; with ``histogram`` it is the label counts.

    - ``smoothed``: the mixtures at the class numbers, each normalised, plus ``smoothing`` per class; nats
    - ``paper``: the same without smoothing
    - ``printed``: equations 11 and 12 to the letter, see ``divergences_as_printed``; nats, may be negative
    - ``histogram``: label frequencies instead of mixtures, smoothed; the order of the classes does not matter
    - ``authors``: see ``pool_as_authors``; bits, over the ``labels`` of the node that pools (by default all)

    All but ``printed`` and ``authors`` differ from the paper: each client's density is normalised over the classes
    before it is pooled, because only then no divergence is negative. ``smoothed`` and ``histogram`` are smoothed,
    because otherwise what a client lacks decides everything.

    >>> found, sizes = pooled_divergences([np.array([10, 0]), np.array([5, 5])], 2, mode="histogram")
    >>> found.round(4).tolist(), sizes.tolist()
    ([0.6186, 0.1255], [10.0, 10.0])
    """
    if mode not in get_args(Mode):
        raise unknown("mode", mode, get_args(Mode))
    if classes < 1:
        raise ConfigError(f"classes = {classes}, but there must be at least 1")
    if not 0 <= smoothing < np.inf:
        raise ConfigError(f"smoothing = {smoothing}, but must be a number that is not negative")
    if mode == "histogram":
        counts = [_counts(summary, classes, f"summary {k}") for k, summary in enumerate(summaries)]
        sizes = np.array([row.sum() for row in counts])
    else:
        read = [_mixture(summary, classes, f"summary {k}") for k, summary in enumerate(summaries)]
        sizes = np.array([mixture.size for mixture, _ in read])
    divergences, some = np.zeros(len(sizes)), sizes.nonzero()[0].tolist()
    if not some:
        return divergences, sizes

    if mode == "authors":
        seen = np.arange(classes) if labels is None else _indices("labels", labels, classes)
        pooled, parts = pool_as_authors([read[k][0] for k in some], seen)
        divergences[some] = (pooled * np.log2((pooled + 0.01) / (parts + 0.01))).sum(axis=1)
    elif mode == "printed":
        divergences[some] = divergences_as_printed([read[k][0] for k in some], np.arange(classes))
    else:
        rows = [counts[k] / sizes[k] if mode == "histogram" else read[k][1] for k in some]
        pooled, parts = pool(np.array(rows), sizes[some], 0.0 if mode == "paper" else smoothing)
        divergences[some] = kl(pooled, parts)
    return divergences, sizes


def pooling_weights(
    summaries: Sequence[NDArray[Any]],
    classes: int,
    *,
    mode: Mode = "smoothed",
    smoothing: float = 1e-2,
    labels: ArrayLike | None = None,
    direction: Direction = "divergent",
    present: ArrayLike | None = None,
    alpha_min: float = 0.0,
) -> tuple[Floats, Floats]:
    """The weights of a neighbourhood and the divergences behind them, at a node that has these ``labels`` itself.

    The whole rule, for every run and study: :func:`pooled_divergences`, then :func:`pooled_weights`.
    """
    options = (classes, mode, smoothing, direction, alpha_min)
    own, here = (None if given is None else np.asarray(given) for given in (labels, present))
    arrays = (own, here, *summaries)
    if len(summaries) > NEIGHBOURS or any(array is not None and array.dtype.kind not in "biuf" for array in arrays):
        return _weights_of(arrays, *options)
    return _remembered(tuple(map(_stored, arrays)), *options)


def _weights_of(
    arrays: Iterable[NDArray[Any] | None],
    classes: int,
    mode: Mode,
    smoothing: float,
    direction: Direction,
    alpha_min: float,
) -> tuple[Floats, Floats]:
    """Of the node's own labels, the clients that are present, and the summaries."""
    labels, present, *rest = arrays
    summaries = [summary for summary in rest if summary is not None]
    found, sizes = pooled_divergences(summaries, classes, mode=mode, smoothing=smoothing, labels=labels)
    signed = mode == "printed"
    return pooled_weights(found, sizes, direction=direction, present=present, alpha_min=alpha_min, signed=signed), found


@lru_cache(maxsize=REMEMBERED)
def _remembered(arrays: tuple[Stored, ...], *options: Any) -> tuple[Floats, Floats]:
    """What comes again, so that nobody may write to it."""
    answer = _weights_of(map(_array, arrays), *options)
    for array in answer:
        array.flags.writeable = False
    return answer


def _stored(array: NDArray[Any] | None) -> Stored:
    return None if array is None else (array.tobytes(), array.dtype.str, array.shape)


def _array(stored: Stored) -> NDArray[Any] | None:
    return None if stored is None else np.frombuffer(stored[0], stored[1]).reshape(stored[2])


def pooled_weights(
    divergences: ArrayLike,
    sizes: ArrayLike,
    *,
    direction: Direction = "divergent",
    present: ArrayLike | None = None,
    alpha_min: float = 0.0,
    signed: bool = False,
) -> Floats:
    """Weights alpha_k of all clients, proportional to KLD_k (equation 13), or to 1/(1 + KLD_k) if ``aligned``.

    Empty clients get 0. If the divergences sum to 0, ``divergent`` weights are the data sizes. With n clients that are
    not empty, alpha_k becomes (1 - n alpha_min) alpha_k + alpha_min. Of clients that are not ``present`` (indices) the
    weight is 0 and the others' are scaled to sum to 1; if they sum to 0 they are the data sizes, if those do, equal.

    A negative divergence counts as 0: ``authors`` has it, from rounding P_k, which otherwise is part of P. If
    ``signed``, as with ``printed``, it is no weight, and ``divergent`` weights are the data sizes.

    >>> pooled_weights([3, 1, 4, 0], [5, 5, 5, 0]).tolist()
    [0.375, 0.125, 0.5, 0.0]
    >>> pooled_weights([3, 1, 4, 0], [5, 5, 5, 0], present=[0, 1]).tolist()
    [0.75, 0.25, 0.0, 0.0]
    """
    if direction not in get_args(Direction):
        raise unknown("direction", direction, get_args(Direction))
    divergences, sizes = _finite("divergences", divergences), _finite("sizes", sizes)
    if len(divergences) != len(sizes):
        raise DataError(
            f"there are {len(divergences)} divergences and {len(sizes)} sizes; there must be one per client"
        )
    if (sizes < 0).any():
        raise DataError(f"sizes must not be negative, found {sizes.min()}")
    here = np.zeros(len(sizes), dtype=bool)
    here[np.arange(len(sizes)) if present is None else _indices("present", present, len(sizes))] = True
    if not here.any():
        raise DataError("no client is present; weights need at least one")
    some = sizes > 0
    n = max(1, int(some.sum()))
    if not 0 <= alpha_min <= (1 + 1e-12) / n:
        raise ConfigError(f"alpha_min = {alpha_min}, but among {n} clients it must be from 0 to {1 / n:.6g}")

    far = np.where(some, np.maximum(divergences, 0.0), 0.0)
    divergent = far if far.sum() >= NONE and not (signed and (divergences < -NONE).any()) else sizes
    weights = _shares(divergent if direction == "divergent" else some / (1 + far))
    weights = max(0.0, 1 - n * alpha_min) * weights + alpha_min * some
    for candidate in (weights, sizes, np.ones(len(sizes))):
        restricted = np.where(here, candidate, 0.0)
        if (restricted > 0).any():
            break
    return _shares(restricted)


def divergences_as_printed(mixtures: Sequence[Mixture], labels: Labels) -> Floats:
    """sum_y P(y) (ln P(y) - ln f_k(y)) with P = sum_k (N_k / N) f_k, of densities f_k that are not normalised; nats.

    Equations 11 and 12 to the letter. A density at whole numbers does not sum to 1, so this is no Kullback-Leibler
    divergence: where the f_k are alike, as with many labels at every client, one with larger densities is "nearer"
    than the pool itself, and its divergence is negative (never all: their mean by size is not). Nothing is floored:
    the logarithms are exact.
    """
    logs = np.array([np.logaddexp.reduce(mixture.log_joint(labels), axis=1) for mixture in mixtures])
    with np.errstate(divide="ignore", over="ignore"):  # a vanishing share; a hostile variance
        shares = np.log(_shares(np.array([mixture.size for mixture in mixtures])))
        pooled = np.logaddexp.reduce(shares[:, None] + logs, axis=0)
        found = (np.exp(pooled) * (pooled - logs)).sum(axis=1)
    return np.asarray(np.clip(found, -LARGEST, LARGEST))


def pmf(mixture: Mixture, labels: Labels) -> Floats:
    """q(y) = f(y) / sum_y' f(y'), the density at the labels as a distribution over them.

    >>> pmf(Mixture(1.0, np.ones(1), np.ones(1), np.ones(1)), np.arange(3)).round(4).tolist()
    [0.2741, 0.4519, 0.2741]
    """
    joint = mixture.log_joint(labels)
    density = np.exp(joint - joint.max()).sum(axis=1)
    return np.asarray(density / density.sum())


def pool(rows: Floats, sizes: Floats, smoothing: float) -> tuple[Floats, Floats]:
    """P = sum_k (N_k / N) P_k and the P_k = (q_k + eps) / (1 + C eps), from q_k in ``rows``.

    Where that is below 1e-12, as it may be without smoothing, P_k is 1e-12 before it is normalised.

    >>> [p.tolist() for p in pool(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([3.0, 1.0]), 0.5)]
    [[0.625, 0.375], [[0.75, 0.25], [0.25, 0.75]]]
    """
    parts = np.maximum((rows + smoothing) / (1 + rows.shape[1] * smoothing), FLOOR)
    parts /= parts.sum(axis=1, keepdims=True)
    return _shares(sizes) @ parts, parts


def pool_as_authors(mixtures: Sequence[Mixture], labels: Labels) -> tuple[Floats, Floats]:
    """P and the P_k as in the authors' program, to compare with: neither is a distribution.

    With pi'_kj = round(pi_kj N_k / N, 5) and
    g(y; mu, v) = exp(-(y - mu + 0.1)^2 / (2 (v + 0.1))) / sqrt(2 pi (v + 0.1)),
    P_k(y) = round(sum_j pi'_kj g(y; mu_kj, v_kj), 4), and P(y) is the sum over all k of what is rounded there.
    """
    shares = _shares(np.array([mixture.size for mixture in mixtures]))
    parts = np.zeros((len(mixtures), len(labels)))
    for k, mixture in enumerate(mixtures):
        spread = np.sqrt(mixture.variances + 0.1)
        density = np.exp(-0.5 * ((labels[:, None] - mixture.means + 0.1) / spread) ** 2) / (np.sqrt(2 * np.pi) * spread)
        parts[k] = (density * np.round(mixture.weights * shares[k], 5)).sum(axis=1)
    return parts.sum(axis=0), np.round(parts, 4)


def _mixture(summary: NDArray[Any], classes: int, name: str) -> tuple[Mixture, Floats]:
    """The mixture that a client has sent, and its :func:`pmf` over the classes."""
    if np.array_equal(summary, [0.0]):
        return Mixture(0.0, np.ones(1), np.zeros(1), np.ones(1)), np.zeros(classes)
    if summary.dtype.kind not in "biuf":
        raise DataError(f"{name}: a mixture must be a vector of numbers, but it holds something else")
    try:
        return _read(summary.tobytes(), summary.dtype.str, summary.shape, classes)
    except DataError as error:
        raise DataError(f"{name}: {error}") from None


@lru_cache(maxsize=REMEMBERED)
def _read(stored: bytes, dtype: str, shape: tuple[int, ...], classes: int) -> tuple[Mixture, Floats]:
    mixture = Mixture.from_vector(np.frombuffer(stored, dtype).reshape(shape))
    if mixture.means.min() < -1e-6 or mixture.means.max() > classes - 1 + 1e-6:
        found = mixture.means.tolist()
        raise DataError(f"the means are {found}, but a mean of labels must be from 0 to {classes - 1}")
    return mixture, pmf(mixture, np.arange(classes))


def _counts(summary: NDArray[Any], classes: int, name: str) -> Floats:
    counts = _finite(name, summary)
    if len(counts) != classes or counts.min() < 0 or counts.max() > MOST:
        raise DataError(f"{name} must be {classes} label counts from 0 to {MOST:g}, found {counts.tolist()}")
    return counts


def _finite(name: str, values: ArrayLike) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{name} must be a vector of numbers, but holds something else") from None
    if array.ndim != 1 or not np.isfinite(array).all():
        raise DataError(f"{name} must be a vector of finite numbers, found {array.tolist()}")
    return array


def _indices(name: str, values: ArrayLike, end: int) -> Labels:
    """Distinct whole numbers from 0 to ``end - 1``, ascending."""
    found = np.unique(np.asarray(values))
    if len(found) and not (found.dtype.kind in "iu" and found[0] >= 0 and found[-1] < end):
        raise DataError(f"{name} must be whole numbers from 0 to {end - 1}, found {found.tolist()}")
    return found.astype(np.int64)


def _shares(sizes: Floats) -> Floats:
    """What each is of the sum; all 0 if that is."""
    largest = sizes.max(initial=0.0)
    scaled = sizes / largest if largest > 0 else sizes  # the sum could overflow
    return np.asarray(scaled / (scaled.sum() or 1.0))
