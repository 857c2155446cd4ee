"""Comparisons pooled over cells and seeds."""

from math import sqrt

import numpy as np
import pytest
from scipy import stats

from entrofed.errors import DataError
from entrofed.suite.blocks import pooled


def column(rng, offset, cells=6, seeds=3, spread=0.01):
    """Cells differ much more than seeds do."""
    return {
        (f"cell {c}", s): 0.1 * c + offset + spread * rng.standard_normal() for c in range(cells) for s in range(seeds)
    }


def test_one_cell_is_the_paired_t_test():
    a, b = {("x", s): v for s, v in enumerate([3.0, 5, 9])}, {("x", s): v for s, v in enumerate([1.0, 4, 5])}
    [found] = pooled({"a": a, "b": b}, [("a", "b")])
    plain = stats.ttest_rel([3, 5, 9], [1, 4, 5])
    assert found.p == pytest.approx(plain.pvalue)
    assert (found.low, found.high) == pytest.approx(tuple(plain.confidence_interval()))
    assert (found.n, found.cells, found.seeds) == (3, 1, (3, 3))


def test_two_cells_by_hand():
    """Differences (1, 3) and (5, 9): mean 4.5; around the cells' means 2 + 8 = 10, over 2 degrees of freedom."""
    a = {("x", 0): 1.0, ("x", 1): 3.0, ("y", 0): 5.0, ("y", 1): 9.0}
    [found] = pooled({"a": a, "b": dict.fromkeys(a, 0.0)}, [("a", "b")])
    assert found.difference == 4.5
    assert found.p == pytest.approx(2 * stats.t.sf(4.5 / sqrt(10 / 2 / 4), 2))
    assert found.wilcoxon_p == stats.wilcoxon([1, 3, 5, 9]).pvalue


def test_a_small_difference_in_every_cell_is_shown():
    """What no cell shows by itself: 18 of 18 pairs."""
    rng = np.random.default_rng(0)
    fedavg = column(rng, 0.0)
    values = {"FedAvg": fedavg, "FedEP": {block: v - 0.002 - 0.001 * rng.random() for block, v in fedavg.items()}}
    [found] = pooled(values, [("FedEP", "FedAvg")])
    assert (found.wins, found.losses, found.n, found.cells) == (0, 18, 18, 6)
    assert found.p < 1e-6
    assert found.wilcoxon_p < 1e-4
    assert found.high < 0


def test_holm_goes_over_all_pairs():
    rng = np.random.default_rng(1)
    values = {name: column(rng, offset) for name, offset in (("a", 0.01), ("b", 0.0), ("c", 0.0))}
    alone = pooled(values, [("a", "b")])[0].p
    family = pooled(values, [("a", "b"), ("a", "c"), ("b", "c")])
    assert max(row.p for row in family) <= 1
    assert family[0].p >= alone
    assert min(row.p for row in family) == pytest.approx(
        3 * min(pooled(values, [(r.method, r.against)])[0].p for r in family)
    )


def test_chance_alone_shows_nothing_too_often():
    """Of 400 comparisons without a difference about 20 fall below 0.05."""
    rng = np.random.default_rng(2)
    p = [pooled({"a": column(rng, 0), "b": column(rng, 0)}, [("a", "b")])[0].p for _ in range(400)]
    assert 8 <= sum(value < 0.05 for value in p) <= 34


def test_what_cannot_be_tested():
    one = {("x", 0): 1.0, ("y", 0): 2.0}
    [found] = pooled({"a": one, "b": dict.fromkeys(one, 0.0)}, [("a", "b")])
    assert (found.difference, found.p, found.low) == (1.5, None, None)  # one seed a cell
    assert pooled({"a": one, "b": {("z", 0): 1.0}}, [("a", "b"), ("a", "c")]) == []
    [same] = pooled({"a": one | {("x", 1): 1.0}, "b": one | {("x", 1): 1.0}}, [("a", "b")])
    assert (same.p, same.wins, same.losses) == (1, 0, 0)
    with pytest.raises(DataError, match=r"a\[\('x', 0\)\] = nan"):
        pooled({"a": {("x", 0): float("nan")}, "b": {("x", 0): 1.0}}, [("a", "b")])
