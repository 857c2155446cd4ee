"""What the results of several runs say, and how surely. Pure functions; the results are plain numbers.

Values are compared in pairs that share a seed (same data, same partition), so that what both runs have in common
cancels out. `None` stands for what the values cannot tell. A win is a larger value.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import ceil, inf, isclose, log10, sqrt
from numbers import Real
from statistics import mean, stdev
from typing import Literal, get_args

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.errors import ConfigError, DataError, unknown

Method = Literal["t", "bootstrap"]
LEVEL = 0.05
"""Level of significance of the critical difference."""
FEW = 3
"""Fewer seeds than this are too few for a claim."""
LARGEST = 1e100
"""Values are refused from here on, so that no square overflows."""


@dataclass(frozen=True)
class Interval:
    """A mean, the confidence interval around it and the sample standard deviation, of n values."""

    mean: float
    low: float | None
    high: float | None
    spread: float | None
    n: int


@dataclass(frozen=True)
class Paired:
    """How a differs from b over n common seeds; `difference` is the mean of a - b, the p-values are two-sided."""

    difference: float
    interval: Interval
    wins: int
    losses: int
    ties: int
    t_p: float | None
    wilcoxon_p: float | None
    n: int


@dataclass(frozen=True)
class Row:
    """A method against the reference; `left_out` counts the seeds that only one of the two has."""

    method: str
    against: str
    paired: Paired | None
    t_p_holm: float | None
    wilcoxon_p_holm: float | None
    left_out: int
    warning: str | None


@dataclass(frozen=True)
class Ordering:
    """How far a paper's ordering holds: its ordered `pairs`, and those (better, worse) that came out otherwise."""

    tau: float | None
    pairs: int
    discordant: tuple[tuple[str, str], ...]
    tied: tuple[tuple[str, str], ...]

    @property
    def held(self) -> int:
        """Pairs that came out in the paper's order."""
        return self.pairs - len(self.discordant) - len(self.tied)


def interval(
    values: Iterable[float],
    *,
    confidence: float = 0.95,
    method: Method = "t",
    rng: np.random.Generator | None = None,
    bounds: tuple[float, float] = (-inf, inf),
) -> Interval:
    """Mean with its confidence interval: mean ± t_{(1 + confidence) / 2, n - 1} s / sqrt(n), or bootstrapped.

    The bootstrap is bias-corrected and accelerated (BCa; Efron, Better Bootstrap Confidence Intervals, JASA 82, 1987)
    and needs `rng`. It assumes no normal distribution, but is too narrow for a handful of values: prefer t there.
    `bounds` are what the mean can be at all (a share: 0 and 1); the interval ends there.

    >>> found = interval([0.81, 0.84, 0.87])
    >>> round(found.low, 4), round(found.mean, 4), round(found.high, 4)
    (0.7655, 0.84, 0.9145)
    """
    if method not in get_args(Method):
        raise unknown("interval method", method, get_args(Method))
    if not 0 < confidence < 1:
        raise ConfigError(f"confidence = {confidence}, but must lie between 0 and 1; 0.95 is usual")
    found = sorted(checked("values", enumerate(values)))  # the order of the seeds must not matter to the bootstrap
    n = len(found)
    if n == 0:
        raise DataError("values is empty; an interval needs at least one value")
    middle = mean(found)
    if n == 1:
        return Interval(middle, None, None, None, n)
    spread = stdev(found)
    if method == "t" or spread == 0:
        half = float(scipy.stats.t.ppf((1 + confidence) / 2, n - 1)) * spread / sqrt(n)
        return Interval(middle, max(middle - half, bounds[0]), min(middle + half, bounds[1]), spread, n)
    if rng is None:
        raise ConfigError("a bootstrap interval draws at random: pass rng, a numpy.random.Generator")
    standard = (np.array(found) - middle) / spread
    drawn = scipy.stats.bootstrap((standard,), np.mean, confidence_level=confidence, method="BCa", random_state=rng)
    low, high = (middle + spread * float(end) for end in drawn.confidence_interval)
    return Interval(middle, max(low, bounds[0]), min(high, bounds[1]), spread, n)


