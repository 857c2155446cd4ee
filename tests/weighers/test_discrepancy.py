"""FedDisco's weights by hand."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.core.types import ClientTable
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.weighers.discrepancy import Discrepancy


@pytest.fixture
def weigh(cohort):
    def make(part, counts, sizes):
        table = ClientTable(
            np.array(sizes), classes=len(counts[0]), facts={LabelCounts.name: np.array(counts, np.float64)}
        )
        updates, context = cohort(clients=range(len(counts)), table=table)
        return part.weigh([replace(u, num_examples=n) for u, n in zip(updates, sizes, strict=True)], context)

    return make


def test_by_hand(weigh):
    """KL from uniform is 0, ln 2, ln 2: shares 0, 1/2, 1/2. 0.5 + 0.1, 0.25 - 0.25 + 0.1 twice."""
    found = weigh(Discrepancy(), [[5, 5], [5, 0], [0, 5]], [10, 5, 5])
    assert found.weights == pytest.approx(np.array([0.6, 0.1, 0.1]) / 0.8)
    assert [origin["discrepancy"] for origin in found.origins] == pytest.approx([0, 0.5, 0.5])
    found = weigh(Discrepancy(a=0.2, b=0.0, metric="l2"), [[5, 5], [5, 0], [0, 5]], [10, 5, 5])
    raw = np.array([0.5, 0.25 - 0.2 * 0.5**0.5, 0.25 - 0.2 * 0.5**0.5])
    assert found.weights == pytest.approx(raw / raw.sum())


def test_the_far_get_nothing_and_if_all_are_far_sizes_decide(weigh):
    assert weigh(Discrepancy(a=2.0), [[5, 5], [5, 0]], [5, 5]).weights.tolist() == [1, 0]
    assert weigh(Discrepancy(a=9.0, b=0.0), [[1, 0], [0, 1]], [1, 3]).weights.tolist() == [0.25, 0.75]
    assert weigh(Discrepancy(a=0.0, b=0.0), [[1, 0], [2, 1]], [1, 3]).weights.tolist() == [0.25, 0.75]
    assert weigh(Discrepancy(), [[0, 0], [0, 0]], [1, 3]).weights == pytest.approx([0.35 / 1.2, 0.85 / 1.2])


def test_bad_options():
    with pytest.raises(ConfigError, match=r"a = -1 and b = 0\.1 must be finite and not negative"):
        Discrepancy(a=-1)
