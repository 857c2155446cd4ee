"""How far apart two distributions are, in nats. Pure functions; the last axis is the classes.

The other axes of both arguments broadcast. Everything is computed in float64, with 0 log 0 = 0.
"""

from math import log

import numpy as np
import scipy
from numpy.typing import ArrayLike

from entrofed.errors import DataError
from entrofed.info.entropy import Floats, distribution


def cross_entropy(p: ArrayLike, q: ArrayLike) -> Floats:
    """H(p, q) = -sum_c p_c ln q_c = H(p) + KL(p || q); infinite where q lacks a class that p has.

    >>> round(float(cross_entropy([1, 0], [0.5, 0.5])), 12)
    0.69314718056
    """
    p, q = _pair(p, q)
    with np.errstate(divide="ignore"):
        return np.asarray(np.maximum(-scipy.special.xlogy(p, q).sum(axis=-1), 0.0))


def kl(p: ArrayLike, q: ArrayLike) -> Floats:
    """Kullback-Leibler divergence KL(p || q) = sum_c p_c ln(p_c / q_c) >= 0.

    Infinite where q lacks a class that p has. Against the uniform distribution it is ln C - H(p).

    >>> round(float(kl([1, 0], [0.5, 0.5])), 12), float(kl([0.5, 0.5], [1, 0]))
    (0.69314718056, inf)
    """
    p, q = _pair(p, q)
    return np.asarray(np.maximum(scipy.special.rel_entr(p, q).sum(axis=-1), 0.0))


def js(p: ArrayLike, q: ArrayLike) -> Floats:
    """Jensen-Shannon divergence KL(p || m)/2 + KL(q || m)/2 with m = (p + q)/2, from 0 to ln 2.

    >>> round(float(js([1, 0], [0, 1])), 12)
    0.69314718056
    """
    p, q = _pair(p, q)
    twice_m = p + q  # halving it could underflow to zero
    total = (scipy.special.rel_entr(2 * p, twice_m) + scipy.special.rel_entr(2 * q, twice_m)).sum(axis=-1) / 4
    return np.asarray(np.clip(total, 0.0, log(2)))


def _pair(p: ArrayLike, q: ArrayLike) -> tuple[Floats, Floats]:
    p, q = distribution("p", p), distribution("q", q)
    if p.shape[-1] != q.shape[-1]:
        raise DataError(f"p has {p.shape[-1]} classes and q has {q.shape[-1]}; they must have the same")
    try:
        np.broadcast_shapes(p.shape, q.shape)
    except ValueError:
        raise DataError(f"p of shape {p.shape} and q of shape {q.shape} do not broadcast") from None
    return p, q