def paired(a: Iterable[float], b: Iterable[float]) -> Paired:
    """How a differs from b, which are aligned by seed: 95 % t interval, wins and losses, paired t-test and Wilcoxon's.

    Wilcoxon's signed-rank test (Biometrics Bulletin 1, 1945) drops ties; it is exact for small n, where p is at least
    2^(1-n): with fewer than six seeds it never falls below 0.05. Differences are rounded to 12 digits of the largest
    value, so that rounding errors break no ties. Both p are 1 if all are ties, None for one seed; that of the t-test
    is None as well if all differences are the same but not 0, because t divides by their spread.

    >>> found = paired([0.82, 0.85, 0.85], [0.81, 0.82, 0.80])
    >>> round(found.difference, 12), found.wins, round(found.t_p, 4), found.wilcoxon_p
    (0.03, 3, 0.1217, 0.25)
    """
    a, b = checked("a", enumerate(a)), checked("b", enumerate(b))
    if len(a) != len(b):
        raise DataError(f"a has {len(a)} values and b {len(b)}; pass one of each for every common seed")
    if not a:
        raise DataError("a and b are empty; a paired comparison needs at least one common seed")
    difference = _differences(a, b)
    found = interval(difference)
    t_p = wilcoxon_p = None
    if len(a) > 1:
        t_p = wilcoxon_p = 1.0
        if difference.any():
            t_p = float(scipy.stats.ttest_1samp(difference, 0).pvalue) if np.ptp(difference) > 0 else None
            wilcoxon_p = float(scipy.stats.wilcoxon(difference[difference != 0]).pvalue)
    wins, losses = int((difference > 0).sum()), int((difference < 0).sum())
    return Paired(found.mean, found, wins, losses, len(a) - wins - losses, t_p, wilcoxon_p, len(a))


def holm(p: Sequence[float | None]) -> list[float | None]:
    """Holm's step-down adjusted p-values: max_{j <= i} min(1, (m - j + 1) p_(j)) for the i-th smallest of m.

    Those below a level are significant with that family-wise error rate. None stays None and is not among the m.
    Holm, A Simple Sequentially Rejective Multiple Test Procedure, Scandinavian Journal of Statistics 6, 1979.

    >>> holm([0.01, None, 0.04, 0.03])
    [0.03, None, 0.06, 0.06]
    """
    tested = [i for i, value in enumerate(p) if value is not None]
    found = np.array(checked("p", ((i, p[i]) for i in tested)))
    for i, value in zip(tested, found, strict=True):
        if not 0 <= value <= 1:
            raise DataError(f"p[{i}] = {value}, but a p-value lies between 0 and 1")
    order = np.argsort(found, kind="stable")
    steps = np.minimum(1, np.arange(len(found), 0, -1) * found[order])
    adjusted: list[float | None] = [None] * len(p)
    for place, value in zip(order, np.maximum.accumulate(steps), strict=True):
        adjusted[tested[place]] = float(value)
    return adjusted


def compare(table: Mapping[str, Mapping[int, float]], against: str) -> list[Row]:
    """Every other method against one, over the seeds both have; Holm's correction goes over all rows, for each test.

    >>> accuracy = {"fedavg": {0: 0.80, 1: 0.82}, "fedentopt": {0: 0.84, 1: 0.85, 2: 0.9}}
    >>> [row] = compare(accuracy, against="fedavg")
    >>> row.method, row.paired.wins, row.left_out
    ('fedentopt', 2, 1)
    >>> row.warning
    'rests on 2 seeds; three are the least for a claim: run more seeds that all methods share'
    """
    if against not in table:
        raise unknown("method to compare against", against, table)
    for method, values in table.items():
        checked(method, values.items())
    reference, rows = table[against], []
    for method, values in table.items():
        if method != against:
            common = sorted(values.keys() & reference.keys())
            pair = paired([values[s] for s in common], [reference[s] for s in common]) if common else None
            left_out = len(values.keys() ^ reference.keys())
            rows.append(Row(method, against, pair, None, None, left_out, few_seeds(len(common))))
    return one_family(rows)


