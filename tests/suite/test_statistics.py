import json
from dataclasses import asdict, astuple
from math import atan, nan, pi, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from entrofed.errors import ConfigError, DataError
from entrofed.suite.ranking import ranks
from entrofed.suite.statistics import compare, few_seeds, holm, interval, one_family, ordering_holds, paired

percent = st.integers(0, 10_000).map(lambda value: value / 10_000)
any_float = st.floats(-9e99, 9e99)
any_pairs = st.lists(st.tuples(percent, percent), min_size=1, max_size=9)
any_p = st.lists(st.none() | st.floats(0, 1), max_size=12)

BLOCKS = [("iris", 0), ("iris", 1), ("heart", 0), ("heart", 1), ("heart", 2)]
TABLE = {
    "fedavg": {0: 0.80, 1: 0.81, 2: 0.79, 3: 0.80},
    "better": {0: 0.85, 1: 0.87, 2: 0.83, 3: 0.85, 9: 0.1},
    "same": {3: 0.80, 2: 0.79, 1: 0.81, 0: 0.80},
    "short": {2: 0.9, 3: 0.7},
    "elsewhere": {7: 0.9},
}


def generator(seed=0):
    return np.random.default_rng(seed)


def close(values):
    return pytest.approx(values, rel=1e-12, abs=1e-14)


class TestInterval:
    def test_student_by_hand(self):
        found = interval([2, 4, 6])  # t_{0.975, 2} = 0.95 sqrt(2 / (1 - 0.95^2)), s = 2
        half = 0.95 * sqrt(2 / (1 - 0.95**2)) * 2 / sqrt(3)
        assert astuple(found) == pytest.approx((4, 4 - half, 4 + half, 2, 3), rel=1e-9)

    def test_a_share_stays_one(self):
        found = interval([0.9, 0.5, 0.98], bounds=(0, 1))
        assert (found.high, found.low) == (1, interval([0.9, 0.5, 0.98]).low)
        assert interval([0.02, 0.4, 0.03], bounds=(0, 1)).low == 0

    def test_student_with_one_degree_of_freedom_is_cauchy(self):
        found = interval([1, 3], confidence=0.5)  # the quartile of Cauchy's distribution is 1
        assert astuple(found) == pytest.approx((2, 1, 3, sqrt(2), 2), rel=1e-9)

    @given(st.lists(any_float, min_size=2, max_size=8), st.sampled_from(["t", "bootstrap"]))
    def test_holds_the_mean_and_ignores_the_order(self, values, method):
        found = interval(values, method=method, rng=generator())
        slack = 1e-12 * max(map(abs, values))
        assert found.low - slack <= found.mean <= found.high + slack
        assert found == interval(values[::-1], method=method, rng=generator())

    def test_higher_confidence_is_wider(self):
        for method in ("t", "bootstrap"):
            narrow, wide = (
                interval([1, 2, 4, 8, 9], confidence=c, method=method, rng=generator()) for c in (0.8, 0.99)
            )
            assert wide.low < narrow.low < narrow.high < wide.high

    def test_bootstrap_stays_within_the_values_and_moves_with_them(self):
        values = np.array([0.0, 0.1, 0.2, 0.25, 0.7, 3.0])
        found = interval(values, method="bootstrap", rng=generator())
        assert 0 <= found.low < found.mean < found.high <= 3
        assert found.high - found.mean > found.mean - found.low  # skewed as the values are
        moved = interval(5 - 2 * values, method="t")
        assert (moved.mean, moved.spread) == close((5 - 2 * found.mean, 2 * found.spread))

    def test_bootstrap_agrees_with_scipy(self):
        values = (0.61, 0.64, 0.7, 0.72, 0.75, 0.9)
        found = interval(values, method="bootstrap", rng=generator(7))
        ends = stats.bootstrap((values,), np.mean, method="BCa", random_state=generator(7)).confidence_interval
        assert (found.low, found.high) == close(tuple(ends))

    def test_bootstrap_covers(self):
        draws = generator().exponential(size=(100, 30))
        found = [interval(values, method="bootstrap", rng=generator(i)) for i, values in enumerate(draws)]
        assert 85 <= sum(i.low <= 1 <= i.high for i in found) <= 99

    @pytest.mark.parametrize("method", ["t", "bootstrap"])
    def test_one_value_and_equal_values(self, method):
        assert astuple(interval([0.3], method=method)) == (0.3, None, None, None, 1)
        assert astuple(interval([0.3] * 7, method=method)) == close((0.3, 0.3, 0.3, 0, 7))

    def test_refusals(self):
        with pytest.raises(DataError, match="at least one value"):
            interval([])
        with pytest.raises(ConfigError, match="known: bootstrap, t"):
            interval([1, 2], method="normal")
        with pytest.raises(ConfigError, match="pass rng"):
            interval([1, 2], method="bootstrap")
        for confidence in (0, 1, 95, nan):
            with pytest.raises(ConfigError, match="between 0 and 1"):
                interval([1, 2], confidence=confidence)

    @pytest.mark.parametrize("bad", [nan, float("inf"), 1e100, None, "0.5", [0.5]])
    def test_no_number(self, bad):
        with pytest.raises(DataError, match=r"values\[1\] = .*finite number"):
            interval([0.5, bad])


