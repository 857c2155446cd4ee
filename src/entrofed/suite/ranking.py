"""Methods by their mean rank over cells and seeds, and which of them differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, sqrt

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.errors import DataError
from entrofed.suite.blocks import Block
from entrofed.suite.statistics import LEVEL, checked, few_seeds


@dataclass(frozen=True)
class Rank:
    """A method's place; methods that share a number in `groups` do not differ. From `blocks` on, all methods agree."""

    method: str
    mean_rank: float
    groups: tuple[int, ...]
    blocks: int
    left_out: int
    friedman_p: float | None
    critical_difference: float | None
    warning: str | None


def ranks(table: Mapping[str, Mapping[Block, float]], *, larger_is_better: bool = True) -> list[Rank]:
    """Mean rank of each of k methods over the N blocks that all have, best first; equal values share their mean rank.

    Friedman's test asks whether any of three or more methods differ; if so, two do where their mean ranks are further
    apart than Nemenyi's critical difference CD = q sqrt(k (k + 1) / (6 N)), q = studentized range_{0.95, k, inf} /
    sqrt(2). Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets, JMLR 7, 2006, section 3.2.2.

    Differs from the paper: every seed of a cell is a block, not only the cell's mean, because we have few cells. Seeds
    of one cell are not independent data sets, so the result speaks for these cells only. The groups are drawn whatever
    Friedman's test says; they separate methods only if it does.

    >>> table = {"a": {("iris", 0): 0.9, ("iris", 1): 0.8}, "b": {("iris", 0): 0.7, ("iris", 1): 0.8}}
    >>> [(rank.method, rank.mean_rank, rank.groups) for rank in ranks(table)]
    [('a', 1.25, (0,)), ('b', 1.75, (0,))]
    """
    if not table:
        raise DataError("the table has no method to rank")
    for method, values in table.items():
        checked(method, values.items())
    blocks = set.intersection(*(set(values) for values in table.values()))
    if not blocks:
        raise DataError(f"no (cell, seed) has a value of every method of {', '.join(table)}; leave out who has few")
    scores = np.array([[values[block] for block in blocks] for values in table.values()])
    k, n = scores.shape
    mean_ranks = scipy.stats.rankdata(-scores if larger_is_better else scores, axis=0).mean(axis=1)
    friedman_p = None
    if k > 2 and n > 1:
        friedman_p = float(scipy.stats.friedmanchisquare(*scores).pvalue) if np.ptp(scores, axis=0).any() else 1.0
    difference = None
    if k > 1:
        difference = float(scipy.stats.studentized_range.ppf(1 - LEVEL, k, inf)) / sqrt(2) * sqrt(k * (k + 1) / (6 * n))
    order = np.argsort(mean_ranks, kind="stable")
    groups = _groups(mean_ranks[order], difference or 0.0)
    names, left_out = list(table), len(set().union(*table.values())) - n
    warning = few_seeds(len({seed for _, seed in blocks}))
    return [
        Rank(
            names[method],
            float(mean_ranks[method]),
            tuple(number for number, group in enumerate(groups) if place in group),
            n,
            left_out,
            friedman_p,
            difference,
            warning,
        )
        for place, method in enumerate(order)
    ]


def _groups(mean_ranks: NDArray[np.float64], difference: float) -> list[range]:
    """The longest stretches of the ascending mean ranks that span no more than the difference."""
    groups: list[range] = []
    for start, lowest in enumerate(mean_ranks):
        stop = int(np.searchsorted(mean_ranks, lowest + difference, side="right"))
        if not groups or stop > groups[-1].stop:
            groups.append(range(start, stop))
    return groups
