"""The audit stays below what is claimed, and catches planted mistakes."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from entrofed.privacy import updates as module
from entrofed.privacy.accountant import Accounting
from entrofed.privacy.audit import audit, audit_updates, counts_mechanism, lower_bound, updates_mechanism
from entrofed.privacy.gaussian import gaussian_epsilon
from entrofed.privacy.one_run import canary_run, one_run_bound
from entrofed.privacy.updates import Private
from entrofed.registry import build

DELTA, TRIALS = 1e-5, 6000
WEIGHTS = np.array([0.7, 0.1, 0.1, 0.1])
RULE = Private(server=build("server", "average"), clip=0.5, noise=2.0, simulate=True)


def test_the_bound_by_hand() -> None:
    """Two unit Gaussians one apart: mu is 1, and the bound comes close to its epsilon from below."""
    rng = np.random.default_rng(0)
    inside, outside = rng.normal(size=100_000) + 1, rng.normal(size=100_000)
    exact = gaussian_epsilon(1.0, DELTA)
    assert 0.95 * exact < lower_bound(inside, outside, DELTA, gaussian=True) < exact
    assert 1.0 < lower_bound(inside, outside, DELTA) < exact
    assert lower_bound(outside[:50_000], outside[50_000:], DELTA) < 0.1


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_is_right_most_of_the_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    found = lower_bound(rng.normal(size=4000) + 0.5, rng.normal(size=4000), DELTA, gaussian=True)
    assert found <= gaussian_epsilon(0.5, DELTA)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [1, 3])
def test_updates_hold_what_they_claim(steps: int) -> None:
    """The audit finds most of what is claimed: of mu = 0.5, the intervals of 12,000 runs take about 0.045."""
    found = audit_updates(RULE, WEIGHTS, steps, DELTA, trials=16_000 // steps)
    assert found.holds
    assert found.found > 0.8 * found.claimed


def test_the_bound_of_one_run_by_hand() -> None:
    """All of 20 guesses right: refuted is every epsilon with rate^20 < 0.05."""
    there = np.arange(100) % 2 == 0
    scores = np.where(there, 1.0, -1.0)
    found, rate = one_run_bound(there, scores, 0.0), 0.05 ** (1 / 20)
    assert found == pytest.approx(np.log(rate / (1 - rate)), rel=1e-6)
    assert one_run_bound(there, scores, 1e-4) < found  # delta explains some of it
    assert one_run_bound(there, np.random.default_rng(0).normal(size=100), 0.0) < 0.5


@pytest.mark.parametrize("noise", [0.5, 2.0])
def test_one_run_holds_what_it_claims(noise: float) -> None:
    """And it catches what is gross: noise of a hundredth of the clip where so much was claimed."""
    claimed = Accounting(noise, DELTA).epsilon(1)
    assert one_run_bound(*canary_run(same_but(Private, noise=noise), 1, 1000), DELTA) <= claimed
    found = one_run_bound(*canary_run(same_but(Private, noise=0.02), 1, 1000), DELTA)
    assert (found > claimed) == (noise == 2.0)


def test_counts_hold_what_they_claim() -> None:
    found = audit("counts", counts_mechanism(1.0), 1.0, 0.0, trials=TRIALS)
    assert found.holds
    assert found.found > 0.6
    half = audit("counts", counts_mechanism(2.0, real=False), 1.0, 0.0, trials=TRIALS)
    assert not half.holds  # half the noise


@dataclass(frozen=True)
class EqualWeights(Private):
    """Takes the noise for equal weights, whatever they are."""

    def apply(self, updates: Any, weights: Any, context: Any, state: Any) -> Any:
        return replace(self, noise=self.noise / len(weights) / weights.max()).plain(updates, weights, context, state)

    def plain(self, *given: Any) -> Any:
        return Private.apply(self, *given)


@dataclass(frozen=True)
class Twice(Private):
    """Draws the noise of a round twice, and lets both sums out."""

    def apply(self, updates: Any, weights: Any, context: Any, state: Any) -> Any:
        first, after = Private.apply(self, updates, weights, context, state)
        other = replace(context, seed=context.seed + 10**6)
        second, _ = Private.apply(self, updates, weights, other, state)
        return replace(first, values=(first.values + second.values) / 2), after


def same_but(kind: type[Private], **changes: Any) -> Private:
    fields = {name: getattr(RULE, name) for name in ("server", "clip", "noise", "simulate")}
    return kind(**{**fields, **changes})


@pytest.mark.slow
@pytest.mark.parametrize(
    "mistake", ["half the noise", "no clipping", "weights left out", "noise drawn twice", "a participation not counted"]
)
def test_planted_mistakes_are_caught(mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    claimed, steps, rule = Accounting(RULE.noise, DELTA).epsilon(1), 1, RULE
    if mistake == "half the noise":
        rule = same_but(Private, noise=RULE.noise / 2)
    elif mistake == "no clipping":
        monkeypatch.setattr(module, "clipped", lambda params, start, clip: (params.values.astype(float), True))
    elif mistake == "weights left out":
        rule = same_but(EqualWeights)
    elif mistake == "noise drawn twice":
        rule = same_but(Twice)
    else:
        steps = 2
    found = audit(mistake, updates_mechanism(rule, WEIGHTS, steps), claimed, DELTA, trials=TRIALS, gaussian=True)
    assert not found.holds, found
