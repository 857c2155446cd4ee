"""What is found in label counts: figures by hand, known results, samples of large federations."""

import tracemalloc
from dataclasses import dataclass, field, replace
from math import log2
from typing import ClassVar

import numpy as np
import pytest

from entrofed import registry
from entrofed.core.parts import ALL_CLIENTS
from entrofed.core.seeds import stream
from entrofed.data.count_table import CountTable
from entrofed.data.partition import label_counts, label_quantity
from entrofed.registry import known
from entrofed.selectors.random import RandomSelection
from entrofed.studies import findings as module
from entrofed.studies.findings import Findings, count_based, find, methods_by_what_is_seen, preferred
from entrofed.suite.statistics import Interval


def found(table: CountTable, **options) -> Findings:
    settings = {"cohort": 2, "rounds": 20, "seeds": 2, "buffers": (0.0, 0.5), "epsilons": (1.0,), **options}
    return find(table, **settings)


@pytest.fixture(scope="module")
def two_labels() -> Findings:
    """100 clients with two of ten labels each, as in the FedEntOpt paper."""
    labels = np.repeat(np.arange(10), 5000)
    counts = label_counts(labels, label_quantity(labels, 100, stream(0, "partition"), labels_per_client=2), 10)
    return find(CountTable.of(counts), cohort=10, rounds=60, seeds=3, buffers=(0.0, 0.7, 0.95), epsilons=(0.1, 5.0))


def test_small_federation_by_hand():
    """Four clients, one of them empty; 'owl' is Chur's alone, so a random pair lacks it with probability 1/3."""
    table = CountTable.of([[6, 6, 0], [0, 0, 0], [12, 0, 0], [0, 0, 4]], ["cat", "dog", "owl"], ["A", "E", "B", "Chur"])
    here = found(table)
    assert (here.clients, here.empty_clients, here.samples, here.cohort) == (3, 1, 28, 2)
    assert (here.sampled, here.rounds, here.seeds, here.whole) == (3, 20, 2, True)
    dog, owl, cat = here.classes
    assert (dog.name, dog.holders, dog.held_by, dog.absent) == ("dog", 1, ("A",), pytest.approx(1 / 3))
    assert (owl.name, owl.samples, owl.held_by) == ("owl", 4, ("Chur",))
    assert (cat.name, cat.holders, cat.absent) == ("cat", 2, 0)
    assert [one.size for one in here.sizes] == [1, 2, 3]
    pair = here.sizes[1]
    assert pair.classes_there == pytest.approx(7 / 9)
    assert pair.all_there == pytest.approx(1 / 3, abs=0.1)
    pool = here.skew.pool_entropy
    assert (here.sizes[2].entropy, here.sizes[2].greedy) == pytest.approx((pool, pool))
    assert pair.greedy == pytest.approx(1.5613, abs=1e-4)  # A, then Chur: 6, 6, 4
    assert {one.selector["name"] for one in here.selectors} >= {"random", "fedentopt", "kl"}


def test_published_numbers_come_out(two_labels):
    by_title = {one.title: one for one in two_labels.selectors}
    assert by_title["random"].entropy.mean == pytest.approx(3.010, abs=0.04)
    best = by_title["fedentopt, buffer 70%"]
    assert best.entropy.mean == pytest.approx(3.296, abs=0.02)
    assert best.gain.mean == pytest.approx(best.entropy.mean - by_title["random"].entropy.mean)
    assert best.gain.low > 0.2
    assert (best.all_there, best.reach, best.most_used) == (1, 1, pytest.approx(0.117, abs=0.02))
    assert by_title["random"].gain.mean == 0
    assert not by_title["random"].tells_counts
    assert by_title["kl"].most_used == 1
    assert "fedentopt, buffer 95%" not in by_title  # more than K - M
    assert [one.entropy.mean for one in two_labels.selectors] == sorted(
        (one.entropy.mean for one in two_labels.selectors), reverse=True
    )
    at_ten = next(one for one in two_labels.sizes if one.size == 10)
    assert at_ten.entropy == pytest.approx(by_title["random"].entropy.mean, abs=0.03)
    assert at_ten.low < at_ten.entropy < at_ten.high < at_ten.greedy <= log2(10)


def test_noise_costs_more_at_smaller_epsilon(two_labels):
    strong, weak = two_labels.noise
    assert (strong.epsilon, strong.scale, weak.scale) == (0.1, 10, 0.2)
    chosen = next(one for one in two_labels.selectors if one.title == two_labels.preferred)
    assert weak.cost.mean == pytest.approx(chosen.entropy.mean - weak.entropy.mean)
    assert abs(weak.cost.mean) < 0.01
    small = CountTable.of(np.eye(10, dtype=int).repeat(10, axis=0) * 3)  # three samples each
    strong, weak = found(small, cohort=10, epsilons=(0.1, 5.0)).noise
    assert strong.cost.mean > weak.cost.mean + 0.1


def test_noised_counts_are_not_noised_again():
    here = found(CountTable.of([[6.5, 6, 0], [12, 0, 0.25], [0, 0, 4], [1, 2, 3]]))
    assert not here.whole
    assert here.noise == ()
    assert here.preferred


