"""Weights by label counts that are estimated from the updates themselves, and weights by draws."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.core.gossip import check
from entrofed.core.params import Layout
from entrofed.core.types import LABEL_COUNTS, ClientTable
from entrofed.errors import ConfigError
from entrofed.registry import build, known
from entrofed.weighers.draws import Draws
from entrofed.weighers.estimated_counts import EstimatedCounts
from entrofed.weighers.maxent import MaxEnt

LAYOUT = Layout.of_shapes({"output.weight": ("trainable", (3, 1)), "output.bias": ("trainable", (3,))})
LABELS = [name for name in known("weigher") if any(f.name == LABEL_COUNTS for f in build("weigher", name).facts)]


def models(*moves):
    return [np.r_[np.zeros(3), move].astype(np.float32) for move in moves]


def test_by_hand(cohort):
    """Rises (1, 0, 0) and (1, 1, 0): entropies 0 and ln 2, so weights 1/3 and 2/3."""
    updates, context = cohort(models([1, -1, 0], [1, 1, -2]), start=np.zeros(6, np.float32), layout=LAYOUT)
    weighing = EstimatedCounts().weigh(updates, context)
    assert weighing.weights == pytest.approx([1 / 3, 2 / 3])
    assert weighing.origins[1]["label_entropy_nats"] == pytest.approx(np.log(2))


@pytest.mark.parametrize("name", [*LABELS, "pooled_kl"])
def test_as_with_true_counts_where_estimates_are_exact(cohort, name):
    """One class each. A third client has two classes, which moved by as much; the fourth took no part."""
    counts = np.array([[10.0, 0, 0], [0, 0, 10], [5, 5, 0], [0, 0, 0]])
    moves = models([2, -1, -1], [-1, -1, 2], [1, 1, -2])
    table = ClientTable(np.full(4, 10), 3)
    updates, context = cohort(moves, start=np.zeros(6, np.float32), layout=LAYOUT, table=table)
    inner = build("weigher", name)
    (fact,) = inner.facts
    told = counts if fact.name == LABEL_COUNTS else [fact.of_counts(row) for row in counts]
    known_of = replace(context, clients=replace(table, facts={fact.name: told}))
    expected = inner.weigh(updates, known_of).weights
    assert EstimatedCounts(inner).weigh(updates, context).weights == pytest.approx(expected)


def test_needs_a_server_and_no_counts():
    assert EstimatedCounts(MaxEnt()).facts == ()
    method = known("method")["max_entropy"](weigher="estimated_counts")
    assert method.weigher == EstimatedCounts(build("weigher", "label_entropy"))
    assert method.facts == ()
    with pytest.raises(ConfigError, match="weigher 'estimated_counts' needs a server that sees all clients"):
        check(method)
    with pytest.raises(ConfigError, match="'uniform' works with no label counts that could be estimated; give one"):
        known("method")["fedavg_uniform"](weigher="estimated_counts")


def test_a_network_without_a_bias(cohort):
    updates, context = cohort(models([1, -1, 0]))
    with pytest.raises(ConfigError, match="weigher 'estimated_counts' looks at the bias of the output layer"):
        EstimatedCounts().weigh(updates, context)


def test_weights_by_draws(cohort):
    updates, context = cohort(clients=[4, 2, 7])
    assert Draws().weigh(updates, context).weights == pytest.approx([1 / 3] * 3)
    drawn = Draws().weigh(updates, replace(context, draws={4: 3, 2: 1, 9: 5}))
    assert drawn.weights == pytest.approx([0.6, 0.2, 0.2])
    assert drawn.origins == [{"draws": 3}, {"draws": 1}, {"draws": 1}]
