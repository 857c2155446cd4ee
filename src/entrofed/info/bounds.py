"""The computable terms of two papers' bounds, round by round. Terms, never a bound: its constants are not known.

Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors,
Theorem 1 (equation 5) and Theorem 2 (equation 7); Le et al., "FedKLEntropy: Enhancing Federated Learning via Model
Entropy and Kullback-Leibler Divergence", Theorem 1 (equation 10). What they assume, what is wrong with them, and how to
read each term is in :mod:`entrofed.info.theorems`.

The theorems speak of sources Z = (X, Y); here label distributions P_i stand in for them. As H(Z) = H(Y) + H(X|Y), label
entropies are lower bounds of source entropies, and they rank clients alike only if every class is equally varied
inside. If clients differ in their labels alone, KL(P_i || P_j) of labels is exactly that of sources. Entropies are in
nats, and the loss bound b is divided out.
"""

from dataclasses import dataclass
from math import inf, nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from entrofed.errors import ConfigError, DataError
from entrofed.info.entropy import Floats, distribution, entropy_of_counts

SMOOTHING = 0.01
"""Share of labels that is replaced by random ones before distributions are compared."""


@dataclass(frozen=True)
class InfoDivTerms:
    """The terms of equations 5 and 7 that can be computed in a round; their formulas are in ``READINGS``.

    Entropies of several sources are sums, as for independent ones. Assumption 2 says nothing about absent clients
    among each other; there the sum is an upper bound. Distributions are compared as in :func:`cross_entropies`.
    """

    clients: int
    participants: int
    selected: int
    weighted_entropy: float
    joint_entropy: float
    participant_entropy: float
    participation_gap: float
    absent: float
    participation_factor: float
    selection_factor: float
    unselected_cross_entropy: float
    cohort_cross_entropy: float
    redundancy_gap: float
    selected_cross_entropy: float
    selected_spread: float
    collision: float
    samples: int
    effective_samples: float
    weight_spread: float
    uncovered: int
    uncovered_by_cohort: int


@dataclass(frozen=True)
class Alignment:
    """How well the step of a round follows the gradient; see :func:`alignment_error`."""

    error: float
    cosine: float
    step: float
    gradient: float
    stretch: float


def participation_factors(clients: int, participants: int, selected: int) -> tuple[float, float]:
    """3 - 2M/N and 2 - 2K/M - 1/K, by which equation 7 multiplies b H(Z^I) and b H(Z^Ip).

    >>> participation_factors(100, 40, 10)
    (2.2, 1.4)
    """
    if not 1 <= selected <= participants <= clients:
        raise DataError(f"1 <= K <= M <= N must hold, found K = {selected}, M = {participants}, N = {clients}")
    return 3 - 2 * participants / clients, 2 - 2 * selected / participants - 1 / selected


def cross_entropies(label_counts: ArrayLike, *, smoothing: float = SMOOTHING) -> Floats:
    """H(Q_i, Q_j) = -sum_c Q_i(c) ln Q_j(c) in nats for all clients i (rows) and j (columns); NaN if one is empty.

    Q = (1 - s) P + s / C: as if a share s of the labels were drawn at random. Differs from the paper (below equation
    7): both distributions are smoothed, because H(P_i, P_j) is infinite as soon as j lacks a label of i, the rule under
    label skew. By the data processing inequality KL(Q_i || Q_j) <= KL(P_i || P_j), so smoothing never overstates a
    difference; equal clients keep KL = 0, and only frequencies matter. A missing label costs ln(C / s), 6.9 nats for 10
    classes; with a share of 1e-12 it would cost 30 and decide everything. :func:`covers` tells what was infinite.

    >>> cross_entropies([[8, 0], [5, 5]]).round(3).tolist()
    [[0.031, 0.693], [2.652, 0.693]]
    """
    if not 0 < smoothing <= 1:
        raise ConfigError(f"smoothing = {smoothing}, but must be above 0 and at most 1")
    p, full = _frequencies(_table(label_counts))
    q = (1 - smoothing) * p[full] + smoothing / p.shape[1]
    found = np.full((len(p), len(p)), nan)
    found[np.ix_(full, full)] = np.maximum(-(q @ np.log(q).T), 0.0)
    return found