class TestPaired:
    def test_by_hand(self):
        found = paired([5, 7, 9, 4], [4, 5, 6, 8])  # differences 1, 2, 3, -4: mean 0.5, variance 29/3
        assert (found.difference, found.interval.spread) == close((0.5, sqrt(29 / 3)))
        assert (found.wins, found.losses, found.ties, found.n) == (3, 1, 0, 4)
        t = 0.5 / sqrt(29 / 12)
        angle = atan(t / sqrt(3))  # Student's distribution with 3 degrees of freedom
        assert found.t_p == pytest.approx(1 - 2 / pi * (angle + np.sin(angle) * np.cos(angle)), rel=1e-9)
        assert found.wilcoxon_p == 14 / 16  # 7 of 16 signings have a smaller sum of at most 4 on the negative side

    def test_wilcoxon_drops_ties_and_is_exact(self):
        assert paired([1, 2, 3] + [0] * 20, [0] * 23).wilcoxon_p == 2 / 2**3
        assert paired([1, 1, 1, 1, 1, 0], [0, 0, 0, 0, 0, 0]).wilcoxon_p == 2 / 2**5
        assert paired([1, 0, 0], [0, 0, 0]).wilcoxon_p == 1

    def test_wilcoxon_of_many_with_ties_is_normal(self):
        found = paired([1] * 16 + [0] * 4, [0] * 16 + [1] * 4)  # every rank is 10.5: z = (16 - 4) / sqrt(20)
        assert found.wilcoxon_p == pytest.approx(2 * NormalDist().cdf(-12 / sqrt(20)), rel=1e-9)

    def test_rounding_errors_break_no_tie(self):
        found = paired([0.1 + 0.2, 0.9, 0.7], [0.3, 0.8, 0.8])
        assert (found.wins, found.losses, found.ties, found.difference) == (1, 1, 1, 0)
        assert (found.t_p, found.wilcoxon_p) == (1, 1)

    @given(st.lists(any_float, min_size=2, max_size=20))
    def test_identical(self, values):
        found = paired(values, values)
        assert (found.t_p, found.wilcoxon_p, found.ties, found.difference) == (1, 1, len(values), 0)
        assert (found.interval.low, found.interval.high) == (0, 0)

    def test_constant_difference_has_no_t(self):
        found = paired([0.9, 0.8, 0.3], [0.8, 0.7, 0.2])
        assert (found.difference, found.t_p, found.wilcoxon_p) == (0.1, None, 0.25)

    def test_one_seed(self):
        found = paired([0.75], [0.5])
        assert (found.difference, found.wins, found.t_p, found.wilcoxon_p) == (0.25, 1, None, None)
        assert paired([1], [1]).t_p is None

    @given(any_pairs, st.randoms(use_true_random=False))
    def test_the_order_of_the_seeds_does_not_matter(self, pairs, random):
        shuffled = random.sample(pairs, len(pairs))
        assert paired(*zip(*pairs, strict=True)) == paired(*zip(*shuffled, strict=True))

    @given(any_pairs)
    def test_swapping_mirrors(self, pairs):
        a, b = zip(*pairs, strict=True)
        found, mirrored = paired(a, b), paired(b, a)
        assert found.difference == -mirrored.difference
        assert (found.wins, found.losses, found.ties) == (mirrored.losses, mirrored.wins, mirrored.ties)
        assert found.wilcoxon_p == mirrored.wilcoxon_p
        assert found.t_p == (mirrored.t_p if mirrored.t_p is None else pytest.approx(mirrored.t_p, rel=1e-9))
        if found.n > 1:
            assert (found.interval.low, found.interval.high) == (-mirrored.interval.high, -mirrored.interval.low)

    @given(any_pairs.filter(lambda pairs: len(pairs) > 1))
    def test_the_t_test_and_its_interval_agree(self, pairs):
        found = paired(*zip(*pairs, strict=True))
        assume(found.t_p is not None and abs(found.t_p - 0.05) > 1e-9)
        assert (found.t_p < 0.05) == (not found.interval.low <= 0 <= found.interval.high)

    @given(st.lists(st.tuples(any_float, any_float), min_size=1, max_size=8))
    def test_any_size_of_value(self, pairs):
        found = paired([a / 10 for a, _ in pairs], [b / 10 for _, b in pairs])
        for p in (found.t_p, found.wilcoxon_p):
            assert p is None or 0 <= p <= 1
        assert found.wins + found.losses + found.ties == found.n

    def test_refusals(self):
        with pytest.raises(DataError, match="a has 2 values and b 1"):
            paired([1, 2], [1])
        with pytest.raises(DataError, match="empty"):
            paired([], [])
        with pytest.raises(DataError, match=r"b\[0\] = nan"):
            paired([1], [nan])


