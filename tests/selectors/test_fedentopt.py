"""FedEntOpt's selection: by hand, against brute force, and what must always hold."""

import logging
from itertools import combinations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.core.types import ClientTable
from entrofed.data.partition import dirichlet_balanced, label_counts, label_quantity
from entrofed.errors import ConfigError, DataError
from entrofed.facts.label_counts import LabelCounts
from entrofed.selectors.fedentopt import LabelEntropyGreedy

FEO_1 = [[10, 0, 0], [0, 10, 0], [0, 0, 10], [5, 5, 0], [9, 1, 0]]
FEO_3 = [[1, 1, 1], [1, 0, 1], [0, 5, 9], [2, 0, 5], [5, 0, 1]]


def table_of(counts, partition=""):
    counts = np.array(counts, np.float64)
    counts.flags.writeable = False
    return ClientTable(
        sizes=np.maximum(counts.sum(axis=1), 1).astype(np.int64),
        partition=partition,
        facts={LabelCounts.name: counts},
    )


def entropy(counts):
    """H2 by the book."""
    total = sum(counts)
    return -sum(c / total * log2(c / total) for c in counts if c > 0) if total else 0.0


def start(part, known):
    return part.init(known, np.arange(len(known.sizes)))


def play(part, known, size, seed, rounds, among=None):
    """The state before each round and what was selected in it."""
    state = start(part, known)
    among = np.arange(len(known.sizes)) if among is None else among
    for number in range(rounds):
        for array in state.values():
            array.flags.writeable = False
        selection = part.select(state, known, among, size, np.random.default_rng([seed, number]))
        yield state, selection
        state = selection.state


def forced(part, known, size, first, state=None, among=None):
    """A selection whose first pick is ``first``."""
    state = start(part, known) if state is None else state
    among = np.arange(len(known.sizes)) if among is None else among
    tries = (part.select(state, known, among, size, np.random.default_rng(seed)) for seed in range(1000))
    return next(selection for selection in tries if selection.clients[0] == first)


# By hand


def test_feo_1():
    first, second, third = forced(LabelEntropyGreedy(buffer=0), table_of(FEO_1), 3, 0).reasons
    empty = {"score": None, "runner_up": None, "runner_up_score": None}
    assert first == {"client": 0, **empty, "pool": 5, "buffer": 0, "how": "random"}
    for reason, client, score, runner_up, pool in ((second, 1, 1.0, 2, 4), (third, 2, 1.58496250072116, 3, 3)):
        assert reason == {
            "client": client,
            "score": pytest.approx(score, rel=1e-12),
            "runner_up": runner_up,
            "runner_up_score": pytest.approx(1.0, rel=1e-12),
            "pool": pool,
            "buffer": 0,
            "how": "greedy",
        }


def test_feo_1_other_scores():
    def pick(*there):
        return forced(LabelEntropyGreedy(buffer=0), table_of(FEO_1), 2, 0, among=np.array(there)).reasons[1]

    assert pick(0, 3, 4)["score"] == pytest.approx(0.811278124459133, rel=1e-12)
    assert pick(0, 3, 4)["runner_up_score"] == pytest.approx(0.286396957115956, rel=1e-12)
    assert [pick(0, 3, 4)["client"], pick(0, 3, 4)["runner_up"]] == [3, 4]
    assert pick(0, 4)["score"] == pytest.approx(0.286396957115956, rel=1e-12)
    assert pick(0, 4)["runner_up"] is pick(0, 4)["runner_up_score"] is None


def test_feo_2():
    part, known = LabelEntropyGreedy(buffer=3), table_of(FEO_1)
    state = start(part, known)
    for first, cohort, buffer in [(0, [0, 1], [0, 1]), (3, [3, 2], [1, 3, 2]), (4, [4, 0], [2, 4, 0])]:
        before = len(state["buffer"])
        selection = forced(part, known, 2, first, state)
        assert selection.clients == cohort
        assert selection.state["buffer"].tolist() == buffer
        assert [reason["buffer"] for reason in selection.reasons] == [before, min(before + 1, 3)]
        state = selection.state
        if first == 3:
            pick = selection.reasons[1]
            assert pick["score"] == pytest.approx(1.5, rel=1e-12)
            assert pick["runner_up"] == 4
            assert pick["runner_up_score"] == pytest.approx(0.881290899230693, rel=1e-12)


