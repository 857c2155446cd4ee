"""FedEntOpt's selection: the worked examples, and what holds for every federation."""

from itertools import combinations
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from entrofed.errors import ConfigError
from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.types import Ledger

COUNTS = np.array([(10, 0, 0), (0, 10, 0), (0, 0, 10), (5, 5, 0), (9, 1, 0)], np.float64)


def ledger_of(counts, partition="dirichlet_balanced"):
    counts = np.asarray(counts, np.float64)
    return Ledger(sizes=np.maximum(counts.sum(axis=1), 1).astype(int), partition=partition, label_counts=counts)


def bits(counts):
    total = sum(counts)
    return -sum(n / total * log2(n / total) for n in counts if n > 0) if total else 0.0


class First:
    """A generator that draws the given client first."""

    def __init__(self, place):
        self.place = place

    def integers(self, n):
        assert 0 <= self.place < n
        return self.place


def start(part, ledger):
    return part.init(ledger, np.arange(len(ledger.sizes)))


def test_feo_1():
    ledger, part = ledger_of(COUNTS), LabelEntropyGreedy(buffer=0)
    found = part.select(start(part, ledger), ledger, np.arange(5), 3, First(0))
    assert found.clients == [0, 1, 2]
    first, second, third = found.reasons
    assert first == {"client": 0, "score": None, "how": "random", "pool": 5, "buffer": 0}
    assert (second["score"], second["runner_up"], second["runner_up_score"]) == (1.0, 2, 1.0)  # a tie
    assert third["score"] == pytest.approx(1.58496250072116, rel=1e-12)
    assert (third["runner_up"], third["runner_up_score"]) == (3, pytest.approx(1.0, rel=1e-12))


def test_feo_2():
    ledger, part = ledger_of(COUNTS), LabelEntropyGreedy(buffer=3)
    state, seen = start(part, ledger), []
    for client in (0, 3, 4):
        pool = [c for c in range(5) if c not in state["buffer"]]
        found = part.select(state, ledger, np.arange(5), 2, First(pool.index(client)))
        state = found.state
        seen.append((found.clients, state["buffer"].tolist()))
    assert seen == [([0, 1], [0, 1]), ([3, 2], [1, 3, 2]), ([4, 0], [2, 4, 0])]


def test_feo_3_greedy_is_not_optimal():
    counts = np.array([(1, 1, 1), (1, 0, 1), (0, 5, 9), (2, 0, 5), (5, 0, 1)])
    ledger, part = ledger_of(counts), LabelEntropyGreedy(buffer=0)
    found = part.select(start(part, ledger), ledger, np.arange(5), 3, First(0))
    assert found.clients == [0, 1, 2]
    assert bits(counts[[0, 1, 2]].sum(axis=0)) == pytest.approx(1.32353157611005)
    best = max(combinations(range(1, 5), 2), key=lambda pair: bits(counts[[0, *pair]].sum(axis=0)))
    assert best == (2, 4)
    assert bits(counts[[0, 2, 4]].sum(axis=0)) == pytest.approx(1.52037509459335)


tables = st.integers(2, 12).flatmap(
    lambda n: arrays(np.int64, st.tuples(st.just(n), st.integers(2, 5)), elements=st.integers(0, 30))
)


@settings(deadline=None, max_examples=150)
@given(tables, st.integers(1, 6), st.integers(0, 12), st.integers(0, 2**32), st.booleans())
def test_every_round(counts, size, buffer, seed, noised):
    """Each pick is the best there is; nobody twice; the buffer rests its clients and keeps its length."""
    clients, classes = counts.shape
    counts = counts + (np.random.default_rng(seed).random(counts.shape) if noised else 0)
    ledger, part = ledger_of(counts), LabelEntropyGreedy(buffer=buffer)
    state = start(part, ledger)
    capacity = min(buffer, max(clients - size, 0))
    for number in range(4):
        before = state["buffer"].tolist()
        found = part.select(state, ledger, np.arange(clients), size, np.random.default_rng([seed, number]))
        state = found.state
        assert len(found.clients) == len(set(found.clients)) == min(size, clients)
        assert not set(found.clients) & set(before)  # with Q <= K - M the pool suffices
        assert len(state["buffer"]) <= capacity
        assert state["buffer"].tolist() == [*before, *found.clients][len(before) + len(found.clients) - len(state["buffer"]) :]
        pool = [c for c in range(clients) if c not in before]
        pooled = np.zeros(classes)
        for place, (client, reason) in enumerate(zip(found.clients, found.reasons, strict=True)):
            assert reason["pool"] == len(pool)
            if place:
                best = max(bits(pooled + counts[c]) for c in pool)
                assert reason["score"] == pytest.approx(best, abs=1e-9)
                assert bits(pooled + counts[client]) == pytest.approx(best, abs=1e-9)
            pool.remove(client)
            pooled = pooled + counts[client]
        assert bits(pooled) <= log2(classes) + 1e-9
        if bits(pooled) > log2(classes - 1) + 1e-9:
            assert (pooled > 0).all()


