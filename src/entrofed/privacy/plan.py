"""What a budget of privacy buys, before a run: the noise that each way of choosing clients needs for it.

The ways stand side by side at equal ``(epsilon, delta)``: chance with amplification, fixed cohorts, cohorts chosen by
data with and without rest. What counts for a model is the noise on the mean step, ``z / M`` times the clip in each
parameter (equal weights): a larger cohort needs more noise for its sum, and averages it over more clients.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from entrofed.errors import ConfigError
from entrofed.privacy.accountant import Accounting


@dataclass(frozen=True)
class Way:
    """One way of choosing clients, and what it asks for."""

    name: str
    sampling: str
    """What is claimed of it."""
    steps: int
    """That a client pays for."""
    noise: float
    """The least multiplier, or the one given; infinite where none is enough."""
    per_client: float
    """Noise on the mean step, in clips: ``noise / cohort``."""
    rounds: int
    """With the multiplier given (or the least), the most rounds; 0 where none is enough."""
    epsilon: float
    """Of all planned rounds."""
    problem: str | None = None
    """Why the planned rounds do not fit, whatever the noise."""


def plan(
    *,
    clients: int,
    cohort: int,
    rounds: int,
    epsilon: float,
    delta: float,
    counts: float | None = None,
    rests: Sequence[float] = (0.5,),
    noise: float | None = None,
) -> list[Way]:
    """The ways for one budget; an error if it is enough for none of them.

    Args:
        clients: That may take part.
        cohort: Per round.
        rounds: Planned.
        epsilon: The budget of the whole run.
        delta: Of the budget.
        counts: The epsilon of label counts, which choosing by data needs; it comes out of the same budget.
        rests: Buffers of FedEntOpt, as shares of the clients.
        noise: A multiplier to be judged, in place of the least one.
    """
    plain = Accounting(noise or 1.0, delta, None, clients, cohort)
    by_data = replace(plain, counts=counts)
    ways: list[tuple[str, str, Accounting, int]] = [
        ("poisson", f"amplified, rate {plain.rate:.3g}", replace(plain, sampling="poisson"), 1),
        ("random", "amplified, cohorts of one size (RDP, replaced clients)", replace(plain, sampling="fixed"), 1),
    ]
    for rest in rests:
        gap = min(int(rest * clients + 1e-9), max(clients - cohort, 0)) // cohort + 1
        ways.append((f"fedentopt, buffer {rest:.0%}", f"none; at most every {gap} rounds", by_data, gap))
    ways.append(("by data, without rest", "none; in every round, at worst", by_data, 1))
    found = [_way(name, words, one, gap, rounds, epsilon, calibrate=noise is None) for name, words, one, gap in ways]
    if all(way.problem is not None for way in found):
        reasons = dict.fromkeys(way.problem or "" for way in found)
        raise ConfigError(f"no way of choosing clients fits the budget. {'. '.join(reasons)}")
    return found


def _way(
    name: str, words: str, accounting: Accounting, gap: int, rounds: int, epsilon: float, *, calibrate: bool
) -> Way:
    steps = -(-rounds // gap)
    problem = None if calibrate else accounting.problem(epsilon, steps)
    if calibrate:
        try:
            accounting = accounting.calibrated(epsilon, steps)
        except ConfigError as error:
            return Way(name, words, steps, inf, inf, 0, inf, str(error))
    most = accounting.most_steps(epsilon, least=steps if calibrate else 0) * gap
    per_client = accounting.noise / accounting.cohort
    return Way(name, words, steps, accounting.noise, per_client, most, accounting.epsilon(steps), problem)
