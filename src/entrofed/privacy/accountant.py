"""What a run costs each client: one ``(epsilon, delta)`` for its updates and its label counts together.

A **step** is one release of a noised sum. How many steps concern a client depends on who takes part:

- ``poisson``: every client is drawn by a coin of its own, with rate q. Each round is a step of the subsampled Gaussian
  (neighbours: add or remove a client), and q makes noise go further.
- ``fixed``: M of K clients without replacement. The library bounds it for neighbours that replace a client, for which
  the sensitivity is twice the clip: half the multiplier. RDP only.
- None: anything else. Who takes part is told by the cohort, and no amplification is claimed; a client pays a Gaussian
  step for each round in which it took part. Neighbours: the same clients, sizes and cohorts, one client's updates
  being zero. Cohorts and weights may depend on label counts as they were released: that release is paid for, too.

By ``dp-accounting`` (Google): by privacy loss distributions (``pld``, tight), or by Renyi divergences (``rdp``).

Reference: Mironov, Renyi Differential Privacy, CSF 2017; Wang, Balle and Kasiviswanathan, AISTATS 2019 (``fixed``);
Doroshenko et al., Connect the Dots, PETS 2022 (``pld``); Kairouz et al., Practical and Private (Deep) Learning without
Sampling or Shuffling, ICML 2021 (zero-out neighbours).
"""

from dataclasses import dataclass, replace
from functools import cache
from math import inf
from typing import Any, Literal

from entrofed.errors import ConfigError
from entrofed.privacy.counts import Neighbours
from entrofed.privacy.gaussian import gaussian_epsilon

Sampling = Literal["poisson", "fixed"] | None
Library = Literal["pld", "rdp"]
ORDERS = (*range(2, 64), 72, 80, 96, 128, 192, 256, 512, 1024)
"""Of Renyi divergences: whole ones, for which the series of the subsampled Gaussian is finite."""
INTERVAL = 1e-3
"""The grid of privacy losses; they are rounded up to it."""
CLOSE = 1e-3
"""The calibrated multiplier is at most this much, relatively, above the least."""
MOST_NOISE, MOST_STEPS = 1e5, 10**6


@cache
def dp_accounting() -> Any:
    """The library; a ConfigError where it is not installed."""
    try:
        import dp_accounting
        import dp_accounting.pld
        import dp_accounting.rdp
    except ImportError:
        raise ConfigError("[privacy.updates] needs the package dp-accounting: pip install 'entrofed[dp]'") from None
    return dp_accounting


