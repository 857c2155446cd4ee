"""Weights under which the mixture of the clients' labels is closest to a target distribution.

With the label distributions ``p_k`` of n clients, a ``target`` q, a ``prior`` pi over the clients and a ``strength``
lambda > 0, the weights minimize over the simplex::

    F(a) = KL(y || q) + lambda KL(a || pi)        y = sum_k a_k p_k        (nats)

Against the uniform q, ``KL(y || q) = ln C - H(y)``: the mixture of largest entropy. F is strictly convex, as a sum of
the convex KL of a linear map and of the strictly convex KL to pi, so that the minimum is unique. Closed forms:
``a = pi`` where all ``p_k`` are equal, ``a_k ~ q_k^(1 / (1 + lambda)) pi_k^(lambda / (1 + lambda))`` where labels are
disjoint. ``lambda`` to infinity gives pi, ``lambda`` to 0 the mixture alone.

The solver is Newton's method; weights grow by steps in ``a`` and shrink by steps in ``ln a``, so that they stay
positive and tiny ones cost no more steps than others. n clients need the solution of C equations (Woodbury). How far
the result is from the minimum is bounded by the Frank-Wolfe gap ``sum_k a_k (g_k - min_j g_j)`` with the gradient g.
"""

from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from entrofed.errors import ConfigError, DataError
from entrofed.info.entropy import Floats

Target = Literal["uniform", "pooled"] | tuple[float, ...]
"""The distribution to come close to: uniform; that of all clients together; or one number per class."""

NEXT_TO_NOTHING = 1e-12
CERTIFIED = 1e-10
"""No result is further from the minimum (nats)."""
LOWEST = -60.0
"""The logarithm of a weight is not followed below this: it is 0 for all that matters."""
MOST_STEPS, HALVINGS = 100, 50
SMALL, TOLERANCE = 1e-11, 1e-15
"""Gaps below which a solution is good, if steps no longer halve it, and in any case."""


def check_target(where: str, target: Target) -> None:
    """Raise a ConfigError unless every class of a given target has a share."""
    if not isinstance(target, str) and not (len(target) and all(0 < share < np.inf for share in target)):
        raise ConfigError(
            f"{where}: target = {list(target)}: one finite number above 0 is needed for each class, because the "
            "divergence from a target that lacks a class is infinite; or say 'uniform' or 'pooled'"
        )


def target_distribution(target: Target, counts: Floats, where: str) -> Floats:
    """The target ``[class]`` among clients with these label ``counts``; a class that nobody holds may have 0.

    >>> target_distribution("pooled", np.array([[3.0, 0.0], [0.0, 1.0]]), "selector").tolist()
    [0.75, 0.25]
    """
    classes = counts.shape[1]
    if target == "uniform":
        return np.full(classes, 1 / classes)
    shares = counts.sum(axis=0) if isinstance(target, str) else np.array(target, np.float64)
    if len(shares) != classes:
        raise ConfigError(f"{where}: target has {len(shares)} numbers, and there are {classes} classes")
    return np.asarray(shares / shares.sum(), np.float64) if shares.any() else np.full(classes, 1 / classes)


def present_shares(counts: Floats) -> tuple[float, ...]:
    """Counts of all clients together as a target in numbers: a class that nobody holds has next to nothing.

    >>> present_shares(np.array([3.0, 1.0, 0.0]))
    (0.75, 0.25, 1e-12)
    """
    positive = np.maximum(np.asarray(counts, np.float64), 0.0)
    return tuple(np.maximum(positive / (positive.sum() or 1.0), NEXT_TO_NOTHING).tolist())


def label_rows(counts: ArrayLike, prior: Floats) -> Floats:
    """Label distributions ``[client, class]`` from counts, noised as they may be: below 0 counts as 0.

    Of a client without counts nothing is known: it counts as the others' mixture by the ``prior``, which neither draws
    nor repels weight; if nobody has any, all rows are 0, and the prior decides alone.

    >>> label_rows([[3.0, 1.0], [-2.0, 5.0], [0.0, 0.0]], np.ones(3)).tolist()
    [[0.75, 0.25], [0.0, 1.0], [0.375, 0.625]]
    """
    counts = np.maximum(np.asarray(counts, np.float64), 0.0)
    total = counts.sum(axis=-1, keepdims=True)
    some = total[:, 0] > 0
    rows = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0)
    if not some.all():
        shares = prior * some
        rows[~some] = shares @ rows / (shares.sum() or 1.0)
    return np.asarray(rows, np.float64)


def maxent_weights(
    rows: ArrayLike, target: ArrayLike, prior: ArrayLike, *, strength: float, least: float = 1.0
) -> tuple[Floats, float]:
    """The weights of clients with the label distributions ``rows``, and a bound on how far they are from the minimum.

    ``least``: the effective number of clients ``1 / sum_k a_k^2`` is at least that, or all n with equal weights. The
    constraint's multiplier mu is found by a root of ``sum_k a_k(mu)^2 = 1 / least``, where ``a(mu)`` minimizes
    ``F(a) + mu sum_k a_k^2``; then the bound is the gap of that, plus ``mu (1 / least - sum_k a_k^2)``.

    >>> weights, gap = maxent_weights([[1, 0], [1, 0], [0, 1]], [0.5, 0.5], [1, 1, 1], strength=1e-3)
    >>> weights.round(3).tolist(), gap < 1e-12
    ([0.25, 0.25, 0.5], True)
    """
    rows, target, prior = (np.asarray(array, np.float64) for array in (rows, target, prior))
    n = len(rows)
    if not 0 < strength < np.inf:
        raise DataError(f"strength = {strength} must be above 0, and finite")
    if not ((prior > 0) & (prior < np.inf)).all():
        raise DataError(f"prior must be finite and above 0, found {prior.tolist()}")
    if (rows[:, target <= 0] > 0).any():
        raise DataError("clients hold a class that the target lacks: the divergence from it is infinite")
    if least >= n:
        return np.full(n, 1 / n), 0.0
    log_prior = np.log(prior / prior.sum())

    def solved(mu: float) -> tuple[Floats, float]:
        logs, _, gap = solve(rows[None], target, log_prior[None], strength, mu)
        return np.exp(logs[0]), float(gap[0])

    weights, gap = solved(0.0)
    if weights @ weights <= 1 / least:
        return weights, gap
    high = 1.0
    while (weights := solved(high)[0]) @ weights > 1 / least:
        high *= 4
    mu = scipy.optimize.brentq(lambda mu: np.square(solved(mu)[0]).sum() - 1 / least, 0.0, high, xtol=1e-15, rtol=1e-15)
    weights, gap = solved(mu)
    return weights, gap + abs(mu * (1 / least - weights @ weights))