def covers(label_counts: ArrayLike) -> NDArray[np.bool_]:
    """Whether client j (columns) has every label of i (rows): only then is H(P_i, P_j) finite without smoothing.

    >>> covers([[8, 0], [5, 5]]).tolist()
    [[True, True], [False, True]]
    """
    held = (_table(label_counts) > 0).astype(np.float32)
    return np.asarray(held @ (1 - held).T == 0)


class Sources:
    """All clients' label distributions, compared once for many rounds. Clients without data count in no N, M or K."""

    def __init__(self, label_counts: ArrayLike, participants: ArrayLike) -> None:
        counts = _table(label_counts)
        p, full = _frequencies(counts)
        rows = _clients("participants", participants, len(counts))
        self._among = rows[full[rows]]
        if not len(self._among):
            raise DataError(f"no participant holds data, at least one must; participants are {rows.tolist()}")
        self._sizes, self._entropies, self._collisions = counts.sum(axis=1), entropy_of_counts(counts), (p * p).sum(1)
        self._clients = int(full.sum())
        self._place = {client: place for place, client in enumerate(self._among.tolist())}
        # [j, i]: the rows of a cohort lie together
        self._cross = np.ascontiguousarray(cross_entropies(counts[self._among]).T)
        self._covers = np.ascontiguousarray(covers(counts[self._among]).T)
        others = ~np.eye(len(self._among), dtype=np.bool_)
        self._nearest = self._cross.min(axis=0, where=others, initial=inf)
        self._covered = (self._covers & others).any(axis=0)
        self._spread = self._cross.mean(axis=0)

    def terms(self, cohort: ArrayLike, weights: ArrayLike) -> InfoDivTerms:
        """The computable terms of equations 5 and 7 for one round.

        ``cohort`` I_t are client numbers; ``weights`` alpha belong to the cohort and sum to 1. If nobody is left out,
        what sums over those is 0. A single participant has no nearest other: ``selected_cross_entropy`` is NaN.

        Equation 7 holds for any j, so the smallest cross entropy is taken. A cross entropy is not 0 between equals, but
        H(P_i): ``redundancy_gap`` subtracts it.

        >>> terms = Sources([[8, 0], [8, 0], [5, 5], [1, 1]], [0, 1, 2]).terms([0, 2], [0.5, 0.5])
        >>> terms.absent, round(terms.redundancy_gap, 9), round(terms.weighted_entropy, 6), terms.uncovered
        (0.25, 0.0, 0.346574, 0)
        """
        chosen = _clients("cohort", cohort, len(self._sizes))
        strange = [client for client in chosen.tolist() if client not in self._place]
        if strange:
            raise DataError(f"cohort must be participants with data; these are not: {strange}")
        alpha = _weights(weights, len(chosen))
        places = np.array([self._place[client] for client in chosen.tolist()])
        left = np.ones(len(self._among), np.bool_)
        left[places] = False
        N, M, K = self._clients, len(self._among), len(chosen)
        factors = participation_factors(N, M, K)
        to_cohort = self._cross[places].min(axis=0)[left]
        gaps = np.maximum(to_cohort - self._cross.diagonal()[left], 0.0)
        weighted, joint = float(alpha @ self._entropies[chosen]), float(self._entropies.sum())
        return InfoDivTerms(
            clients=N,
            participants=M,
            selected=K,
            weighted_entropy=weighted,
            joint_entropy=joint,
            participant_entropy=float(self._entropies[self._among].sum()),
            participation_gap=3 * joint - weighted,
            absent=1 - M / N,
            participation_factor=factors[0],
            selection_factor=factors[1],
            unselected_cross_entropy=float(self._nearest[left].sum()) / K,
            cohort_cross_entropy=float(to_cohort.sum()) / K,
            redundancy_gap=float(gaps.mean()) if len(gaps) else 0.0,
            selected_cross_entropy=float(self._nearest[places].mean()) if M > 1 else nan,
            selected_spread=float(self._spread[places].mean()),
            collision=float(self._collisions[chosen].sum()),
            samples=int(self._sizes[chosen].sum()),
            effective_samples=float(1 / (alpha**2 / self._sizes[chosen]).sum()),
            weight_spread=float(np.abs(alpha - 1 / K).max()),
            uncovered=int((left & ~self._covered).sum()),
            uncovered_by_cohort=int((left & ~self._covers[places].any(axis=0)).sum()),
        )