class TestHolm:
    def test_by_hand(self):
        # 4 * 0.005, 3 * 0.01, 2 * 0.03, 1 * 0.04 (raised to the one before)
        assert holm([0.01, 0.04, 0.03, 0.005]) == close([0.03, 0.06, 0.06, 0.02])
        assert holm([0.5, None, 0.9]) == [1, None, 1]
        assert holm([None]) == [None]
        assert holm([]) == []

    @given(any_p)
    def test_between_raw_and_bonferroni_and_monotone(self, p):
        adjusted = holm(p)
        assert [value is None for value in adjusted] == [value is None for value in p]
        tested = sorted((raw, found) for raw, found in zip(p, adjusted, strict=True) if raw is not None)
        for raw, found in tested:
            assert raw <= found <= min(1, len(tested) * raw)
        assert [found for _, found in tested] == sorted(found for _, found in tested)

    @given(any_p, st.randoms(use_true_random=False))
    def test_permuting_permutes(self, p, random):
        order = random.sample(range(len(p)), len(p))
        adjusted = holm(p)
        assert holm([p[i] for i in order]) == [adjusted[i] for i in order]

    @pytest.mark.parametrize("bad", [-0.1, 1.1, nan, "x"])
    def test_refusals(self, bad):
        with pytest.raises(DataError, match=r"p\[2\] = "):
            holm([None, 0.5, bad])


class TestCompare:
    def test_rows(self):
        rows = {row.method: row for row in compare(TABLE, "fedavg")}
        assert list(rows) == ["better", "same", "short", "elsewhere"]
        assert {row.against for row in rows.values()} == {"fedavg"}
        assert [row.left_out for row in rows.values()] == [1, 0, 2, 5]
        assert rows["better"].paired == paired([0.85, 0.87, 0.83, 0.85], [0.80, 0.81, 0.79, 0.80])
        assert rows["better"].t_p_holm == close(3 * rows["better"].paired.t_p)  # of three that could be tested
        assert rows["better"].wilcoxon_p_holm == 3 / 8
        assert rows["same"].t_p_holm == rows["same"].wilcoxon_p_holm == 1
        assert (rows["elsewhere"].paired, rows["elsewhere"].t_p_holm) == (None, None)

    def test_warnings(self):
        found = {row.method: row.warning for row in compare(TABLE, "fedavg")}
        assert found["better"] is found["same"] is None
        assert found["short"].startswith("rests on 2 seeds; three are the least")
        assert found["elsewhere"].startswith("rests on 0 seeds; three are the least")
        assert few_seeds(1).startswith("rests on 1 seed;")

    def test_the_order_of_the_seeds_does_not_matter(self):
        turned = {method: dict(reversed(values.items())) for method, values in TABLE.items()}
        assert compare(turned, "fedavg") == compare(TABLE, "fedavg")

    def test_plain_numbers(self):
        table = {m: {s: np.float32(v) for s, v in values.items()} for m, values in TABLE.items()}
        found = [asdict(row) for row in compare(table, "fedavg")]
        assert json.loads(json.dumps(found)) == found

    def test_one_family_of_several_comparisons(self):
        """Holm over 2 x 3 tests instead of 3: the smallest p counts six times."""
        rows = compare(TABLE, "fedavg")
        both = one_family([*rows, *rows])
        assert both[0].t_p_holm == close(6 * rows[0].paired.t_p)
        assert [row.paired for row in both[:4]] == [row.paired for row in rows]
        assert one_family(both[:4]) == rows
        assert one_family([]) == []

    def test_degenerate(self):
        assert compare({"fedavg": {0: 1.0}}, "fedavg") == []
        with pytest.raises(ConfigError, match="did you mean 'fedavg'"):
            compare(TABLE, "fedavgg")
        with pytest.raises(DataError, match=r"moon\[4\] = None.*diverged"):
            compare({"fedavg": {0: 0.5}, "moon": {4: None}}, "fedavg")