def test_everybody_in_every_round():
    here = found(CountTable.of([[6, 1], [2, 3]]), cohort=2)
    assert (here.selectors, here.noise, here.preferred) == ((), (), "")
    assert [one.size for one in here.sizes] == [1, 2]


def test_a_large_federation_is_sampled(monkeypatch):
    monkeypatch.setattr(module, "LARGEST", 40)
    counts = np.random.default_rng(0).integers(0, 5, (160, 4)) + 1
    here = found(CountTable.of(counts), cohort=5, rounds=80)
    assert (here.clients, here.sampled, here.rounds) == (160, 40, 20)
    assert max(one.size for one in here.sizes) == 40
    assert found(CountTable.of(counts), cohort=30).sampled == 120  # four cohorts at least
    monkeypatch.setattr(module, "LARGEST_COHORT", 7)
    assert found(CountTable.of(counts), cohort=30).cohort == 7
    monkeypatch.setattr(module, "WORK", 2 * 4 * 5 * 4 * 40 * 12)  # seeds, plays, cohort, classes, clients, rounds
    assert (found(CountTable.of(counts), cohort=5, rounds=80)).rounds == 12


def test_memory_stays_bounded(monkeypatch):
    """Of many clients, a few copies of their counts at most."""
    monkeypatch.setattr(module, "STARTS", 1)
    monkeypatch.setattr(module, "DRAWS", 20)
    table = CountTable.of(np.random.default_rng(0).integers(0, 4, (30_000, 40)) + 1)
    tracemalloc.start()
    here = found(table, cohort=5, rounds=2, seeds=1, buffers=(0.5,), epsilons=())
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (here.clients, here.sampled) == (30_000, 2000)
    assert most < 6 * table.counts.nbytes


def test_selectors_that_need_counts_alone_are_found_by_themselves(monkeypatch):
    @dataclass(frozen=True)
    class Mine(RandomSelection):
        name: ClassVar[str] = "mine"
        buffer: float = 0.5

    @dataclass(frozen=True)
    class SeesAll(RandomSelection):
        name: ClassVar[str] = "sees_all"
        needs: ClassVar[frozenset[str]] = frozenset({ALL_CLIENTS})

    @dataclass(frozen=True)
    class Unfinished(RandomSelection):
        name: ClassVar[str] = "unfinished"
        depth: int = field()

    more = {**known("selector"), "mine": Mine, "sees_all": SeesAll, "unfinished": Unfinished}
    for place in (module, registry):
        monkeypatch.setattr(place, "known", lambda kind: more)
    titles = [title for title, _ in count_based((0.0, 0.5, 0.9), 10, 4)]
    assert titles == [
        "random",
        "fedentopt, buffer 0%",
        "fedentopt, buffer 50%",
        "class_balanced",
        "stratified",
        "kl",
        "mine, buffer 0%",
        "mine, buffer 50%",
    ]
    few = [title for title, _ in count_based((0.0, 0.1, 0.2), 4, 2)]  # none of these buffers holds a client
    assert few == ["random", "fedentopt, buffer 0%", "class_balanced", "stratified", "kl", "mine, buffer 0%"]


def test_the_best_that_uses_clients_evenly_is_preferred(two_labels):
    one = two_labels.selectors[0]

    def like(title, bits, reach, used):
        mean = Interval(bits, None, None, None, 1)
        return replace(one, title=title, entropy=mean, reach=reach, most_used=used, tells_counts=title != "random")

    by_chance = like("random", 2.0, 1.0, 0.2)
    assert preferred([]) is None
    assert preferred([by_chance]) is None
    often, few = like("one too often", 3.0, 1.0, 0.31), like("too few", 3.0, 0.89, 0.2)
    even, worse = like("even", 2.9, 0.9, 0.3), like("worse", 2.8, 1.0, 0.2)
    assert preferred([often, few, even, worse, by_chance]).title == "even"
    assert preferred([even, like("nearly as good, and more even", 2.89, 1.0, 0.2), by_chance]).title.startswith(
        "nearly"
    )
    assert preferred([often, few, by_chance]).title == "too few"  # if none is even


def test_methods_by_what_the_server_must_see():
    groups = methods_by_what_is_seen()
    seen = {name: group.sees for group in groups for name in group.names}
    assert set(seen) == set(known("method"))
    assert {name for name, sees in seen.items() if sees == "sum"} >= {
        "fedavg",
        "fedentopt",
        "max_entropy",
        "fedep",
        "kl",
    }
    assert {name for name, sees in seen.items() if sees == "scalars"} >= {"fedasl", "power_of_choice", "reselection"}
    assert {name for name, sees in seen.items() if sees == "models"} >= {
        "fedklentropy",
        "inv_entropy",
        "krum",
        "median",
    }
    fedentopt = next(group for group in groups if "fedentopt" in group.names)
    assert fedentopt.once == ("its label counts",)
    assert [group.sees for group in groups] == sorted(
        (group.sees for group in groups), key=["sum", "scalars", "models"].index
    )
