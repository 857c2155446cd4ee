"""Label counts that a client releases once, with Laplace noise on each.

Differential privacy of the whole vector costs ``epsilon`` once: the classes are disjoint, so adding or removing one
record changes one count by one (L1 sensitivity 1, the neighbouring notion of the FedEntOpt paper), and replacing a
record changes two (sensitivity 2). ``client``: all of a client's labels at once; with the number of its examples taken
as known, its counts change by that number together, and noise of that size leaves little but the largest classes. The
noise is Laplace with scale ``sensitivity / epsilon``, by OpenDP, which samples
exactly on a grid of floating-point numbers: textbook Laplace sampling leaks through the gaps between floats. The server
clips at zero, which is post-processing, and does not round. Noise drawn from a run's seed has the same distribution,
but anybody who knows the seed can draw it again: it simulates privacy and gives none.

Reference: FedEntOpt, differentially private label counts (Laplace noise, epsilon 0.5).
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from entrofed.core.types import MAX_COUNT
from entrofed.errors import ConfigError, DataError

Neighbours = Literal["add_remove", "replace", "client"]


def sensitivity(counts: NDArray[np.int64], neighbours: Neighbours) -> NDArray[np.float64]:
    """The L1 sensitivity of each row.

    >>> sensitivity(np.array([[3, 1], [0, 0]]), "client").tolist()
    [4.0, 1.0]
    """
    if neighbours == "client":
        return np.asarray(np.maximum(counts.sum(axis=1), 1), np.float64)
    return np.full(len(counts), 1.0 if neighbours == "add_remove" else 2.0)


@dataclass(frozen=True)
class Release:
    """Label counts as they left the clients, and what that cost each of them."""

    counts: NDArray[np.float64]
    """``[client, class]``; noised counts are clipped at zero."""
    spent: dict[str, Any]


def checked_counts(counts: NDArray[Any], classes: int) -> NDArray[np.int64]:
    """Label counts as integers, or a DataError that says which entry cannot be one."""
    counts = np.asarray(counts)
    if counts.ndim != 2 or counts.shape[1] != classes:
        raise DataError(f"label counts have shape {counts.shape}; they need one row a client and {classes} columns")
    if counts.dtype.kind not in "iuf":
        raise DataError(f"label counts must be numbers, found {counts.dtype}")
    bad = ~np.isfinite(counts) | (counts < 0) | (counts > MAX_COUNT) | (counts != np.floor(counts))
    if bad.any():
        client, label = np.argwhere(bad)[0]
        raise DataError(
            f"label counts: client {client}, class {label} has {counts[client, label]}; "
            f"a count is a whole number between 0 and {MAX_COUNT}"
        )
    return counts.astype(np.int64)


def release(
    counts: NDArray[np.int64], epsilon: float, neighbours: Neighbours, rng: np.random.Generator | None = None
) -> Release:
    """Noise every count; with ``rng``, only a simulation of privacy."""
    if not 0 < epsilon < float("inf"):
        raise ConfigError(f"privacy.epsilon = {epsilon}: it must be a finite number above 0 (the paper takes 0.5)")
    scales = sensitivity(counts, neighbours) / epsilon
    noised = _opendp(counts, scales) if rng is None else counts + rng.laplace(scale=scales[:, None], size=counts.shape)
    spent = {
        "epsilon": epsilon,
        "neighbours": neighbours,
        "mechanism": "Laplace (OpenDP)" if rng is None else "Laplace from the run's seed: simulated, not private",
        "scale": float(scales.mean()),
    }
    return Release(np.maximum(noised, 0), spent)


def _opendp(counts: NDArray[np.int64], scales: NDArray[np.float64]) -> NDArray[np.float64]:
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain, metric = dp.vector_domain(dp.atom_domain(T="f64", nan=False)), dp.l1_distance(T="f64")
    mechanisms = {scale: dp.m.make_laplace(domain, metric, scale=scale) for scale in set(scales.tolist())}
    rows = zip(counts.astype(np.float64).tolist(), scales.tolist(), strict=True)
    return np.array([mechanisms[scale](row) for row, scale in rows], np.float64)