class TestRanks:
    def test_by_hand(self):
        # Ranks of x, y, z: (1, 2, 3), (1, 2, 3), (1, 3, 2), (1.5, 1.5, 3), and a block that z lacks.
        table = {
            "z": dict(zip(BLOCKS, [1, 1, 2, 1], strict=False)),
            "x": dict(zip(BLOCKS, [3, 3, 3, 5, 0], strict=True)),
            "y": dict(zip(BLOCKS, [2, 2, 1, 5, 9], strict=True)),
        }
        found = ranks(table)
        assert [(rank.method, rank.mean_rank) for rank in found] == [("x", 1.125), ("y", 2.125), ("z", 2.75)]
        # Friedman: 12 / (4 * 3 * 4) * (4.5^2 + 8.5^2 + 11^2) - 3 * 4 * 4 = 5.375, over 1 - 6 / (4 * 24) for the tie
        chi_square = (0.25 * (4.5**2 + 8.5**2 + 11**2) - 48) / (1 - 6 / 96)
        for rank in found:
            assert (rank.blocks, rank.left_out, rank.warning) == (4, 1, few_seeds(2))
            assert rank.friedman_p == pytest.approx(np.exp(-chi_square / 2), rel=1e-9)  # two degrees of freedom
            assert rank.critical_difference == pytest.approx(2.343 * sqrt(12 / 24), abs=1e-3)
        assert [rank.groups for rank in found] == [(0,), (0,), (0,)]  # 2.75 - 1.125 = 1.625 < 1.657

    @pytest.mark.parametrize(
        ("k", "q"),  # Demšar 2006, table 5(a)
        [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (6, 2.850), (7, 2.949), (8, 3.031), (9, 3.102), (10, 3.164)],
    )
    def test_critical_values_of_the_paper(self, k, q):
        table = {str(i): {("iris", seed): i for seed in range(6)} for i in range(k)}
        assert ranks(table)[0].critical_difference == pytest.approx(q * sqrt(k * (k + 1) / 36), rel=4e-4)

    def test_groups_overlap(self):
        table = {str(i): {("iris", seed): -i for seed in range(8)} for i in range(1, 6)}
        found = ranks(table)  # mean ranks 1 to 5, CD = 2.728 sqrt(30 / 48) = 2.157
        assert [(rank.mean_rank, rank.groups) for rank in found] == [
            (1, (0,)),
            (2, (0, 1)),
            (3, (0, 1, 2)),
            (4, (1, 2)),
            (5, (2,)),
        ]
        assert found[0].friedman_p < 1e-5

    def test_smaller_is_better(self):
        table = {"a": {("iris", 0): 0.9, ("iris", 1): 0.8}, "b": {("iris", 0): 0.1, ("iris", 1): 0.2}}
        assert [rank.method for rank in ranks(table)] == ["a", "b"]
        assert [rank.method for rank in ranks(table, larger_is_better=False)] == ["b", "a"]

    @given(st.integers(2, 6).flatmap(lambda k: st.lists(st.lists(percent, min_size=k, max_size=k), min_size=1)))
    def test_ranks_add_up_and_the_order_of_blocks_does_not_matter(self, rows):
        columns = list(zip(*rows, strict=True))
        table = {str(m): {("c", s): v for s, v in enumerate(column)} for m, column in enumerate(columns)}
        turned = {str(m): {("c", s): v for s, v in enumerate(column[::-1])} for m, column in enumerate(columns)}
        found = ranks(table)
        assert found == ranks(turned)
        assert sum(rank.mean_rank for rank in found) == close(len(columns) * (len(columns) + 1) / 2)
        assert [rank.mean_rank for rank in found] == sorted(rank.mean_rank for rank in found)
        for one in found:
            for other in found:
                near = abs(one.mean_rank - other.mean_rank) <= one.critical_difference
                assert near == bool(set(one.groups) & set(other.groups))

    def test_degenerate(self):
        same = {method: {("iris", seed): 0.5 for seed in range(3)} for method in "abc"}
        assert [(r.mean_rank, r.friedman_p, r.groups, r.warning) for r in ranks(same)] == [(2, 1, (0,), None)] * 3
        assert [r.friedman_p for r in ranks({m: same[m] for m in "ab"})] == [None] * 2
        assert [r.friedman_p for r in ranks({m: {("iris", 0): i} for i, m in enumerate("abc")})] == [None] * 3
        [alone] = ranks({"a": same["a"]})
        assert (alone.mean_rank, alone.critical_difference, alone.groups) == (1, None, (0,))
        assert json.loads(json.dumps(asdict(alone)))["groups"] == [0]

    def test_refusals(self):
        with pytest.raises(DataError, match="no method"):
            ranks({})
        with pytest.raises(DataError, match="every method of a, b"):
            ranks({"a": {("iris", 0): 1.0}, "b": {("iris", 1): 1.0}})
        with pytest.raises(DataError, match=r"a\[\('iris', 0\)\] = nan"):
            ranks({"a": {("iris", 0): nan}})


