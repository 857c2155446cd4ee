"""MEA-1 and MEA-2, and what softmax weights keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.core.params import Layout, Params
from entrofed.core.types import ClientTable, Context, Update
from entrofed.errors import DataError
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.entropy import entropy_of_counts
from entrofed.weighers.label_entropy import LabelEntropy

NATS, BITS = LabelEntropy(), LabelEntropy(base="bits")


@pytest.fixture
def weigh(cohort):
    def make(counts, part=NATS):
        told = np.array(counts, np.float64)
        table = ClientTable(sizes=np.maximum(told.sum(axis=1), 1).astype(int), facts={LabelCounts.name: told})
        return part.weigh(*cohort(clients=range(len(told)), table=table))

    return make


def test_mea_1(weigh):
    counts = [[5, 5], [9, 1], [10, 0]]
    nats = weigh(counts)
    assert nats.weights == pytest.approx([0.456189240357934, 0.315716139463099, 0.228094620178967], rel=1e-9)
    found = [origin["label_entropy_nats"] for origin in nats.origins]
    assert found == pytest.approx([0.693147180559945, 0.325082973391448, 0], rel=1e-9)
    bits = weigh(counts, BITS).weights
    assert bits == pytest.approx([0.511275279239041, 0.300637056749728, 0.188087664011232], rel=1e-9)


def test_mea_2(weigh):
    counts = [[1] * 10, [100, *[1] * 9], [7, 7, *[0] * 8]]
    assert weigh(counts).weights == pytest.approx([0.73560360023753, 0.11727567971496, 0.14712072004751], rel=1e-9)
    assert weigh(counts, BITS).weights == pytest.approx(
        [0.85557511960041, 0.060506404512747, 0.08391847588684], rel=1e-9
    )


@settings(deadline=None, max_examples=50)
@given(st.lists(st.lists(st.integers(0, 50), min_size=4, max_size=4), min_size=1, max_size=5))
def test_weights_are_perplexities(counts):
    told = np.array(counts, np.float64)
    perplexities = np.exp(entropy_of_counts(told))
    table = ClientTable(sizes=np.ones(len(told), np.int64), facts={LabelCounts.name: told})

    params = Params(np.zeros(1, np.float32), np.zeros(0, np.int64))
    updates = [Update(k, params, 1, 1, 1.0, 1.0) for k in range(len(told))]
    weights = NATS.weigh(updates, Context(params, 0, table, Layout((), 1, 1, 0), 0, None)).weights
    assert weights == pytest.approx(perplexities / perplexities.sum(), rel=1e-12)
    assert (weights >= weights.max() / 4 - 1e-12).all()


def test_counts_noised_away_count_as_one_class(weigh):
    assert weigh([[0, 0], [8, 0]]).weights.tolist() == [0.5, 0.5]


def test_no_counts(cohort):
    with pytest.raises(
        DataError, match="weigher 'label_entropy' needs the clients' label counts, and none were released"
    ):
        NATS.weigh(*cohort(clients=[0]))