def test_feo_3_greedy_is_not_optimal():
    selection = forced(LabelEntropyGreedy(buffer=0), table_of(FEO_3), 3, 0)
    assert selection.clients == [0, 1, 2]
    assert selection.reasons[-1]["score"] == pytest.approx(1.32353157611005, rel=1e-12)
    best = max(combinations(range(5), 3), key=lambda cohort: entropy(np.array(FEO_3)[list(cohort)].sum(axis=0)))
    assert best == (0, 2, 4)
    assert entropy(np.array(FEO_3)[list(best)].sum(axis=0)) == pytest.approx(1.52037509459335, rel=1e-12)


def test_scaling_one_client_is_not_scaling_all():
    part = LabelEntropyGreedy(buffer=0)
    assert forced(part, table_of([[10, 0], [0, 10], [2, 2]]), 2, 0).clients == [0, 1]
    assert forced(part, table_of([[10, 0], [0, 1000], [2, 2]]), 2, 0).clients == [0, 2]


# Hyperparameters


@pytest.mark.parametrize("buffer", [-1, -0.1, 1.1, float("nan"), float("inf")])
def test_impossible_buffers(buffer):
    with pytest.raises(ConfigError, match="buffer"):
        LabelEntropyGreedy(buffer=buffer)


@pytest.mark.parametrize(
    ("buffer", "partition", "capacity"),
    [
        (None, "label_quantity", 70),
        (None, "dirichlet_balanced", 50),
        (0.29, "", 29),
        (0.999, "", 99),
        (1.0, "", 100),
        (0, "", 0),
        (1, "", 1),
    ],
)
def test_capacity(buffer, partition, capacity):
    part = LabelEntropyGreedy(buffer=buffer)
    assert part.init(table_of(np.ones((200, 2)), partition), np.arange(100))["capacity"] == capacity
    assert part.facts == (LabelCounts(),)
    assert not part.needs


def test_no_label_counts():
    table = ClientTable(sizes=np.ones(3, np.int64))
    with pytest.raises(DataError, match="selector 'fedentopt' needs the clients' label counts, and none were released"):
        LabelEntropyGreedy().select({}, table, np.arange(3), 2, np.random.default_rng(0))


@pytest.mark.parametrize(("buffer", "size", "capacity"), [(4, 2, 3), (100, 2, 3), (1.0, 4, 1), (5, 5, 0), (3, 9, 0)])
def test_too_large_a_buffer_is_cut(buffer, size, capacity, caplog):
    known = table_of(FEO_1)
    with caplog.at_level(logging.WARNING, "entrofed"):
        played = list(play(LabelEntropyGreedy(buffer=buffer), known, size, 0, 4))
    assert [len(selection.state["buffer"]) for _, selection in played][-1] == capacity
    assert all(reason["how"] != "fallback" for _, selection in played for reason in selection.reasons)
    assert f"at most {capacity}" in caplog.records[0].message
    if capacity:
        assert len(caplog.records) == 1
    with pytest.raises(ConfigError, match=f"at most {capacity}"):
        next(play(LabelEntropyGreedy(buffer=buffer, strict=True), known, size, 0, 1))


def test_the_largest_buffer_that_fits(caplog):
    with caplog.at_level(logging.WARNING, "entrofed"):
        list(play(LabelEntropyGreedy(buffer=3, strict=True), table_of(FEO_1), 2, 0, 4))
    assert not caplog.records


# Chance


def test_the_first_pick_is_uniform():
    part, known = LabelEntropyGreedy(buffer=0), table_of(FEO_1)
    state, rng = start(part, known), np.random.default_rng(0)
    there = np.array([0, 2, 3, 4])
    firsts = [part.select(state, known, there, 1, rng).clients[0] for _ in range(2000)]
    shares = np.bincount(firsts, minlength=5)[there] / 2000
    np.testing.assert_allclose(shares, 0.25, atol=4 * (0.25 * 0.75 / 2000) ** 0.5)


def test_random_ties():
    """Clients 1 and 2 tie for the second place after 0; never 3."""
    part, known = LabelEntropyGreedy(buffer=0, random_ties=True), table_of(FEO_1[:4])
    state, rng = start(part, known), np.random.default_rng(0)
    seconds = []
    while len(seconds) < 400:
        selection = part.select(state, known, np.arange(4), 2, rng)
        if selection.clients[0] == 0:
            seconds.append(selection.clients[1])
            assert {selection.clients[1], selection.reasons[1]["runner_up"]} == {1, 2}
    assert set(seconds) == {1, 2}
    assert abs(seconds.count(1) - 200) < 4 * 10


