"""Median, trimmed mean, Krum and clipping: by hand, with a liar, and without one."""

import logging
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.core.params import Params
from entrofed.core.parts import ServerRule
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import ConfigError
from entrofed.info import similarity
from entrofed.servers.average import average
from entrofed.servers.clipped import Clipped
from entrofed.servers.krum import Krum, scores
from entrofed.servers.median import Median
from entrofed.servers.trimmed_mean import TrimmedMean

LARGEST = float(np.finfo(np.float32).max)
tables = st.tuples(st.integers(1, 9), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.float32, shape, elements=st.floats(-(2.0**20), 2.0**20, width=32))
)


def updates_of(rows: Any, clients: list[int] | None = None) -> list[Update]:
    rows = np.asarray(rows, np.float32)
    ids = clients or range(len(rows))
    return [
        Update(client, Params(row, np.array([client])), 10, 2, 1.0, 1.0) for client, row in zip(ids, rows, strict=True)
    ]


def following(
    part: ServerRule,
    rows: Any,
    *,
    weights: Any = None,
    start: Any = None,
    trainable: int | None = None,
    clients: list[int] | None = None,
) -> np.ndarray:
    """The values of the next model."""
    updates = updates_of(rows, clients)
    width = len(updates[0].params.values)
    before = Params(np.asarray(start if start is not None else np.zeros(width), np.float32), np.array([0]))
    table = ClientTable(sizes=np.full(99, 10), trainable=width if trainable is None else trainable)
    context = Context(before, 4, table, None, 0, None)  # type: ignore[arg-type]
    shares = np.full(len(updates), 1 / len(updates)) if weights is None else np.asarray(weights, np.float64)
    after, state = part.apply(updates, shares, context, {})
    assert after.values.dtype == np.float32
    assert after.counters.tolist() == [max(update.client for update in updates)]
    assert state.keys() == part.init(before, table, np.arange(99)).keys()
    return after.values


# Median and trimmed mean


def test_median_by_hand() -> None:
    rows = [[1, 50], [2, 40], [9, 10]]
    assert following(Median(), rows).tolist() == [2, 40]
    assert following(Median(), [*rows, [4, 20]]).tolist() == [3, 30]
    assert following(Median(), rows[:1]).tolist() == [1, 50]


def test_a_trimmed_mean_by_hand() -> None:
    column = np.arange(10.0)[:, None] ** 2
    assert following(TrimmedMean(), column) == pytest.approx([(285 - 81) / 8])
    assert following(TrimmedMean(share=0.2), column) == pytest.approx([(4 + 9 + 16 + 25 + 36 + 49) / 6])
    assert following(TrimmedMean(share=0.19), column) == pytest.approx([(285 - 81) / 8])


def test_a_trimmed_mean_of_few_leaves_out_the_extremes() -> None:
    """Of fewer than ten, nobody was left out: one adversary of nine took the model."""
    assert following(TrimmedMean(), [[0.0], [3.0], [1e30]]).tolist() == [3]
    assert following(TrimmedMean(), [*[[1.0]] * 8, [-1e30]]).tolist() == [1]
    assert following(TrimmedMean(), [[1.0], [3.0]]).tolist() == [2]
    assert following(TrimmedMean(share=0.0), [[0.0], [3.0], [9.0]]).tolist() == [4]


def test_a_share_that_is_a_whole_number_of_clients() -> None:
    """0.29 times 100 is 28.999999999999996."""
    column = np.r_[np.zeros(71), np.ones(29)][:, None]
    assert following(TrimmedMean(share=0.29), column).tolist() == [0]


@given(tables)
def test_the_largest_share_leaves_the_median(rows: np.ndarray) -> None:
    found = following(TrimmedMean(share=np.nextafter(0.5, 0)), rows)
    np.testing.assert_array_equal(found, following(Median(), rows))


@given(tables)
def test_the_median_is_numpys(rows: np.ndarray) -> None:
    expected = np.median(rows.astype(np.float64), axis=0).astype(np.float32)
    np.testing.assert_array_equal(following(Median(), rows), expected)


@given(tables)
def test_nothing_trimmed_is_the_uniform_average(rows: np.ndarray) -> None:
    plain = average(updates_of(rows), np.full(len(rows), 1 / len(rows))).values
    np.testing.assert_allclose(following(TrimmedMean(share=0), rows), plain, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("part", [Median(), TrimmedMean(share=0.3)])
@given(tables, st.randoms(use_true_random=False))
def test_the_order_of_clients_is_nothing(part: ServerRule, rows: np.ndarray, random: Any) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)
    np.testing.assert_array_equal(following(part, rows[order]), following(part, rows))


@pytest.mark.parametrize("part", [Median(), TrimmedMean(), Krum(), Krum(keep=3)])
def test_no_weight_no_vote(part: ServerRule) -> None:
    rows = np.random.default_rng(0).standard_normal((6, 3))
    some = following(part, rows, weights=[0.5, 0, 0.25, 0.125, 0, 0.125])
    without = following(part, rows[[0, 2, 3, 5]], weights=[0.5, 0.25, 0.125, 0.125], clients=[0, 2, 3, 5])
    np.testing.assert_array_equal(some, without)


