"""How spread out a distribution is. Pure functions; the last axis is the classes, all others are kept.

Everything is computed in float64, with 0 log 0 = 0.
"""

from math import log, log2
from typing import Literal, get_args

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from entrofed.errors import DataError, unknown

Base = Literal["nats", "bits"]
Floats = NDArray[np.float64]

FEW = 256
"""Up to so many values, ``-p log p`` is computed without scipy.special, which takes longer to load than a short run."""


def entropy(p: ArrayLike, *, base: Base = "nats") -> Floats:
    """Shannon entropy H(p) = -sum_c p_c log p_c, from 0 to log C (rounding never leads outside).

    >>> float(entropy([0.5, 0.25, 0.25], base="bits"))
    1.5
    """
    return _shannon(distribution("p", p), base)


def entropy_of_counts(counts: ArrayLike, *, base: Base = "nats") -> Floats:
    """Entropy of the distribution counts / sum(counts); 0 where there is nothing to count.

    >>> entropy_of_counts([[10, 10, 0], [0, 0, 0]], base="bits").tolist()
    [1.0, 0.0]
    """
    counts = _non_negative("counts", counts)
    total = counts.sum(axis=-1, keepdims=True)
    return _shannon(np.divide(counts, total, out=np.zeros_like(counts), where=total > 0), base)


def effective_cohort(weights: ArrayLike) -> Floats:
    """Effective number of clients 1 / sum_k alpha_k^2 behind aggregation weights alpha, which sum to 1.

    >>> float(effective_cohort([0.5, 0.5, 0.0]))
    2.0
    """
    return np.asarray(1 / np.square(distribution("weights", weights)).sum(axis=-1))


def distribution(name: str, values: ArrayLike) -> Floats:
    """The values as float64, refused with their place unless the last axis sums to 1 within 1e-6."""
    array = _non_negative(name, values)
    total = np.asarray(array.sum(axis=-1))
    if (wrong := np.abs(total - 1) > 1e-6).any():
        place = tuple(np.argwhere(wrong)[0])
        found = f"{_place(name, place)} sums to {total[place]:.9g}, not 1"
        raise DataError(f"{found}; pass probabilities, not logits or counts")
    return array


def _non_negative(name: str, values: ArrayLike) -> Floats:
    """The values as float64, refused with their place if one is negative or not finite."""
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 0 or array.shape[-1] == 0:
        raise DataError(f"{name} must have at least one class along the last axis, but its shape is {array.shape}")
    if not (right := np.isfinite(array) & (array >= 0)).all():
        place = tuple(np.argwhere(~right)[0])
        raise DataError(f"{_place(name, place)} = {array[place]}, but must be finite and not negative")
    return array


def _place(name: str, place: tuple[np.intp, ...]) -> str:
    return f"{name}[{', '.join(map(str, place))}]" if place else name


def _shannon(p: Floats, base: Base) -> Floats:
    if base not in get_args(Base):
        raise unknown("base", base, get_args(Base))
    unit, most = (log(2), log2(p.shape[-1])) if base == "bits" else (1.0, log(p.shape[-1]))
    return np.asarray(np.clip(_surprises(p).sum(axis=-1) / unit, 0.0, most))


def _surprises(p: Floats) -> Floats:
    """``-p log p`` of every value; both ways call the C library's logarithm, and so have the same bits."""
    if p.size > FEW:
        return np.asarray(scipy.special.entr(p))
    return np.array([-q * log(q) if q > 0 else 0.0 for q in p.ravel().tolist()]).reshape(p.shape)