def one_seed(values):
    return {column: {0: value} for column, value in values.items()}


class TestOrdering:
    def test_by_hand(self):
        papers = {"a": 90.0, "b": 88.1, "c": 88.1, "d": 85.7, "only theirs": 99.0}
        ours = one_seed({"a": 0.7, "b": 0.9, "c": 0.6, "d": 0.6, "only ours": 0.1})
        found = ordering_holds(ours, papers)  # pairs: ab ac ad bd cd
        assert (found.pairs, found.discordant, found.tied) == (5, (("a", "b"),), (("c", "d"),))
        assert found.tau == (3 - 1) / 5

    def test_rounding_errors_tie(self):
        assert ordering_holds(one_seed({"a": 0.3, "b": 0.1 + 0.2}), {"a": 2, "b": 1}).tied == (("a", "b"),)

    def test_only_common_seeds_are_compared(self):
        """a is ahead of b on the seed that both have, though not on average; c shares none."""
        ours = {"a": {0: 0.7, 1: 0.1}, "b": {0: 0.6}, "c": {2: 0.9}}
        found = ordering_holds(ours, {"a": 3, "b": 2, "c": 1})
        assert (found.pairs, found.held) == (1, 1)
        assert ordering_holds(ours, {"a": 3, "c": 1}).tau is None

    @given(st.permutations(range(6)))
    def test_kendall_without_ties(self, order):
        ours = one_seed(dict(zip("abcdef", order, strict=True)))
        found = ordering_holds(ours, dict(zip("abcdef", range(6), strict=True)))
        assert found.tau == close(stats.kendalltau(order, range(6)).statistic)
        assert (found.tau == 1) == (not found.discordant)

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=8))
    def test_somers_with_ties(self, pairs):
        ours, theirs = zip(*pairs, strict=True)
        assume(len(set(ours)) > 1 and len(set(theirs)) > 1)
        found = ordering_holds(one_seed(dict(enumerate(ours))), dict(enumerate(theirs)))
        assert found.tau == close((stats.kendalltau(theirs, ours).statistic) * _tie_ratio(ours, theirs))
        turned = ordering_holds(one_seed({i: -value for i, value in enumerate(ours)}), dict(enumerate(theirs)))
        assert turned.tau == -found.tau

    def test_nothing_to_compare(self):
        for papers in ({}, {"a": 1.0}, {"a": 1.0, "b": 1.0}, {"x": 1.0, "y": 2.0}):
            assert astuple(ordering_holds(one_seed({"a": 1.0, "b": 2.0}), papers)) == (None, 0, (), ())
        with pytest.raises(DataError, match=r"papers\['a'\] = nan"):
            ordering_holds(one_seed({"a": 1.0}), {"a": nan})


def _tie_ratio(ours, theirs):
    """What turns tau-b, (C - D) / sqrt(untied in ours * untied in theirs), into (C - D) / untied in theirs."""
    untied = [sum(x != y for i, x in enumerate(values) for y in values[:i]) for values in (ours, theirs)]
    return sqrt(untied[0] / untied[1])
