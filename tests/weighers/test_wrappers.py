"""Weighers around weighers: permuted and capped."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.core.parts import VALIDATION
from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError
from entrofed.experiment.config import parse
from entrofed.experiment.sections.method import MethodSection
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_mixture import LabelMixture
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.registry import build, describe
from entrofed.weighers.capped import Capped
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.label_entropy import LabelEntropy
from entrofed.weighers.permuted import Permuted
from entrofed.weighers.pooled_kl import PooledKL
from entrofed.weighers.weight_kl import WeightHistogramKL


def test_permuted_weights_are_the_same_in_another_order(cohort):
    updates, context = cohort(clients=range(8))
    updates = [replace(update, num_examples=2**k) for k, update in enumerate(updates)]
    plain = DataSize().weigh(updates, context).weights
    seen = set()
    for number in range(20):
        weighing = Permuted(DataSize()).weigh(updates, replace(context, round=number))
        assert sorted(weighing.weights) == sorted(plain)
        for weight, origin in zip(weighing.weights, weighing.origins, strict=True):
            assert weight == plain[origin["of_client"]]
        seen.add(tuple(weighing.weights))
    assert len(seen) == 20  # another order in every round
    assert tuple(Permuted(DataSize()).weigh(updates, replace(context, seed=99)).weights) not in seen


def test_permuted_weights_spread_evenly(cohort):
    updates, context = cohort(clients=range(4))
    updates = [replace(update, num_examples=1000 if k == 0 else 1) for k, update in enumerate(updates)]
    heaviest = [int(Permuted().weigh(updates, replace(context, round=r)).weights.argmax()) for r in range(2000)]
    assert np.bincount(heaviest, minlength=4) == pytest.approx(np.full(4, 500), abs=5 * (2000 * 3 / 16) ** 0.5)


def test_a_liar_gains_no_more_than_the_cap(cohort):
    """A peer that claims a single rare class takes most of the weight, unless it is capped."""
    counts = np.array([[50, 50, 50, 0]] * 9 + [[0, 0, 0, 50]], np.float64)
    part = PooledKL(mode="histogram")
    table = ClientTable(sizes=np.full(10, 150), classes=4, facts={LabelCounts.name: counts})
    made = cohort(clients=range(10), table=table)
    assert part.weigh(*made).weights[9] > 0.6
    weighing = Capped(part, share=0.2).weigh(*made)
    assert weighing.weights[9] == pytest.approx(0.2, abs=1e-12)
    assert weighing.weights[:9] == pytest.approx(np.full(9, 0.8 / 9))
    assert weighing.origins[9]["uncapped"] == pytest.approx(part.weigh(*made).weights[9])
    assert weighing.origins[9]["kl_nats"] > 0


def test_weights_that_fail_are_replaced_and_then_capped(cohort):
    updates, context = cohort([np.full(4, np.nan, np.float32), np.zeros(4, np.float32), np.ones(4, np.float32)])
    updates = [replace(updates[0], num_examples=998), *(replace(u, num_examples=1) for u in updates[1:])]
    assert Capped(WeightHistogramKL(), share=0.5).weigh(updates, context).weights == pytest.approx([0.5, 0.25, 0.25])


@pytest.mark.parametrize(
    ("inner", "facts", "needs"),
    [
        ("label_entropy", (LabelCounts(),), set()),
        ("pooled_kl", (LabelMixture(),), set()),
        ({"name": "pooled_kl", "ratio": 0.4, "penalty": "free_params"}, (LabelMixture(0.4, "free_params"),), set()),
        ({"name": "pooled_kl", "mode": "histogram"}, (LabelCounts(),), set()),
        ("reselection", (MeanPrediction(),), set()),
        ("prediction_entropy", (), {VALIDATION}),
        ("data_size", (), set()),
    ],
)
def test_facts_and_needs_are_those_of_the_inner_weigher(inner, facts, needs):
    for name in ("permuted", "capped"):
        for spec in (inner, {"name": "permuted", "weigher": inner}):
            part = build("weigher", {"name": name, "weigher": spec})
            assert part.facts == facts
            assert part.needs == needs


def test_described_and_built_again():
    part = Capped(Permuted(LabelEntropy(base="bits")), share=0.4)
    spec = {
        "name": "capped",
        "weigher": {"name": "permuted", "weigher": {"name": "label_entropy", "base": "bits"}},
        "share": 0.4,
    }
    assert describe(part) == spec
    assert build("weigher", spec) == part


def test_without_an_inner_weigher_the_recipes_is_wrapped():
    method = MethodSection(name="fedklentropy", weigher="permuted").recipe
    assert method.weigher == Permuted(WeightHistogramKL())
    method = MethodSection(name="max_entropy", weigher={"name": "capped", "share": 0.2}).recipe
    assert method.weigher == Capped(LabelEntropy(), share=0.2)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"name": "capped", "share": 0.0}, "share = 0.0 must be above 0"),
        ({"name": "capped", "share": 1.5}, "share = 1.5 must be above 0"),
        ({"name": "capped", "weigher": "nobody"}, "weigher 'nobody'"),
        ({"name": "permuted", "weigher": {"bins": 3}}, "needs a 'name'"),
        ({"name": "permuted", "weigher": {"name": "weight_kl", "bin": 3}}, "did you mean 'bins'"),
        ({"name": "permuted", "weigher": 5}, "weigher: a name, a table"),
    ],
)
def test_bad_specs(spec, words):
    with pytest.raises(ConfigError, match=words):
        parse({"method": {"weigher": spec}})