def test_the_same_seed_the_same_cohorts():
    known = table_of(np.random.default_rng(0).integers(0, 3, (20, 3)))
    for part in (LabelEntropyGreedy(), LabelEntropyGreedy(random_ties=True)):
        one, other = ([s.clients for _, s in play(part, known, 4, 5, 6)] for _ in range(2))
        assert one == other


# Clients that come and go


def test_nobody_there():
    part, known = LabelEntropyGreedy(), table_of(FEO_1)
    selection = part.select(start(part, known), known, np.zeros(0, np.int64), 2, np.random.default_rng(0))
    assert selection.clients == selection.reasons == []


def test_fallback_to_those_who_rested_longest():
    """With 0, 1 and 4 gone and 3 resting before 2, the pool is empty from the start."""
    part, known = LabelEntropyGreedy(buffer=3), table_of(FEO_1)
    state = {**start(part, known), "buffer": np.array([1, 3, 2])}
    selection = part.select(state, known, np.array([2, 3]), 2, np.random.default_rng(0))
    assert selection.clients == [3, 2]
    assert [reason["how"] for reason in selection.reasons] == ["fallback"] * 2
    assert [reason["pool"] for reason in selection.reasons] == [0, 0]
    assert selection.state["buffer"].tolist() == [1, 3, 2]
    selection = part.select(state, known, np.array([0, 2, 3]), 2, np.random.default_rng(0))
    assert selection.clients == [0, 3]
    assert [reason["how"] for reason in selection.reasons] == ["random", "fallback"]
    assert selection.state["buffer"].tolist() == [2, 0, 3]


def test_evicted_clients_rest_until_the_next_round():
    part, known = LabelEntropyGreedy(buffer=1), table_of(FEO_1)
    state = {**start(part, known), "buffer": np.array([2])}
    selection = part.select(state, known, np.array([0, 1, 2]), 3, np.random.default_rng(0))
    assert selection.clients[2] == 2
    assert selection.reasons[2]["how"] == "fallback"
    assert selection.state["buffer"].tolist() == [2]


# Degenerate counts


def test_identical_and_one_class_clients_go_by_number():
    for counts in ([[3, 3]] * 5, [[3, 0]] * 5, [[7]] * 5):
        assert forced(LabelEntropyGreedy(buffer=0), table_of(counts), 4, 2).clients == [2, 0, 1, 3]


def test_clients_without_counts_are_selectable():
    """Noised counts may all be clipped to zero; such a client changes nothing, for better or worse."""
    known = table_of([[0, 0], [0.5, 0], [0, 0], [0, 2.5]])
    part = LabelEntropyGreedy(buffer=0)
    assert forced(part, known, 4, 0).clients == [0, 1, 3, 2]
    assert forced(part, known, 4, 1).clients == [1, 3, 0, 2]
    assert forced(part, known, 4, 0).reasons[1]["score"] == 0


# What always holds


@st.composite
def federations(draw, noise=True):
    clients, classes = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    elements = st.integers(0, 20).map(float)
    if noise and draw(st.booleans()):
        elements = st.one_of(st.just(0.0), st.floats(1e-2, 50))
    return draw(arrays(np.float64, (clients, classes), elements=elements))


@settings(deadline=None, max_examples=150)
@given(federations(), st.integers(0, 8), st.integers(1, 9), st.integers(0, 99), st.data())
def test_every_pick(counts, buffer, size, seed, data):
    """Brute force over the pool; clients come and go."""
    part, known = LabelEntropyGreedy(buffer=buffer), table_of(counts)
    clients, classes = counts.shape
    state = start(part, known)
    capacity = min(buffer, max(clients - size, 0))
    for number in range(3):
        there = data.draw(st.sets(st.integers(0, clients - 1)))
        resting = [client for client in state["buffer"].tolist() if client in there]
        pool = sorted(there - set(resting))
        among = np.array(sorted(there), np.int64)
        selection = part.select(state, known, among, size, np.random.default_rng([seed, number]))
        assert len(set(selection.clients)) == len(selection.clients) == min(size, len(there))
        assert selection.clients[len(pool) :] == resting[: max(size - len(pool), 0)]
        pooled = np.zeros(classes)
        for client, reason in zip(selection.clients, selection.reasons, strict=True):
            assert client == reason["client"]
            assert reason["pool"] == len(pool)
            if reason["how"] == "fallback":
                assert not pool
                continue
            scores = {other: entropy(pooled + counts[other]) for other in pool}
            if reason["how"] == "greedy":
                best = max(scores.values())
                assert client == min(other for other in pool if scores[other] >= best - 1e-12)
                assert reason["score"] == pytest.approx(scores[client], abs=1e-12)
                assert reason["score"] <= log2(classes)
                rest = {other: score for other, score in scores.items() if other != client}
                if rest:
                    next_best = max(rest.values())
                    assert reason["runner_up"] == min(o for o in rest if rest[o] >= next_best - 1e-12)
                    assert reason["runner_up_score"] == pytest.approx(next_best, abs=1e-12)
                else:
                    assert reason["runner_up"] is reason["runner_up_score"] is None
            pool.remove(client)
            pooled = pooled + counts[client]
        rested = [client for client in state["buffer"].tolist() if client not in selection.clients]
        queue = rested + selection.clients
        state = selection.state
        assert state["buffer"].tolist() == queue[max(len(queue) - capacity, 0) :]


