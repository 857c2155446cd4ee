"""Two methods compared over several cells and seeds at once: the cells are blocks, and what they share cancels out.

A single cell with three seeds shows large differences only; the same small difference in six cells is seen here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from statistics import mean

import scipy

from entrofed.suite.statistics import checked, holm, paired

Block = tuple[str, int]
"""A cell (dataset, partition, ...) and a seed."""


@dataclass(frozen=True)
class Pooled:
    """How a method differs from another over n blocks in some cells; the mean of method - against, 95 % interval."""

    method: str
    against: str
    difference: float
    low: float | None
    high: float | None
    p: float | None
    wilcoxon_p: float | None
    wins: int
    losses: int
    n: int
    cells: int
    seeds: tuple[int, ...]
    """How many seeds the cells have, fewest and most."""


def pooled(values: Mapping[str, Mapping[Block, float]], pairs: Iterable[tuple[str, str]]) -> list[Pooled]:
    """Each pair (method, against) over the blocks both have, with Holm's correction over all of them, for each test.

    The differences d_cs of cell c and seed s have the mean m = sum d_cs / n, whose error comes from the seeds alone:
    s^2 = sum (d_cs - d_c)^2 / (n - k) for k cells, and t = m / sqrt(s^2 / n) with n - k degrees of freedom. So the test
    speaks for the mean over these cells, not for others; for one cell it is the paired t-test. Wilcoxon's signed-rank
    test over the blocks stands beside it, without a normal distribution: whether there is a difference in any cell.
    Pairs without a common block are left out.

    >>> a = {("iris", 0): 0.9, ("iris", 1): 0.8, ("seeds", 0): 0.7, ("seeds", 1): 0.6}
    >>> b = {("iris", 0): 0.8, ("iris", 1): 0.6, ("seeds", 0): 0.6, ("seeds", 1): 0.6}
    >>> [found] = pooled({"a": a, "b": b}, [("a", "b")])
    >>> round(found.difference, 6), round(found.p, 4), found.n, found.cells
    (0.1, 0.1056, 4, 2)
    """
    found = []
    for method, against in pairs:
        mine, other = values.get(method, {}), values.get(against, {})
        blocks = sorted(mine.keys() & other.keys())
        if blocks:
            found.append(_compared(method, against, blocks, mine, other))
    p, wilcoxon_p = holm([row.p for row in found]), holm([row.wilcoxon_p for row in found])
    return [replace(row, p=t, wilcoxon_p=w) for row, t, w in zip(found, p, wilcoxon_p, strict=True)]


def _compared(
    method: str, against: str, blocks: Sequence[Block], mine: Mapping[Block, float], other: Mapping[Block, float]
) -> Pooled:
    first, second = (checked(name, ((b, of[b]) for b in blocks)) for name, of in ((method, mine), (against, other)))
    by_hand = paired(first, second)
    cells: dict[str, list[float]] = defaultdict(list)
    for (cell, _), a, b in zip(blocks, first, second, strict=True):
        cells[cell].append(a - b)
    n, k = len(blocks), len(cells)
    middle, low, high, p = by_hand.difference, None, None, None
    if n > k:
        within = sum((value - mean(rows)) ** 2 for rows in cells.values() for value in rows)
        error = sqrt(within / (n - k) / n)
        if by_hand.ties == n:
            p = 1.0
        elif error > 1e-12 * abs(middle):
            p = float(2 * scipy.stats.t.sf(abs(middle) / error, n - k))
        half = float(scipy.stats.t.ppf(0.975, n - k)) * error
        low, high = middle - half, middle + half
    sizes = sorted(len(rows) for rows in cells.values())
    return Pooled(
        method,
        against,
        middle,
        low,
        high,
        p,
        by_hand.wilcoxon_p,
        by_hand.wins,
        by_hand.losses,
        n,
        k,
        (sizes[0], sizes[-1]),
    )
