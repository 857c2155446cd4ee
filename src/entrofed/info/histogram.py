"""How far the values of models lie from those of a reference: histograms, their divergences, weights from these.

Bins contain their lower edge; the last one contains its upper edge too. Values are finite; a vector is never copied
as a whole to be counted in equal bins.
"""

from collections.abc import Sequence
from math import ceil, inf
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from entrofed.errors import ConfigError, DataError, unknown
from entrofed.info.divergence import js, kl
from entrofed.info.entropy import Floats

Binning = Literal["minmax", "quantile", "fd"]
Divergence = Literal["kl", "js"]
Weighting = Literal["inverse", "one_minus_share"]
Vector = NDArray[np.floating[Any]]
Counts = NDArray[np.int64]

BLOCK = 1 << 16
"""Values counted at a time, so that what is computed from them stays in the processor's cache."""
SLACK = 1 / 16
"""Bins that an edge may lie off its place; beyond that so many values are near edges that nothing is gained."""
FLOOR = 1e-12
"""Probability that an empty bin gets."""
FEWEST, MOST = 10, 1000
"""Bins that the Freedman-Diaconis rule may ask for."""


def equal_bins(low: float, high: float, bins: int, dtype: DTypeLike) -> Vector:
    """The ``bins + 1`` edges e_i = low + (high - low) i / bins that :func:`numpy.histogram` has for values of a type.

    Their type is the widest of the three arguments', where a Python float has none. A range of width 0 becomes 1 wide.

    >>> equal_bins(0.0, 1.0, 4, np.float32)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ], dtype=float32)
    """
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, found {bins}")
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    with np.errstate(over="ignore"):  # of the last edge, which is then set to high
        return np.linspace(low, high, bins + 1, dtype=np.result_type(low, high, np.dtype(dtype)))


def count_equal(values: Vector, low: float, high: float, bins: int) -> Counts:
    """``numpy.histogram(values, bins, (low, high))[0]`` to the last value, in less than half the time.

    Rounding never reverses the order of f(x) = (x - low) bins / (high - low). So if no f(e_i) is further than s from
    i, the integer part of f(x) is the bin of x unless f(x) is within s of a whole number: only these few values are
    compared with the edges.

    Values outside the range must not occur: they may be counted in an outer bin or be an error. A range too narrow
    for so many distinct edges, which numpy refuses, has bins without width, and they stay empty.

    >>> count_equal(np.array([0.0, 0.25, 0.3, 1.0]), 0.0, 1.0, 4).tolist()
    [1, 2, 0, 1]
    """
    edges = equal_bins(low, high, bins, values.dtype)
    if not (edges[:-1] < edges[1:]).all():
        return np.histogram(values, np.maximum.accumulate(edges))[0]
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = edges.astype(values.dtype)
        first = rounded[0]
        scale = values.dtype.type(bins / (float(edges[-1]) - float(edges[0])))
        slack = np.abs((rounded - first) * scale - np.arange(bins + 1, dtype=values.dtype)).max()
    if not slack <= SLACK:  # a range of few or tiny numbers
        return np.histogram(values, bins, (low, high))[0]
    counts, room = np.zeros(bins, np.int64), min(BLOCK, len(values))
    places, gaps = np.empty(room, values.dtype), np.empty(room, values.dtype)
    indices, close = np.empty(room, np.int32), np.empty(room, np.bool_)
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        place, gap, index, near = (scratch[: len(block)] for scratch in (places, gaps, indices, close))
        np.subtract(block, first, out=place)
        np.multiply(place, scale, out=place)
        np.copyto(index, place, casting="unsafe")
        np.rint(place, out=gap)
        np.subtract(place, gap, out=gap)
        np.abs(gap, out=gap)
        np.less_equal(gap, slack, out=near)
        doubtful = np.flatnonzero(near)
        index[doubtful] = edges[1:-1].searchsorted(block[doubtful], side="right")
        counts += np.bincount(index, minlength=bins)
    return counts


