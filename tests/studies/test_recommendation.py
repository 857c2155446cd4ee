"""The rules, each with figures on both sides of its limit."""

import tomllib
from dataclasses import replace

import pytest

from entrofed.data.count_table import CountTable
from entrofed.experiment.config import parse
from entrofed.studies.findings import Chosen, Findings, Noised, find
from entrofed.studies.recommendation import level, recommend
from entrofed.suite.statistics import Interval


def about(mean: float, half: float | None = 0.01) -> Interval:
    return Interval(mean, None if half is None else mean - half, None if half is None else mean + half, half, 5)


def chosen(title: str, bits: float, **more) -> Chosen:
    spec = {"name": title.split(",")[0]} | ({"buffer": 0.5} if "buffer" in title else {})
    one = Chosen(title, spec, about(bits), (bits,), about(bits - 2.0), 0.5, 1.0, 0.1, title != "random")
    return replace(one, **more)


@pytest.fixture(scope="module")
def plain() -> Findings:
    """Hand-made on top of real ones: random cohorts have 2 bits, fedentopt 2.3."""
    counts = [[30, 10, 0, 0, 10], [0, 30, 10, 10, 0], [10, 0, 0, 30, 10], [10, 10, 30, 10, 10]] * 5
    real = find(CountTable.of(counts), cohort=4, rounds=3, seeds=2, buffers=(0.5,), epsilons=())
    best = chosen("fedentopt, buffer 50%", 2.3, all_there=1.0)
    return replace(real, selectors=(best, chosen("random", 2.0)), preferred=best.title, noise=())


def said(findings: Findings) -> str:
    return " ".join(recommend(findings).sentences)


def test_a_gain_is_recommended(plain):
    found = recommend(plain)
    assert found.selector == "fedentopt, buffer 50%"
    words = " ".join(found.sentences)
    assert (
        "Choose with fedentopt, buffer 50%: its cohorts of 4 have 2.30 bits instead of the 2.00 of random ones" in words
    )
    assert "every class in 100% of the rounds instead of 50%" in words
    assert "works under secure aggregation" in words
    assert tomllib.loads(found.settings) == {"method": {"cohort": 4, "selector": {"name": "fedentopt", "buffer": 0.5}}}
    parse({**tomllib.loads(found.settings), "model": "digits_mlp", "data": {"clients": 8}})
    assert "results.md" in found.unknown


def test_classes_that_are_always_there_are_no_difference(plain):
    always = tuple(replace(one, all_there=1.0) for one in plain.selectors)
    assert "every class in 100% of the rounds, as those do." in said(replace(plain, selectors=always))


@pytest.mark.parametrize("gain", [about(0.04), about(0.2, 0.3)])
def test_no_gain_is_called_none(plain, gain):
    best = replace(plain.selectors[0], gain=gain)
    found = recommend(replace(plain, selectors=(best, plain.selectors[1])))
    assert found.selector == "random"
    assert "Choose at random" in found.sentences[1]
    assert tomllib.loads(found.settings)["method"]["selector"] == {"name": "random"}


def test_a_single_seed_has_no_interval(plain):
    best = replace(plain.selectors[0], gain=about(0.2, None))
    assert recommend(replace(plain, selectors=(best, plain.selectors[1]))).selector == best.title


def test_how_many_clients_chance_would_need(plain):
    sizes = [replace(plain.sizes[0], size=size, entropy=bits) for size, bits in ((4, 2.0), (9, 2.31), (12, 2.32))]
    assert "Random cohorts get there with 9 clients per round." in said(replace(plain, sizes=tuple(sizes)))
    assert "of up to 4 clients do not get there" in said(replace(plain, sizes=tuple(sizes[:1])))


def test_nothing_to_choose(plain):
    found = recommend(replace(plain, selectors=(), preferred=""))
    assert "All clients take part in every round" in found.sentences[1]
    assert found.selector == "random"
    assert tomllib.loads(found.settings) == {"method": {"cohort": 4}}


def test_who_is_used_too_often(plain):
    best = replace(plain.selectors[0], most_used=1.0)
    assert "the data of few clients will count more" in said(replace(plain, selectors=(best, plain.selectors[1])))
    assert "will count more" not in said(plain)


def test_why_this_buffer(plain):
    uneven = chosen("fedentopt, buffer 0%", 2.4, most_used=0.9)
    words = said(replace(plain, selectors=(uneven, *plain.selectors)))
    assert "fedentopt, buffer 0% reaches 2.40 bits, but unevenly: one client takes part in 90% of the rounds" in words
    assert "unevenly" not in said(plain)


def test_scarce_classes(plain):
    scarce = replace(plain.classes[0], name="owl", holders=1, held_by=("Chur",), absent=0.8)
    words = said(replace(plain, classes=(scarce, *plain.classes[1:])))
    assert "Most random cohorts lack owl" in words
    assert "One client alone holds owl (Chur)" in words
    assert "lack" not in said(plain)


def test_an_unbalanced_pool(plain):
    words = said(replace(plain, skew=replace(plain.skew, pool_entropy=1.0, pool_effective=2.0)))
    assert "The pool itself is unbalanced (2.0 effective of 5 classes)" in words
    assert "unbalanced" not in said(plain)


def test_uneven_sizes(plain):
    assert "Gini 0.70" in said(replace(plain, skew=replace(plain.skew, gini=0.7)))
    assert "Gini" not in said(plain)


def noised(*costs: tuple[float, float]) -> tuple[Noised, ...]:
    return tuple(Noised(epsilon, 1 / epsilon, about(2.3 - cost), about(cost)) for epsilon, cost in costs)


@pytest.mark.parametrize(
    ("costs", "epsilon"),
    [
        (((0.1, 0.2), (0.5, 0.02), (1.0, 0.0)), 0.5),
        (((0.1, 0.001), (0.5, 0.1), (1.0, 0.0)), 1.0),  # what a larger epsilon cannot do, a smaller one does by luck
        (((0.1, 0.2), (0.5, 0.1)), None),
        (((1.0, -0.01),), 1.0),
    ],
)
def test_the_smallest_epsilon_that_costs_little(plain, costs, epsilon):
    here = replace(plain, noise=noised(*costs))
    settings = tomllib.loads(recommend(here).settings)
    assert settings.get("privacy") == (None if epsilon is None else {"epsilon": epsilon})
    words = said(here)
    assert ("too small for it" in words) == (epsilon is None)
    assert ("protects the counts only" in words) == (epsilon is not None)


@pytest.mark.parametrize(
    ("missing", "word"), [(0, "hardly"), (0.05, "hardly"), (0.06, "mildly"), (0.3, "strongly"), (1, "extremely")]
)
def test_levels(missing, word):
    assert level(missing) == word
