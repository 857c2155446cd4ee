"""INV-1 to INV-3, and what inverse entropy weights keep."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from entrofed.errors import DataError
from entrofed.info.prediction import Predictions, inverse_entropy_weights

TWO = [[(0.9, 0.1), (0.8, 0.2)], [(0.6, 0.4), (0.5, 0.5)]]
THREE = [
    [(0.7, 0.2, 0.1), (0.1, 0.8, 0.1)],
    [(1 / 3, 1 / 3, 1 / 3), (0.4, 0.3, 0.3)],
    [(0.98, 0.01, 0.01), (0.01, 0.01, 0.98)],
]


def weights(p, aggregate="mean_of_entropies"):
    return inverse_entropy_weights(Predictions.of(p).entropy(aggregate))


def test_inv_1():
    assert Predictions.of(TWO).entropy() == pytest.approx([0.595461844238322, 0.985475297227334], rel=1e-9)
    assert weights(TWO) == pytest.approx([0.623348817217185, 0.376651182782815], rel=1e-9)
    mean = Predictions.of(TWO).entropy("entropy_of_mean")
    assert mean == pytest.approx([0.6098403047164, 0.992774453987808], rel=1e-9)
    assert weights(TWO, "entropy_of_mean") == pytest.approx([0.619471678140862, 0.380528321859138], rel=1e-9)


def test_inv_2():
    expected = [1.0393538721672, 1.57795654758791, 0.161440542541821]
    assert Predictions.of(THREE).entropy() == pytest.approx(expected, rel=1e-9)
    assert weights(THREE) == pytest.approx([0.123507585730332, 0.0813508379980857, 0.795141576271583], rel=1e-9)


def test_inv_3():
    found = inverse_entropy_weights(np.array([0.0, 1.0, 0.0]))
    assert found == pytest.approx([0.49999999999975, 5.0e-13, 0.49999999999975], rel=1e-9)


models = st.integers(0, 2**32).map(
    lambda seed: softmax(3 * np.random.default_rng(seed).standard_normal((3, 6, 4)), axis=2)
)


@settings(deadline=None, max_examples=50)
@given(models, st.permutations(range(6)), st.permutations(range(4)))
def test_order_of_samples_and_classes_and_repetition_do_not_matter(p, samples, classes):
    for aggregate in ("mean_of_entropies", "entropy_of_mean"):
        expected = pytest.approx(weights(p, aggregate), rel=1e-9)
        assert weights(p[:, samples], aggregate) == expected
        assert weights(p[:, :, classes], aggregate) == expected
        assert weights(np.concatenate([p, p], axis=1), aggregate) == expected


@settings(deadline=None, max_examples=50)
@given(models, st.integers(1, 5))
def test_pieces_add_up(p, cut):
    parts = Predictions.of(p[:, :cut]) + Predictions.of(p[:, cut:])
    for aggregate in ("mean_of_entropies", "entropy_of_mean"):
        assert parts.entropy(aggregate) == pytest.approx(Predictions.of(p).entropy(aggregate), rel=1e-12)


@settings(deadline=None, max_examples=50)
@given(models, st.floats(1.01, 8))
def test_sharper_predictions_weigh_more(p, sharper):
    before = weights(p)
    p = p.copy()
    p[1] = softmax(np.log(p[1]) * sharper, axis=1)
    assert weights(p)[1] >= before[1]


def test_a_collapsed_model_wins_everything():
    constant = [[(1.0, 0.0), (1.0, 0.0)], [(0.9, 0.1), (0.1, 0.9)]]
    assert weights(constant)[0] > 1 - 1e-11  # a flaw of the method, and documented as one


def test_a_model_that_is_not_finite_gets_nothing():
    p = np.array([*TWO, [(np.nan, np.nan), (0.5, 0.5)]])
    for aggregate in ("mean_of_entropies", "entropy_of_mean"):
        found = weights(p, aggregate)
        assert found[:2] == pytest.approx(weights(TWO, aggregate))
        assert found[2] == 0
    assert np.isnan(weights([[(np.nan, 0.0)]])).all()


@pytest.mark.parametrize("row", [(2.0, -1.0), (3.0, 1.0), (0.2, 0.2)])
def test_logits_are_refused(row):
    with pytest.raises(DataError, match=r"model 1 predicts .* for sample 0, .* pass probabilities \(softmax\)"):
        Predictions.of([[(0.5, 0.5)], [row]])


def test_rounding_is_no_mistake():
    assert Predictions.of([[(0.5003, 0.5003)]]).entropy("entropy_of_mean") == pytest.approx(1)