def count_between(values: Vector, edges: Vector) -> Counts:
    """How many values lie in each [e_i, e_{i+1}), for ascending edges from minus to plus infinity.

    >>> count_between(np.array([1.0, 2.0, 3.0]), np.array([-np.inf, 2.0, np.inf])).tolist()
    [1, 2]
    """
    return np.histogram(values, edges)[0]


def quantile_edges(values: Vector, bins: int) -> Floats:
    """The distinct i / bins quantiles of the values, with the first and the last replaced by minus and plus infinity.

    Bins between them hold about as many values each; where many values are equal there are fewer bins.

    >>> quantile_edges(np.array([0.0, 1.0, 2.0, 3.0, 4.0]), 4).tolist()
    [-inf, 1.0, 2.0, 3.0, inf]
    """
    if bins < 1:
        raise ConfigError(f"bins must be at least 1, found {bins}")
    distinct = np.unique(np.quantile(values, np.arange(bins + 1) / bins))
    return np.concatenate([[-inf], distinct[1:-1], [inf]])


def fd_bins(values: Vector, low: float, high: float) -> int:
    """Number of bins on [low, high] by Freedman and Diaconis (1981): of width 2 IQR d^(-1/3) for d values.

    Never fewer than ``FEWEST`` nor more than ``MOST``, which it is as well if half the values are equal (IQR = 0).

    >>> fd_bins(np.arange(1000.0), 0.0, 2000.0)
    21
    """
    lower, upper = np.quantile(values, [0.25, 0.75]).tolist()
    width = 2 * (upper - lower) * len(values) ** (-1 / 3)
    wanted = (float(high) - float(low)) / width if width > 0 else inf
    return ceil(min(max(wanted, FEWEST), MOST))


def smoothed(counts: ArrayLike) -> Floats:
    """Shares of the bins (last axis): counts / sum, with zeros replaced by ``FLOOR``, again divided by the sum.

    >>> smoothed([3, 1, 0]).round(15).tolist()
    [0.74999999999925, 0.24999999999975, 1e-12]
    """
    counts = np.asarray(counts, np.float64)
    total = counts.sum(axis=-1, keepdims=True)
    if not (total > 0).all():
        raise DataError("a histogram without any value has no shares; leave out models and layers without parameters")
    shares = counts / total
    shares[shares == 0] = FLOOR
    return np.asarray(shares / shares.sum(axis=-1, keepdims=True))


def weight_divergences(
    reference: Vector,
    rows: Sequence[Vector],
    *,
    segments: Sequence[Sequence[slice]] | None = None,
    bins: int = 100,
    binning: Binning = "minmax",
    divergence: Divergence = "kl",
) -> Floats:
    """D_k, in nats: how far the distribution of the values of row k is from that of the reference's values.

    ``D_k = sum_i p_k(i) ln(p_k(i) / p_g(i))`` over the bins of :func:`smoothed` histograms, or Jensen-Shannon's
    divergence of the two. With ``segments``, groups of stretches of the vectors (layers), it is the mean over the
    groups, weighted by their sizes: ``D_k = sum_groups (d_group / d) D_k,group``, each with bins of its own.

    ``binning``: "minmax" are equal bins over the range of the reference and all rows, with edges in float64; "fd" are
    as many of these as :func:`fd_bins` of the reference asks for; "quantile" are those of the reference.

    D is 0 where all values are equal. All D are NaN if a value is not finite or the range too wide for its type.

    >>> weight_divergences(np.array([0, 0, 0, 1.0]), [np.array([0, 0, 0.5, 1]), np.array([0, 0, 0, 1.0])], bins=4)
    array([6.35844913, 0.        ])
    """
    for what, name, kind in ("binning", binning, Binning), ("divergence", divergence, Divergence):
        if name not in get_args(kind):
            raise unknown(what, name, get_args(kind))
    vectors = [reference, *rows]
    for k, row in enumerate(rows):
        if row.shape != reference.shape or row.ndim != 1:
            raise DataError(
                f"row {k} has shape {row.shape}, the reference {reference.shape}; pass equally long vectors"
            )
    groups = [[[v[s] for s in group] for v in vectors] for group in ([[slice(None)]] if segments is None else segments)]
    sizes = np.array([sum(map(len, group[0])) for group in groups], np.float64)
    if not sizes.sum() > 0:
        raise DataError("there are no values to compare; the reference or all its segments are empty")
    total = np.zeros(len(rows))
    measure = kl if divergence == "kl" else js
    for group, share in zip(groups, sizes / sizes.sum(), strict=True):
        if share == 0:
            continue
        low, high = _range(group)
        if not np.isfinite(high - low):
            return np.full(len(rows), np.nan)
        if low == high:
            continue
        shares = smoothed(_histograms(group, low, high, bins, binning))
        total += share * measure(shares[1:], shares[0])
    return total