def solve(
    rows: Floats, target: Floats, log_prior: Floats, strength: float, mu: float = 0.0
) -> tuple[Floats, Floats, Floats]:
    """``ln a``, the minimum of ``F(a) + mu sum_k a_k^2``, its gap; of many problems, ``[problem, client, class]``."""
    log_target = np.log(target, out=np.zeros(len(target)), where=target > 0)
    logs = log_prior - scipy.special.logsumexp(log_prior, axis=1, keepdims=True)
    value, slopes, mixture = _value(rows, log_target, log_prior, strength, mu, logs)
    gap = _gap(logs, slopes)
    left = np.flatnonzero(gap > TOLERANCE)
    for _ in range(MOST_STEPS):
        if not len(left):
            break
        step, promise = _newton(rows[left], mixture[left], strength, mu, logs[left], slopes[left])
        tried, length, slow = left, 1.0, left[:0]
        for _ in range(HALVINGS):
            change = length * step
            new = np.maximum(logs[tried] + np.minimum(change, np.log1p(np.maximum(change, 0.0))), LOWEST)
            new -= scipy.special.logsumexp(new, axis=1, keepdims=True)
            found = _value(rows[tried], log_target, log_prior[tried], strength, mu, new)
            found_gap = _gap(new, found[1])
            # near the minimum values differ by rounding alone, and the gap decides
            better = np.where(
                promise < 1e-10, found_gap < gap[tried], found[0] <= value[tried] - 0.1 * length * promise
            )
            good = tried[better]
            crawls = (found_gap[better] <= SMALL) & (found_gap[better] > gap[good] / 2)
            slow = np.concatenate([slow, good[crawls]])
            logs[good], gap[good] = new[better], found_gap[better]
            value[good], slopes[good], mixture[good] = (array[better] for array in found)
            tried, step, promise, length = tried[~better], step[~better], promise[~better], length / 2
            if not len(tried):
                break
        left = np.setdiff1d(left[gap[left] > TOLERANCE], np.concatenate([slow, tried]))
    return logs, value, gap


def _value(
    rows: Floats, log_target: Floats, log_prior: Floats, strength: float, mu: float, logs: Floats
) -> tuple[Floats, Floats, Floats]:
    """The objective, its gradient up to a constant, and the mixture."""
    weights = np.exp(logs)
    mixture = np.einsum("bk,bkc->bc", weights, rows)
    ratio = np.log(mixture, out=np.zeros_like(mixture), where=mixture > 0) - np.where(mixture > 0, log_target, 0.0)
    off = logs - log_prior
    slopes = np.einsum("bkc,bc->bk", rows, ratio) + strength * off + 2 * mu * weights
    value = (mixture * ratio).sum(axis=1) + (weights * (strength * off + mu * weights)).sum(axis=1)
    return value, slopes, mixture


def _gap(logs: Floats, slopes: Floats) -> Floats:
    return np.asarray((np.exp(logs) * (slopes - slopes.min(axis=1, keepdims=True))).sum(axis=1))


def _newton(
    rows: Floats, mixture: Floats, strength: float, mu: float, logs: Floats, slopes: Floats
) -> tuple[Floats, Floats]:
    """Newton's step relative to the weights, which keeps their sum, and what it promises.

    With the Hessian ``G G^T + D^-1``, ``G = rows / sqrt(y)`` and ``D = a / (lambda + 2 mu a)``, the step is
    ``(b - G K^-1 G^T D b) / (lambda + 2 mu a)`` with ``K = I + G^T D G`` and ``b = nu - g``; nu makes the sum constant.
    """
    weights = np.exp(logs)
    root = np.sqrt(mixture)
    scaled = rows * np.divide(1.0, root, out=np.zeros_like(root), where=root > 0)[:, None, :]
    curvature = strength + 2 * mu * weights
    damped = scaled * (weights / curvature)[:, :, None]
    inner = np.eye(rows.shape[2]) + np.einsum("bkc,bkd->bcd", damped, scaled)
    sides = np.stack([np.ones_like(slopes), slopes], axis=2)
    half = np.linalg.solve(inner, np.einsum("bkc,bks->bcs", damped, sides))
    both = (sides - np.einsum("bkc,bcs->bks", scaled, half)) / curvature[:, :, None]
    level = (weights * both[:, :, 1]).sum(axis=1) / (weights * both[:, :, 0]).sum(axis=1)
    step = level[:, None] * both[:, :, 0] - both[:, :, 1]
    return step, -(weights * slopes * step).sum(axis=1)
