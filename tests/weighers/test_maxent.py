"""The weigher: where its numbers come from, its options, its control."""

import logging
from dataclasses import replace

import numpy as np
import pytest

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.sections.method import MethodSection
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.entropy import entropy_of_counts
from entrofed.registry import build, describe
from entrofed.weighers.maxent import MaxEnt
from entrofed.weighers.permuted import Permuted

COUNTS = [[30, 0, 0], [20, 10, 0], [0, 9, 1]]


@pytest.fixture
def weigh(cohort):
    def make(part, counts=COUNTS, sizes=None, clients=None):
        told = np.array(counts, np.float64)
        table = ClientTable(sizes=np.full(len(told), 10), classes=told.shape[1], facts={LabelCounts.name: told})
        updates, context = cohort(clients=list(range(len(told)) if clients is None else clients), table=table)
        for k, size in enumerate(sizes or ()):
            updates[k] = replace(updates[k], num_examples=size)
        return part.weigh(updates, context)

    return make


def test_by_hand(weigh):
    """Disjoint labels, and a prior by size: ``a_k ~ n_k^(s / (1 + s))``; s = 1 takes square roots."""
    part = MaxEnt(strength=1.0, prior="size")
    found = weigh(part, [[9, 0], [0, 1]], sizes=[9, 1])
    assert found.weights == pytest.approx([0.75, 0.25], abs=1e-14)
    assert found.origins == [{"label_entropy_bits": 0.0, "prior": 0.9}, {"label_entropy_bits": 0.0, "prior": 0.1}]


def test_the_mixture_is_more_diverse_than_by_size_or_equally(weigh):
    rows = np.array(COUNTS) / np.sum(COUNTS, axis=1, keepdims=True)
    mixed = weigh(MaxEnt()).weights @ rows
    assert entropy_of_counts(mixed) > max(
        entropy_of_counts(rows.sum(axis=0)), entropy_of_counts(np.sum(COUNTS, axis=0))
    )


def test_a_large_strength_gives_the_prior_back(weigh):
    assert weigh(MaxEnt(strength=1e3)).weights == pytest.approx(np.full(3, 1 / 3), abs=1e-3)
    sized = weigh(MaxEnt(strength=1e3, prior="size"), sizes=[1, 2, 5]).weights
    assert sized == pytest.approx([0.125, 0.25, 0.625], abs=1e-3)


def test_the_pooled_target_is_that_of_all_clients(weigh):
    """The two that take part hold one class each; all clients together hold them three to one."""
    counts = [[10, 0], [0, 10], [10, 0], [10, 0]]
    found = weigh(MaxEnt(strength=1e-3, target="pooled"), counts, clients=[0, 1]).weights
    given = weigh(MaxEnt(strength=1e-3, target=(3.0, 1.0)), counts, clients=[0, 1]).weights
    assert found == pytest.approx([0.75, 0.25], abs=1e-3)
    assert given.tolist() == found.tolist()
    even = weigh(MaxEnt(strength=1e-3), counts, clients=[0, 1]).weights
    assert even == pytest.approx([0.5, 0.5], abs=1e-12)


def test_no_client_carries_the_round(weigh):
    counts = [[10, 0]] * 7 + [[0, 10]]
    free, floored = (weigh(MaxEnt(strength=0.01, least=least), counts).weights for least in (1, 5))
    assert free[7] > 0.45
    assert 1 / (floored @ floored) == pytest.approx(5, rel=1e-9)
    assert 1 / 8 < floored[7] < free[7]
    assert weigh(MaxEnt(least=9), counts).weights.tolist() == [1 / 8] * 8


def test_counts_noised_away(weigh):
    found = weigh(MaxEnt(), [[5.5, 0.0], [0.0, 0.0], [0.0, 5.5]]).weights
    assert found == pytest.approx(np.full(3, 1 / 3), abs=1e-12)
    for target in ("uniform", "pooled"):
        part = MaxEnt(target=target, prior="size")
        found = weigh(part, [[0, 0, 0], [0, 0, 0], [4, 2, 0]], sizes=[1, 3], clients=[0, 1]).weights
        assert found == pytest.approx([0.25, 0.75])


def test_its_permuted_control(weigh):
    plain, permuted = weigh(MaxEnt()), weigh(Permuted(MaxEnt()))
    assert sorted(permuted.weights) == sorted(plain.weights)
    for weight, origin in zip(permuted.weights, permuted.origins, strict=True):
        assert weight == plain.weights[origin["of_client"]]
    assert MethodSection(name="maxent_weights", weigher="permuted").recipe.weigher == Permuted(MaxEnt())


def test_a_target_in_an_experiment_file():
    part = build("weigher", {"name": "maxent", "target": [1, 2.5], "least": 3})
    assert part == MaxEnt(target=(1.0, 2.5), least=3.0)
    assert build("weigher", describe(part)) == part


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"strength": 0}, "strength = 0.0 must be between 0.001 and 1000"),
        ({"least": 0.5}, "least = 0.5 is a number of clients, at least 1"),
        ({"target": [1, 0]}, "the divergence from a target that lacks a class is infinite"),
        ({"target": "unifrom"}, "target"),
        ({"prior": "sizes"}, "prior"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        build("weigher", {"name": "maxent", **options})


def test_no_counts_or_too_few_classes(cohort, weigh):
    with pytest.raises(DataError, match="weigher 'maxent' needs the clients' label counts"):
        MaxEnt().weigh(*cohort(clients=[0]))
    with pytest.raises(ConfigError, match="target has 2 numbers, and there are 3 classes"):
        weigh(MaxEnt(target=(0.5, 0.5)))


def test_a_gap_is_said(weigh, monkeypatch, caplog):
    monkeypatch.setattr("entrofed.weighers.maxent.CERTIFIED", -1.0)
    with caplog.at_level(logging.WARNING, "entrofed"):
        weigh(MaxEnt())
    assert "nats from the best" in caplog.text