def divergence_weights(divergences: ArrayLike, *, weighting: Weighting = "inverse", gamma: float = 1.0) -> Floats:
    """Weights that sum to 1 and are the smaller, the larger the divergence D_k >= 0.

    "inverse": ``(1 + D_k)^-gamma / sum_j (1 + D_j)^-gamma``. "one_minus_share": ``(1 - D_k / sum_j D_j) / (n - 1)``,
    none above 1 / (n - 1); it has no gamma. One client gets 1, and all get the same if all D are 0. All weights are
    NaN if a D is not finite.

    >>> divergence_weights([0.0, 1.0]).round(3).tolist()
    [0.667, 0.333]
    >>> divergence_weights([0.0, 1.0, 3.0], weighting="one_minus_share").tolist()
    [0.5, 0.375, 0.125]
    """
    if weighting not in get_args(Weighting):
        raise unknown("weighting", weighting, get_args(Weighting))
    if not 0 <= gamma < inf:
        raise ConfigError(f"gamma must be finite and not negative, found {gamma}")
    D = np.asarray(divergences, np.float64)
    if D.ndim != 1 or not D.size or (D < 0).any():
        raise DataError(f"divergences must be a vector of at least one number, none negative; found {D}")
    if not np.isfinite(D).all():
        return np.full(len(D), np.nan)
    if weighting == "inverse":
        raw = ((1 + D.min()) / (1 + D)) ** gamma  # the largest is 1, so that their sum cannot vanish
        return np.asarray(raw / raw.sum())
    if len(D) == 1 or not D.any():
        return np.full(len(D), 1 / len(D))
    return np.asarray((1 - D / D.sum()) / (len(D) - 1))


def _range(group: list[list[Vector]]) -> tuple[np.float64, np.float64]:
    """Least and largest value of all vectors, NaN if one is; infinitely far apart if their type cannot tell how far."""
    parts = [part for parts in group for part in parts if len(part)]
    with np.errstate(invalid="ignore", over="ignore"):
        low, high = np.min([part.min() for part in parts]), np.max([part.max() for part in parts])
        if not np.isfinite(high - low):
            return np.float64(-inf), np.float64(inf)
    return np.float64(low), np.float64(high)


def _histograms(group: list[list[Vector]], low: float, high: float, bins: int, binning: Binning) -> Counts:
    """Counts of every vector in common bins; the stretches of a vector add up."""
    if binning == "minmax":
        return np.array([sum(count_equal(part, low, high, bins) for part in parts) for parts in group])
    reference = group[0][0] if len(group[0]) == 1 else np.concatenate(group[0])
    if binning == "fd":
        return _histograms(group, low, high, fd_bins(reference, low, high), "minmax")
    edges = quantile_edges(reference, bins)
    return np.array([sum(count_between(part, edges) for part in parts) for parts in group])