@dataclass(frozen=True)
class Accounting:
    """How steps are counted and what each of them is."""

    noise: float
    """The multiplier z: the standard deviation of the noise over the L2 sensitivity of the sum."""
    delta: float
    sampling: Sampling = None
    clients: int = 1
    """That may be drawn."""
    cohort: int = 1
    """That are drawn per round; for ``poisson``, on average."""
    counts: float | None = None
    """The epsilon that label counts were released with."""
    neighbours: Neighbours = "add_remove"
    """Of the label counts."""
    library: Library = "pld"

    def __post_init__(self) -> None:
        if self.sampling == "fixed" and self.library == "pld":
            object.__setattr__(self, "library", "rdp")

    @property
    def unit(self) -> str:
        """Whose data is hidden: all of a client's, or, where label counts hide less, each of its records."""
        return "client" if self.counts is None or self.neighbours == "client" else "record"

    @property
    def rate(self) -> float:
        """The share of the clients that is drawn."""
        return min(self.cohort / self.clients, 1.0)

    def noiseless(self, steps: int) -> float:
        """A bound on the probability that a cohort of so many rounds is empty: it adds no noise, and delta pays."""
        return steps * (1 - self.rate) ** self.clients if self.sampling == "poisson" else 0.0

    def epsilon(self, steps: int) -> float:
        """After so many steps, label counts included."""
        beside = self.counts if self.counts is not None and self.unit == "client" else 0.0
        if steps and not self.noise > 0:
            return inf
        if self.sampling is None and self.unit == "client":
            return beside + gaussian_epsilon(steps**0.5 / self.noise, self.delta)
        delta = self.delta - self.noiseless(steps)
        if delta <= 0:
            return inf
        return beside + _composed(replace(self, delta=delta), steps)

    def most_steps(self, epsilon: float, least: int = 0) -> int:
        """The most steps that cost no more; that ``least`` do is known."""
        low, high = least, least + 1
        if not least and self.epsilon(0) > epsilon:
            return 0
        while self.epsilon(high) <= epsilon:
            low, high = high, 2 * high
            if high > MOST_STEPS:
                return low
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.epsilon(middle) <= epsilon else (low, middle)
        return low

    def problem(self, epsilon: float, steps: int) -> str | None:
        """Why so many steps cost more than epsilon with any noise, if they do."""
        if self.epsilon(0) >= epsilon:
            return (
                f"privacy.updates.epsilon = {epsilon} is the budget of the whole run, and the label counts alone cost "
                f"{self.epsilon(0):.3g}; raise it, or lower privacy.epsilon"
            )
        if self.noiseless(steps) >= self.delta:
            return (
                f"Poisson sampling draws an empty cohort, which adds no noise, with a probability of up to "
                f"{min(self.noiseless(steps), 1.0):.2g} in {steps} rounds; it must be below delta = {self.delta:g}: "
                "take larger cohorts, or a selector that draws cohorts of one size"
            )
        return None

    def calibrated(self, epsilon: float, steps: int) -> "Accounting":
        """With the least noise for which so many steps cost no more than epsilon, and a thousandth at most above it."""
        problem = self.problem(epsilon, steps)
        if problem is not None:
            raise ConfigError(problem)
        if self.library == "pld":  # a bound from above, found fast; what is tight lies a little below it
            high = replace(self, library="rdp").calibrated(epsilon, steps).noise
            low = high / 1.5
        else:
            low, high = 0.5, 1.0
            while replace(self, noise=high).epsilon(steps) > epsilon:
                low, high = high, 2 * high
                if high > MOST_NOISE:
                    raise ConfigError(f"no noise is enough for epsilon = {epsilon} and delta = {self.delta}; raise one")
        while replace(self, noise=low).epsilon(steps) <= epsilon:
            low, high = low / 1.5, low
        while high / low > 1 + CLOSE:
            middle = (low * high) ** 0.5
            low, high = (low, middle) if replace(self, noise=middle).epsilon(steps) <= epsilon else (middle, high)
        return replace(self, noise=high)


@cache
def _composed(accounting: Accounting, steps: int) -> float:
    """By the library: the steps, and label counts with record-level noise."""
    lib = dp_accounting()
    replaced = accounting.sampling == "fixed"
    relations = lib.NeighboringRelation
    relation = relations.REPLACE_ONE if replaced else relations.ADD_OR_REMOVE_ONE
    if accounting.library == "pld":
        book = lib.pld.PLDAccountant(relation, value_discretization_interval=INTERVAL)
    else:
        book = lib.rdp.RdpAccountant(ORDERS, relation)
    noise = lib.GaussianDpEvent(accounting.noise / 2 if replaced else accounting.noise)
    if accounting.sampling == "poisson":
        step = lib.PoissonSampledDpEvent(accounting.rate, noise)
    elif replaced:
        step = lib.SampledWithoutReplacementDpEvent(accounting.clients, accounting.cohort, noise)
    else:
        step = noise
    if steps:
        book.compose(step, steps)
    if accounting.counts is not None and accounting.unit == "record":
        scale = (1 if accounting.neighbours == "add_remove" else 2) / accounting.counts
        both = replaced or accounting.neighbours == "replace"  # two counts change by one each
        book.compose(lib.LaplaceDpEvent(scale), 2 if both else 1)
    return float(book.get_epsilon(accounting.delta))