def one_family(rows: Sequence[Row]) -> list[Row]:
    """The same rows with Holm's correction over all of them, whatever it went over before.

    >>> accuracy = {"fedavg": {0: 0.80, 1: 0.82}, "fedentopt": {0: 0.84, 1: 0.85}}
    >>> one, two = compare(accuracy, "fedavg"), compare(accuracy, "fedentopt")
    >>> [round(row.t_p_holm, 3) for row in (*one, *one_family([*one, *two]))]
    [0.09, 0.181, 0.181]
    """
    t_p = holm([row.paired.t_p if row.paired else None for row in rows])
    wilcoxon_p = holm([row.paired.wilcoxon_p if row.paired else None for row in rows])
    return [replace(row, t_p_holm=t, wilcoxon_p_holm=w) for row, t, w in zip(rows, t_p, wilcoxon_p, strict=True)]


def few_seeds(n: int) -> str | None:
    """The warning wherever a claim rests on fewer than three seeds.

    >>> few_seeds(3)
    """
    if n >= FEW:
        return None
    seeds = "1 seed" if n == 1 else f"{n} seeds"
    return f"rests on {seeds}; three are the least for a claim: run more seeds that all methods share"


def ordering_holds(ours: Mapping[str, Mapping[int, float]], papers: Mapping[str, float]) -> Ordering:
    """Whether a paper's ordering holds among the columns both have: tau = (concordant - discordant) / pairs.

    Of each pair the means over the seeds that both have are compared; a pair without a common seed does not count.
    Kendall's tau (Biometrika 30, 1938) where nothing ties, else Somers' D: pairs that tie in the paper do not count,
    those that tie only in ours count as neither. 1 if all of the ordering holds, None if the paper orders no pair.

    >>> ours = {"fedavg": {0: 83.0, 1: 60.0}, "fedprox": {0: 82.0}, "moon": {0: 85.0}}
    >>> ordering_holds(ours, {"fedavg": 70.1, "fedprox": 71.4, "moon": 72.0})
    Ordering(tau=0.3333333333333333, pairs=3, discordant=(('fedprox', 'fedavg'),), tied=())
    """
    for column, values in ours.items():
        checked(column, values.items())
    checked("papers", papers.items())
    common = sorted((column for column in papers if column in ours), key=lambda column: -papers[column])
    pairs, tied, discordant = 0, list[tuple[str, str]](), list[tuple[str, str]]()
    for x, y in combinations(common, 2):
        seeds = sorted(ours[x].keys() & ours[y].keys())
        if not seeds or papers[x] <= papers[y]:
            continue
        pairs += 1
        better, worse = (mean(ours[column][seed] for seed in seeds) for column in (x, y))
        if isclose(better, worse, rel_tol=1e-12):
            tied.append((x, y))
        elif better < worse:
            discordant.append((x, y))
    tau = (pairs - len(tied) - 2 * len(discordant)) / pairs if pairs else None
    return Ordering(tau, pairs, tuple(discordant), tuple(tied))


def _differences(a: Sequence[float], b: Sequence[float]) -> NDArray[np.float64]:
    """a - b, ascending; rounded to 12 digits of the largest value, but 100 places at most, to keep ties."""
    largest = max(map(abs, (*a, *b))) or 1.0
    return np.sort(np.round(np.subtract(a, b), min(12 - ceil(log10(largest)), 100)))


def checked(name: str, values: Iterable[tuple[object, object]]) -> list[float]:
    """The values as floats, refused with their place if one is no number; runs that diverged are stored as None."""
    found: list[float] = []
    for place, value in values:
        if not (isinstance(value, Real) and abs(float(value)) < LARGEST):
            raise DataError(f"{name}[{place!r}] = {value!r}, but must be a finite number; leave out runs that diverged")
        found.append(float(value))
    return found
