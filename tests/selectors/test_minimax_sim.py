from itertools import combinations, pairwise
from math import cos, pi, sin

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.selectors.gradients import NO_COUNTERS, filled, select

from entrofed.core.params import Params
from entrofed.core.types import ClientTable, Update
from entrofed.info.similarity import closest
from entrofed.selectors.gradient_table import GradientTable
from entrofed.selectors.minimax_sim import MaxSim, MiniMaxSim

BOTH = pytest.mark.parametrize("part", [MiniMaxSim(), MaxSim()], ids=lambda part: part.name)
UNIT = [[cos(a * pi / 180), sin(a * pi / 180)] for a in (0, 30, 90, 180)]
FIVE = [[1, 2, 3], [2, 4, 6.1], [-1, 0, 1], [0, -3, 1], [5, 5, -5]]

entries = st.one_of(st.just(0.0), st.floats(2**-7, 16, width=32), st.floats(-16, -(2**-7), width=32))
tables = st.tuples(st.integers(1, 8), st.integers(1, 4)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=entries)
)


def chosen(part: GradientTable, rows: object, size: int) -> list[int]:
    return select(part, rows, size).clients


def test_unit_vectors() -> None:
    assert chosen(MiniMaxSim(), UNIT, 2) == [3, 2]
    assert chosen(MaxSim(), UNIT, 2) == [0, 1]


def test_five_vectors() -> None:
    assert chosen(MiniMaxSim(), FIVE, 5) == [4, 3, 2, 0, 1]
    assert set(chosen(MiniMaxSim(), FIVE, 3)) == {2, 3, 4}
    assert chosen(MaxSim(), FIVE, 5) == [0, 1, 2, 3, 4]


@given(tables, st.integers(1, 9))
def test_sorting_is_as_good_as_trying_every_cohort(rows: np.ndarray, size: int) -> None:
    """Objective (11): no cohort of K has a smaller, for the baseline a larger, sum of maxima."""
    rows = rows[np.any(rows != 0, axis=1)]
    if len(rows) < 2:
        return
    norms = np.linalg.norm(rows.astype(np.float64), axis=1)
    similar = rows.astype(np.float64) @ rows.T.astype(np.float64) / np.outer(norms, norms)
    score = [max(similar[i, j] for j in range(len(rows)) if j != i) for i in range(len(rows))]
    sums = [sum(score[i] for i in cohort) for cohort in combinations(range(len(rows)), min(size, len(rows)))]
    assert sum(score[i] for i in chosen(MiniMaxSim(), rows, size)) == pytest.approx(min(sums), abs=1e-9)
    assert sum(score[i] for i in chosen(MaxSim(), rows, size)) == pytest.approx(max(sums), abs=1e-9)


@BOTH
@given(rows=tables, size=st.integers(0, 10))
def test_exactly_k_different_clients(part: GradientTable, rows: np.ndarray, size: int) -> None:
    cohort = chosen(part, rows, size)
    assert len(cohort) == len(set(cohort)) == min(size, len(rows))
    assert set(cohort) <= set(range(len(rows)))
    assert all(type(client) is int for client in cohort)
    assert cohort == chosen(part, rows, 8)[:size]


@BOTH
@given(rows=tables, data=st.data())
def test_the_length_of_an_update_does_not_count(part: GradientTable, rows: np.ndarray, data: st.DataObject) -> None:
    powers = data.draw(arrays(np.int64, len(rows), elements=st.integers(-20, 20)))
    scaled = np.ldexp(rows, powers[:, None]).astype(np.float32)
    assert chosen(part, scaled, 8) == chosen(part, rows, 8)


@given(tables)
def test_the_two_orders_are_reverses_up_to_ties(rows: np.ndarray) -> None:
    scores = closest(rows).round(12)
    usable = [i for i in range(len(rows)) if not np.isnan(scores[i])]
    least, most = chosen(MiniMaxSim(), rows, 8), chosen(MaxSim(), rows, 8)
    assert least[len(usable) :] == most[len(usable) :] == [i for i in range(len(rows)) if i not in usable]
    least, most = least[: len(usable)], most[: len(usable)]
    assert scores[least].tolist() == scores[most[::-1]].tolist()
    for cohort in (least, most):  # equal scores: by number
        assert all(a < b for a, b in pairwise(cohort) if scores[a] == scores[b])


def test_the_two_nearest_tie() -> None:
    """Each other's nearest have one and the same score; rounding must not decide between them."""
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = rng.standard_normal((6, 40)).astype(np.float32)
        rows[3] = rows[5] + 0.1 * rows[3]
        assert chosen(MaxSim(), rows, 2) == [3, 5]
        assert chosen(MiniMaxSim(), rows, 6)[-2:] == [3, 5]


@BOTH
def test_updates_without_direction_come_last_and_count_for_nobody(part: GradientTable) -> None:
    """Client 9's row is zero, 4's is NaN, 6 never answered; without them 0, 1, 2, 3 are chosen as if alone."""
    gradients = {client: np.array(row) for client, row in enumerate(UNIT)}
    among = [9, 3, 2, 6, 1, 0, 4]
    broken = {9: np.zeros(2), 4: np.array([np.nan, 1.0])}
    selection = select(part, gradients | broken, 7, among)
    assert selection.clients == [*select(part, gradients, 4, [0, 1, 2, 3]).clients, 4, 6, 9]
    assert [reason["score"] for reason in selection.reasons[4:]] == [None] * 3
    assert selection.reasons[3]["runner_up"] == 4
    assert selection.reasons[3]["runner_up_score"] is None


