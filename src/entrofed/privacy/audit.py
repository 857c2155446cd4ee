"""Audits: how much of a client an observer can really tell, as a lower bound of epsilon with confidence.

A mechanism runs many times with a client and without it, in the worst case for the client; whoever can tell the two
apart more often than the claim allows has found a mistake. A bound below the claim proves nothing, and is no claim.

``lower_bound`` makes no assumption on the mechanism: with the true and the false positive rate of a threshold,
``epsilon >= log((TPR - delta) / FPR)``, both rates at the ends of their Clopper-Pearson intervals. ``gaussian``: the
claim is that the mechanism is at least as private as a Gaussian of some ``mu``, and rates give ``mu >= Phi^-1(TPR) -
Phi^-1(FPR)``, which is much tighter. The threshold is chosen on a quarter of the runs and judged on the others.

Reference: Jagielski, Ullman and Oprea, Auditing Differentially Private Machine Learning, NeurIPS 2020; Nasr et al.,
Tight Auditing of Differentially Private Machine Learning, USENIX Security 2023.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import log

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.core.job import no_validation_set
from entrofed.core.params import Layout, Params
from entrofed.core.types import ClientTable, Context, Update, Weights
from entrofed.privacy.accountant import Accounting
from entrofed.privacy.counts import Neighbours, release
from entrofed.privacy.gaussian import gaussian_epsilon
from entrofed.privacy.updates import Private

Doubles = NDArray[np.float64]
CHOOSE = 4
"""A threshold is chosen on one in so many runs."""
Mechanism = Callable[[bool, int], Doubles]
"""What an observer measures, one number a run: with the client or without it, so many runs."""


@dataclass(frozen=True)
class Audit:
    """What was claimed, and what was found."""

    what: str
    claimed: float
    found: float
    """A lower bound of epsilon."""
    delta: float
    trials: int
    confidence: float

    @property
    def holds(self) -> bool:
        """Whether the claim survived."""
        return self.found <= self.claimed


def lower_bound(
    inside: Doubles, outside: Doubles, delta: float, *, gaussian: bool = False, confidence: float = 0.95
) -> float:
    """The largest epsilon that is refuted from below, with confidence; larger numbers speak for the client being there.

    Args:
        inside: Observations with the client.
        outside: Without it.
        delta: Of the claim.
        gaussian: The claim is of a Gaussian mechanism.
        confidence: That the bound is right, both rates together.
    """
    part = len(inside) // CHOOSE, len(outside) // CHOOSE
    candidates = np.quantile(np.concatenate([inside[: part[0]], outside[: part[1]]]), np.linspace(0.01, 0.999, 120))
    rated = [_bound(inside[: part[0]], outside[: part[1]], t, delta, gaussian, confidence) for t in candidates]
    threshold = float(candidates[int(np.argmax(rated))])
    return _bound(inside[part[0] :], outside[part[1] :], threshold, delta, gaussian, confidence)


def _bound(
    inside: Doubles, outside: Doubles, threshold: float, delta: float, gaussian: bool, confidence: float
) -> float:
    error = (1 - confidence) / 2
    hits, alarms = int((inside > threshold).sum()), int((outside > threshold).sum())
    true = 0.0 if hits == 0 else float(scipy.stats.beta.ppf(error, hits, len(inside) - hits + 1))
    false = 1.0 if alarms == len(outside) else float(scipy.stats.beta.ppf(1 - error, alarms + 1, len(outside) - alarms))
    if gaussian:
        mu = float(scipy.stats.norm.ppf(true) - scipy.stats.norm.ppf(false)) if true > 0 and false < 1 else 0.0
        return gaussian_epsilon(max(mu, 0.0), delta)
    return max(log((true - delta) / false), 0.0) if true > delta else 0.0


def audit(
    what: str, mechanism: Mechanism, claimed: float, delta: float, *, trials: int, gaussian: bool = False
) -> Audit:
    """Run a mechanism with a client and without it, and compare what is found with the claim."""
    found = lower_bound(mechanism(True, trials), mechanism(False, trials), delta, gaussian=gaussian)
    return Audit(what, claimed, found, delta, trials, 0.95)


def counts_mechanism(epsilon: float, neighbours: Neighbours = "add_remove", *, real: bool = True) -> Mechanism:
    """Released label counts of a client that has one record more, or has not; ``real``: by OpenDP's sampler."""

    def observe(there: bool, trials: int) -> Doubles:
        counts = np.tile(np.array([50 + there, 50]), (trials, 1))
        rng = None if real else np.random.default_rng(there)
        return release(counts, epsilon, neighbours, rng).counts[:, 0]

    return observe


def updates_mechanism(rule: Private, weights: Weights, steps: int = 1, dim: int = 4) -> Mechanism:
    """The model after rounds in which one client moves as far as it can, and all others stay where they are.

    It is the client with the largest weight; it sends a step a thousand times longer than the clip.
    """
    layout, start = Layout((), dim, dim, 0), Params(np.zeros(dim, np.float32), np.zeros(0, np.int64))
    table, which = ClientTable(np.ones(len(weights), np.int64), trainable=dim), int(np.argmax(weights))
    nobody = [Update(k, start, 1, 1, 0.0, 0.0) for k in range(len(weights))]
    far = Params((np.arange(dim) == 0).astype(np.float32) * np.float32(1000 * rule.clip), start.counters)

    def observe(there: bool, trials: int) -> Doubles:
        updates = [Update(k, far, 1, 1, 0.0, 0.0) if there and k == which else one for k, one in enumerate(nobody)]
        found = np.zeros(trials)
        for trial in range(trials):
            for step in range(steps):
                seed = 2 * (trial * steps + step) + there
                context = Context(start, step, table, layout, seed, no_validation_set)
                found[trial] += rule.apply(updates, weights, context, {})[0].values[0]
        return found

    return observe


def audit_updates(rule: Private, weights: Weights, steps: int, delta: float, *, trials: int) -> Audit:
    """Of private updates as they are claimed: by participation, ``steps`` times."""
    claimed = Accounting(rule.noise, delta).epsilon(steps)
    words = f"updates, noise {rule.noise:g}, {steps} participation{'s' * (steps != 1)}"
    return audit(words, updates_mechanism(rule, weights, steps), claimed, delta, trials=trials, gaussian=True)