@settings(deadline=None, max_examples=60)
@given(federations(), st.integers(1, 8), st.integers(0, 8), st.integers(0, 99))
def test_no_client_of_the_buffer_while_the_pool_suffices(counts, size, buffer, seed):
    for state, selection in play(LabelEntropyGreedy(buffer=buffer), table_of(counts), size, seed, 6):
        assert not set(selection.clients) & set(state["buffer"].tolist())
        assert len(selection.clients) == min(size, len(counts))
        if size >= len(counts):
            assert sorted(selection.clients) == list(range(len(counts)))


@settings(deadline=None, max_examples=60)
@given(federations(noise=False), st.integers(1, 8), st.sampled_from([2, 3, 10, 1000]), st.integers(0, 99))
def test_multiplying_all_counts_changes_nothing(counts, size, factor, seed):
    one, other = (
        [selection.clients for _, selection in play(LabelEntropyGreedy(), table_of(scaled), size, seed, 3)]
        for scaled in (counts, factor * counts)
    )
    assert one == other


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 99))
def test_a_full_buffer_is_a_round_robin(size, turns, seed):
    clients = size * turns
    known = table_of(np.random.default_rng(seed).integers(0, 9, (clients, 3)))
    played = list(play(LabelEntropyGreedy(buffer=clients - size, strict=True), known, size, seed, 3 * turns))
    for first in range(0, 3 * turns, turns):
        turn = [client for _, selection in played[first : first + turns] for client in selection.clients]
        assert sorted(turn) == list(range(clients))


@settings(deadline=None, max_examples=100)
@given(federations(noise=False), st.integers(2, 8), st.integers(0, 99))
def test_high_entropy_means_all_labels(counts, size, seed):
    for _, selection in play(LabelEntropyGreedy(buffer=0), table_of(counts), size, seed, 1):
        pooled = counts[selection.clients].sum(axis=0)
        if len(selection.clients) > 1:
            score = selection.reasons[-1]["score"]
            assert score == pytest.approx(entropy(pooled), abs=1e-12)
            if counts.shape[1] > 1 and score > log2(counts.shape[1] - 1) + 1e-12:
                assert (pooled > 0).all()


# The papers' federations, without training


@pytest.mark.parametrize(
    ("partition", "deal", "options", "bits", "by_chance"),
    [
        ("label_quantity", label_quantity, {"labels_per_client": 2}, (3.296, 0.004), (3.010, 0.011)),
        ("dirichlet_balanced", dirichlet_balanced, {"alpha": 0.1}, (3.249, 0.014), (2.687, 0.044)),
    ],
)
def test_entropy_of_cohorts(partition, deal, options, bits, by_chance):
    """10 of 100 clients, 50,000 labels of ten classes; means and deviations over partitions are known."""
    labels = np.repeat(np.arange(10), 5000)
    rng = np.random.default_rng(1)
    counts = label_counts(labels, deal(labels, 100, rng, **options), 10)
    played = play(LabelEntropyGreedy(), table_of(counts, partition), 10, 0, 100)
    found = np.mean([entropy(counts[selection.clients].sum(axis=0)) for _, selection in played])
    chance = np.mean([entropy(counts[rng.choice(100, 10, replace=False)].sum(axis=0)) for _ in range(200)])
    assert found == pytest.approx(bits[0], abs=4 * bits[1])
    assert chance == pytest.approx(by_chance[0], abs=4 * by_chance[1])