@BOTH
def test_only_those_who_are_there_are_compared(part: GradientTable) -> None:
    """Client 1 left: client 0 lost its double."""
    gradients = dict(enumerate(np.array(UNIT)))
    scores = {reason["client"]: reason["score"] for reason in select(part, gradients, 3, [0, 2, 3]).reasons}
    assert scores == pytest.approx({0: 0, 2: 0, 3: 0}, abs=1e-7)
    scores = {reason["client"]: reason["score"] for reason in select(part, gradients, 3, [0, 1, 3]).reasons}
    assert scores == pytest.approx({0: sin(pi / 3), 1: sin(pi / 3), 3: -sin(pi / 3)}, abs=1e-7)


@BOTH
def test_few_clients(part: GradientTable) -> None:
    one = {5: np.ones(2)}
    assert select(part, one, 3, [5]).clients == [5]
    assert select(part, one, 3, [5]).reasons[0]["score"] is None
    assert select(part, one, 3, []).clients == []
    assert select(part, one, 2, [2, 5, 3]).clients == [5, 2]  # only 5 ever answered
    assert select(part, {}, 2, [8, 2, 3]).clients == [2, 3]
    assert chosen(part, np.ones((4, 2)), 10) == [0, 1, 2, 3]  # all the same: s = 1, by number
    assert chosen(part, np.zeros((4, 2)), 3) == [0, 1, 2]


@BOTH
def test_why_each_was_picked(part: GradientTable) -> None:
    selection = select(part, {10 * i: np.array(row) for i, row in enumerate(FIVE)}, 3)
    scores = dict(zip([0, 10, 20, 30, 40], closest(np.array(FIVE)), strict=True))
    ranking = select(part, {10 * i: np.array(row) for i, row in enumerate(FIVE)}, 5).clients
    assert [reason["client"] for reason in selection.reasons] == selection.clients == ranking[:3]
    assert [reason["runner_up"] for reason in selection.reasons] == ranking[1:4]
    assert [reason["pool"] for reason in selection.reasons] == [5, 4, 3]
    for reason in selection.reasons:  # 6.1 is rounded to float32
        assert reason["score"] == pytest.approx(scores[reason["client"]], abs=1e-7)
        assert reason["runner_up_score"] == pytest.approx(scores[reason["runner_up"]], abs=1e-7)
    last = select(part, {0: np.ones(2), 1: np.ones(2)}, 2).reasons[-1]
    assert (last["runner_up"], last["runner_up_score"]) == (None, None)


@BOTH
def test_a_client_that_changed_is_seen_anew(part: GradientTable) -> None:
    """Client 3, the odd one out, comes to look like client 0; the other rows are stale and stay."""
    start = Params(np.zeros(2, np.float32), NO_COUNTERS)
    state = filled(part, dict(enumerate(np.array(UNIT))))
    changed = Update(3, Params(np.array([-5, 0], np.float32), NO_COUNTERS), 10, 1, 0.5, 0.5)
    state = part.observe(state, start, [changed])
    everybody = part.select(state, ClientTable(np.ones(4, int)), np.arange(4), 4, np.random.default_rng(0))
    assert everybody.state is state
    order = [2, 1, 0, 3] if part.name == "minimax_sim" else [0, 3, 1, 2]
    assert everybody.clients == order


def test_a_sketch_picks_the_same_where_scores_are_far_apart() -> None:
    """Ten pairs alike (cosine 0.8) and five loners; a sketch of 512 moves cosines by 0.04."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.standard_normal((10, 5000)), 2, axis=0) + 0.5 * rng.standard_normal((20, 5000))
    gradients = dict(enumerate(np.r_[rng.standard_normal((5, 5000)), pairs]))
    for size in (None, 512):
        assert sorted(select(MiniMaxSim(size), gradients, 5).clients) == [0, 1, 2, 3, 4]


@BOTH
def test_many_clients_are_scored_as_few_are(part: GradientTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Round after round, with clients that come and go: the same choice whether scores are kept or computed anew."""
    rng = np.random.default_rng(0)
    plain = kept = filled(part, dict(enumerate(rng.standard_normal((30, 6)))))
    start, table = Params(np.zeros(6, np.float32), NO_COUNTERS), ClientTable(np.ones(100, np.int64))
    for _ in range(8):
        among = np.sort(rng.choice(30, 24, replace=False))
        first = part.select(plain, table, among, 5, rng)
        with monkeypatch.context() as patch:
            patch.setattr("entrofed.selectors.minimax_sim.MANY", 2)
            second = part.select(kept, table, among, 5, rng)
        assert (second.clients, second.reasons) == (first.clients, first.reasons)
        values = rng.standard_normal((5, 6)).astype(np.float32)
        updates = [
            Update(client, Params(row, NO_COUNTERS), 10, 1, 0.5, 0.5)
            for client, row in zip(first.clients, values, strict=True)
        ]
        plain, kept = part.observe(first.state, start, updates), part.observe(second.state, start, updates)