def alignment_error(step: ArrayLike, gradient: ArrayLike, lr: float) -> Alignment:
    """A_t = ||s + lr g||^2 (equation 10), the cosine of s and -g, and lengths.

    s = sum_k alpha_k (w_k - w_t) over trainable parameters, g = grad L(w_t) of the loss over all clients' data. The
    paper's A_t is an expectation; this is the value of one round. After many local steps, or with momentum, s is many
    times lr g, and A_t is mostly its squared length: E equal steps give (E - 1)^2 lr^2 ||g||^2 although nothing is
    misaligned. The cosine tells how well directions agree; NaN if a vector is zero.

    >>> found = alignment_error([-0.3, 0.0], [1.0, 0.0], lr=0.1)
    >>> round(found.error, 12), found.cosine, round(found.stretch, 12)
    (0.04, 1.0, 3.0)
    """
    s, g = np.asarray(step, np.float64), np.asarray(gradient, np.float64)
    if s.ndim != 1 or s.shape != g.shape:
        raise DataError(f"step and gradient must be vectors of one length, found shapes {s.shape} and {g.shape}")
    if not (np.isfinite(s).all() and np.isfinite(g).all()):
        raise DataError("step and gradient must be finite; a model that diverged has no alignment")
    if not 0 < lr < inf:
        raise ConfigError(f"lr = {lr}, but must be a positive number")
    difference = s + lr * g
    step_length, length = float(np.linalg.norm(s)), float(np.linalg.norm(g))
    defined = step_length > 0 and length > 0
    return Alignment(
        error=float(difference @ difference),
        cosine=float(np.clip((s / step_length) @ (-g / length), -1, 1)) if defined else nan,
        step=step_length,
        gradient=length,
        stretch=step_length / (lr * length) if length > 0 else nan,
    )


def _table(label_counts: ArrayLike) -> Floats:
    counts = np.asarray(label_counts, np.float64)
    if counts.ndim != 2:
        raise DataError(f"label_counts must be clients x classes, found shape {counts.shape}")
    wrong = np.argwhere(~(np.isfinite(counts) & (counts >= 0)))
    if len(wrong):
        i, c = wrong[0]
        raise DataError(f"label_counts[{i}, {c}] = {counts[i, c]}, but must be finite and not negative")
    return counts


def _frequencies(counts: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Each row divided by its sum, and which rows are not empty; empty rows stay 0."""
    total = counts.sum(axis=1, keepdims=True)
    full: NDArray[np.bool_] = np.asarray(total[:, 0] > 0)
    return np.divide(counts, total, out=np.zeros_like(counts), where=total > 0), full


def _weights(weights: ArrayLike, clients: int) -> Floats:
    alpha = distribution("weights", weights)
    if alpha.shape != (clients,):
        raise DataError(f"weights must be one for each of {clients} clients, found shape {alpha.shape}")
    return alpha


def _clients(name: str, values: ArrayLike, end: int) -> NDArray[np.int64]:
    """Client numbers, refused unless they are distinct, from 0 to end - 1, and at least one."""
    found = np.asarray(values)
    if found.ndim != 1 or not len(found) or found.dtype.kind not in "iu":
        raise DataError(f"{name} must be a list of at least one client number, found {values!r}")
    if found.min() < 0 or found.max() >= end or len(np.unique(found)) < len(found):
        raise DataError(f"{name} must be distinct numbers from 0 to {end - 1}, found {found.tolist()}")
    return found.astype(np.int64)
