"""An audit by one run: many clients are canaries, there or not by coins, each going its own way as far as it can.

Whoever sees the model guesses of some canaries whether they were there. Under (epsilon, delta) the number of right
guesses is hardly larger than a binomial variable of the rate ``e^epsilon / (1 + e^epsilon)``. This assumes nothing of
the mechanism, not even that the noises of canaries are independent, and proves less than many runs do
(:mod:`entrofed.privacy.audit`): mistakes must be gross to be caught.

Reference: Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, NeurIPS 2023, Theorem 5.2; Andrew et
al., One-shot Empirical Privacy Estimation for Federated Learning, ICLR 2024 (clients as canaries).
"""

from math import exp

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.core.job import no_validation_set
from entrofed.core.params import Layout, Params
from entrofed.core.seeds import stream
from entrofed.core.types import ClientTable, Context, Update
from entrofed.privacy.accountant import Accounting
from entrofed.privacy.audit import Audit
from entrofed.privacy.updates import Private

Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

GUESSED = 5
"""One in so many canaries is guessed; said beforehand, because to try several would need another bound."""
MOST_EPSILON = 100.0


def one_run_bound(there: Flags, scores: Doubles, delta: float, confidence: float = 0.95) -> float:
    """The largest epsilon that is refuted from below, with confidence.

    Those with the highest scores are guessed to be there, as many with the lowest not to be. What delta may add to the
    tail of right guesses is bounded by how fast the tail grows.

    Args:
        there: Which canaries took part.
        scores: What an observer saw of each; larger numbers speak for the canary being there.
        delta: Of the claim.
        confidence: That the bound is right.
    """
    number = len(there)
    guesses = number // GUESSED
    order = np.argsort(scores, kind="stable")
    low, high = order[: guesses // 2], order[number - (guesses - guesses // 2) :]
    right = int((~there[low]).sum() + there[high].sum())
    tail = scipy.stats.binom

    def chance(epsilon: float) -> float:
        """The most probable that so many right guesses can be."""
        rate = 1 / (1 + exp(-epsilon))
        fewer = np.cumsum(tail.pmf(np.arange(right - 1, -1, -1), guesses, rate)) / np.arange(1, right + 1)
        return float(tail.sf(right - 1, guesses, rate) + 2 * number * delta * fewer.max(initial=0.0))

    if chance(0.0) > 1 - confidence:
        return 0.0
    return float(scipy.optimize.brentq(lambda epsilon: chance(epsilon) - (1 - confidence), 0.0, MOST_EPSILON))


def canary_run(rule: Private, steps: int, canaries: int, seed: int = 0) -> tuple[Flags, Doubles]:
    """A run in which every client is a canary; returns who was there, and where the model went along each one's way."""
    layout = Layout((), canaries, canaries, 0)
    start = Params(np.zeros(canaries, np.float32), np.zeros(0, np.int64))
    table, weights = ClientTable(np.ones(canaries, np.int64), trainable=canaries), np.full(canaries, 1 / canaries)
    there, scores = stream(seed, "canaries").random(canaries) < 0.5, np.zeros(canaries)

    def update(client: int) -> Update:
        values = np.zeros(canaries, np.float32)
        values[client] = 1000 * rule.clip * there[client]
        return Update(client, Params(values, start.counters), 1, 1, 0.0, 0.0)

    for step in range(steps):
        context = Context(start, step, table, layout, seed, no_validation_set)
        scores += rule.apply([update(k) for k in range(canaries)], weights, context, {})[0].values
    return there, scores


def audit_one_run(rule: Private, steps: int, delta: float, *, canaries: int) -> Audit:
    """Of private updates as they are claimed: by participation, ``steps`` times."""
    found = one_run_bound(*canary_run(rule, steps, canaries), delta)
    words = f"updates, one run with {canaries:,} canaries, noise {rule.noise:g}"
    return Audit(words, Accounting(rule.noise, delta).epsilon(steps), found, delta, 1, 0.95)