@settings(deadline=None, max_examples=60)
@given(tables, st.integers(2, 50), st.integers(0, 99))
def test_a_common_scale_does_not_matter(counts, scale, seed):
    part = LabelEntropyGreedy(buffer=0)
    cohorts = []
    for ledger in (ledger_of(counts), ledger_of(counts * 2**scale)):
        rng = np.random.default_rng(seed)
        cohorts.append(part.select(start(part, ledger), ledger, np.arange(len(counts)), 4, rng).clients)
    assert cohorts[0] == cohorts[1]


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 5), st.integers(2, 4), st.integers(0, 99))
def test_round_robin_with_the_largest_buffer(size, times, seed):
    """Q = K - M and M divides K: everybody exactly once in K / M rounds."""
    clients = size * times
    rng = np.random.default_rng(seed)
    ledger = ledger_of(rng.integers(0, 40, (clients, 4)))
    part = LabelEntropyGreedy(buffer=clients - size)
    state, seen = start(part, ledger), []
    for _ in range(2 * times):
        found = part.select(state, ledger, np.arange(clients), size, rng)
        state = found.state
        seen += found.clients
    assert sorted(seen[:clients]) == sorted(seen[clients:]) == list(range(clients))


def test_the_buffer_of_the_paper():
    counts = np.ones((101, 3))
    for partition, capacity in (("label_quantity", 70), ("dirichlet_balanced", 50), ("iid", 50)):
        part = LabelEntropyGreedy()
        assert int(start(part, ledger_of(counts, partition))["capacity"]) == capacity
    assert int(start(LabelEntropyGreedy(buffer=0.29), ledger_of(np.ones((100, 3))))["capacity"]) == 29


def test_a_buffer_too_large_is_cut_with_a_word_or_refused(caplog):
    ledger = ledger_of(np.ones((6, 2)))
    part = LabelEntropyGreedy(buffer=6)
    found = part.select(start(part, ledger), ledger, np.arange(6), 2, np.random.default_rng(0))
    for _ in range(5):
        found = part.select(found.state, ledger, np.arange(6), 2, np.random.default_rng(0))
        assert len(found.clients) == 2
        assert len(found.state["buffer"]) <= 4
    assert caplog.text.count("it is cut") == 1
    strict = LabelEntropyGreedy(buffer=6, strict=True)
    with pytest.raises(ConfigError, match="at most 4"):
        strict.select(start(strict, ledger), ledger, np.arange(6), 2, np.random.default_rng(0))


def test_when_clients_left_the_oldest_in_the_buffer_come_back():
    ledger, part = ledger_of(np.eye(6)), LabelEntropyGreedy(buffer=4)
    state = {**start(part, ledger), "buffer": np.array([3, 5, 0, 1])}
    found = part.select(state, ledger, np.array([0, 1, 2, 5]), 3, np.random.default_rng(0))
    assert found.clients == [2, 5, 0]
    assert [reason["how"] for reason in found.reasons] == ["random", "fallback", "fallback"]
    assert part.select(state, ledger, np.array([4]), 3, np.random.default_rng(0)).clients == [4]
    assert part.select(state, ledger, np.zeros(0, np.int64), 3, np.random.default_rng(0)).clients == []


def test_more_wanted_than_there_are():
    ledger, part = ledger_of(COUNTS), LabelEntropyGreedy()
    found = part.select(start(part, ledger), ledger, np.arange(5), 9, np.random.default_rng(0))
    assert sorted(found.clients) == [0, 1, 2, 3, 4]


def test_ties_by_lowest_number_or_at_random():
    ledger = ledger_of(np.repeat([[5, 0]], 1, axis=0).tolist() + [[0, 5]] * 6)
    lowest, chance = LabelEntropyGreedy(buffer=0), LabelEntropyGreedy(buffer=0, random_ties=True)
    seen = set()
    for seed in range(60):
        rng = np.random.default_rng(seed)
        found = chance.select(start(chance, ledger), ledger, np.arange(7), 2, rng)
        if found.clients[0] == 0:
            seen.add(found.clients[1])
    assert len(seen) > 2
    assert lowest.select(start(lowest, ledger), ledger, np.arange(7), 2, First(0)).clients == [0, 1]


def test_noised_counts_that_are_all_zero_can_still_be_chosen():
    ledger, part = ledger_of(np.zeros((4, 3))), LabelEntropyGreedy(buffer=0)
    found = part.select(start(part, ledger), ledger, np.arange(4), 3, np.random.default_rng(0))
    assert len(set(found.clients)) == 3
    assert [reason["score"] for reason in found.reasons[1:]] == [0.0, 0.0]


@pytest.mark.parametrize("buffer", [-1, -0.1, 1.1, float("nan")])
def test_bad_buffers(buffer):
    with pytest.raises(ConfigError, match="buffer"):
        LabelEntropyGreedy(buffer=buffer)