@pytest.mark.parametrize("part", [Median(), TrimmedMean(share=0.2), Krum(keep=2)])
def test_blocks(part: ServerRule, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = np.random.default_rng(1).standard_normal((5, 40))
    whole = following(part, rows)
    monkeypatch.setattr(similarity, "CELLS", 35)  # seven columns at a time
    np.testing.assert_array_equal(following(part, rows), whole)


# Krum


def test_scores_by_brute_force() -> None:
    rows = np.random.default_rng(2).standard_normal((7, 4))
    for close in range(1, 6):
        expected = [np.sort(((rows - row) ** 2).sum(axis=1))[1 : close + 1].sum() for row in rows]
        assert scores(list(rows), close) == pytest.approx(expected, rel=1e-12)


def test_krum_by_hand() -> None:
    """Five clients, one liar: the two closest neighbours count."""
    rows = [[0], [1], [2], [3.5], [100]]
    assert scores([np.array(row) for row in rows], 2).tolist() == [5, 2, 3.25, 8.5, 96.5**2 + 98**2]
    assert following(Krum(liars=1), rows).tolist() == [1]
    assert following(Krum(liars=1, keep=2), rows, weights=[0.1, 0.3, 0.1, 0.1, 0.4]).tolist() == [1.25]
    assert following(Krum(), rows).tolist() == [1]


def test_krum_keeping_everybody_is_the_average() -> None:
    rows, weights = np.random.default_rng(3).standard_normal((4, 3)), np.array([0.5, 0.25, 0.125, 0.125])
    found = following(Krum(keep=9), rows, weights=weights)
    assert found.tobytes() == average(updates_of(rows), weights).values.tobytes()


@pytest.mark.parametrize("clients", [[3], [7, 2]])
def test_too_few_for_a_score(clients: list[int]) -> None:
    rows = [[float(client)] for client in clients]
    assert following(Krum(), rows, clients=clients).tolist() == [min(clients)]


def test_ties_go_to_the_lower_number() -> None:
    assert following(Krum(), [[5], [1], [3]], clients=[8, 6, 4]).tolist() == [3]
    assert following(Krum(), [[0], [1], [10], [11]], clients=[4, 3, 2, 1]).tolist() == [10]  # 101, 82, 82, 101


def test_more_adversarial_clients_than_the_cohort_allows(caplog: pytest.LogCaptureFixture) -> None:
    rows = [[0], [1], [2], [3.5], [100]]
    with caplog.at_level(logging.WARNING, "entrofed"):
        assert following(Krum(liars=2), rows).tolist() == [1]
        assert caplog.messages == [
            "round 4: krum against 2 adversarial clients needs 7 clients and has 5: it reckons with 1"
        ]
        caplog.clear()
        following(Krum(liars=1), rows)
        following(Krum(), rows[:1])
        assert not caplog.messages


def test_buffers_have_no_part_in_distances() -> None:
    rows = [[0, 900], [1, 500], [2, -900], [50, 0], [90, 0]]
    assert following(Krum(), rows, trainable=1).tolist() == [1, 500]


# Clipping


def test_clipping_by_hand() -> None:
    """Steps (3, 4) and (0, 0.5) from (1, 1), length at most 1; the buffer is averaged as it is."""
    rows = [[4, 5, 10], [1, 1.5, 20]]
    found = following(Clipped(norm=1), rows, start=[1, 1, 0], trainable=2)
    assert found == pytest.approx([1 + 0.6 / 2, 1 + (0.8 + 0.5) / 2, 15], rel=1e-6)


@given(tables, st.integers(0, 99))
def test_nothing_clipped_is_the_average_to_the_last_bit(rows: np.ndarray, seed: int) -> None:
    weights = np.random.default_rng(seed).dirichlet(np.ones(len(rows)))
    found = following(Clipped(norm=1e9), rows, weights=weights)
    assert found.tobytes() == average(updates_of(rows), weights).values.tobytes()


# A liar


@given(
    arrays(np.float32, (6, 4), elements=st.floats(-1, 1, width=32)),
    arrays(np.float32, 4, elements=st.sampled_from([-1e6, 1e6])),
    st.integers(0, 6),
)
def test_one_liar(honest: np.ndarray, lie: np.ndarray, place: int) -> None:
    rows = np.insert(honest, place, lie, axis=0)
    assert (np.abs(average(updates_of(rows), np.full(7, 1 / 7)).values) > 1e5).all()
    for part in (Median(), TrimmedMean(share=0.15), Krum(), Krum(liars=1, keep=3)):
        found = following(part, rows)
        assert (found >= honest.min(axis=0)).all(), part
        assert (found <= honest.max(axis=0)).all(), part
    alone = following(Clipped(norm=5), np.insert(honest, place, 0, axis=0))  # a seventh that stays where it started
    assert np.linalg.norm(following(Clipped(norm=5), rows) - alone) <= 5 / 7 * (1 + 1e-5)


@pytest.mark.parametrize("part", [Median(), TrimmedMean(share=0.4), Krum(), Krum(keep=5), Clipped()])
def test_huge_values(part: ServerRule) -> None:
    rows = [[LARGEST, -LARGEST], [-LARGEST, LARGEST], [LARGEST, LARGEST], [0, 0], [1, 1]]
    assert np.isfinite(following(part, rows, start=[-LARGEST, 0])).all()


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (TrimmedMean, {"share": 0.5}),
        (TrimmedMean, {"share": -0.1}),
        (Krum, {"liars": -1}),
        (Krum, {"keep": 0}),
        (Clipped, {"norm": 0.0}),
        (Clipped, {"norm": float("inf")}),
    ],
)
def test_bad_options(kind: Any, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="must"):
        kind(**options)
