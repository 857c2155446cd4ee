"""FedKLEntropy's weights from models in a layout."""

import numpy as np
import pytest

from entrofed.core.params import Layout, TensorEntry
from entrofed.errors import ConfigError
from entrofed.weighers.weight_kl import WeightHistogramKL

G = np.array([-1, -0.5, 0, 0.5, 1])
B = np.array([-1, -1, 0, 1, 1.0])


def test_fkl_1(cohort):
    updates, context = cohort([G, B], start=G)
    weighing = WeightHistogramKL(bins=4).weigh(updates, context)
    assert [origin["kl_nats"] for origin in weighing.origins] == pytest.approx([0, 0.277258872196679], rel=1e-9)
    assert weighing.weights == pytest.approx([0.560875571851265, 0.439124428148735], rel=1e-9)
    averaged = weighing.weights @ np.array([G, B])
    assert averaged == pytest.approx([-1, -0.719562214074367, 0, 0.719562214074367, 1], rel=1e-9)
    js = WeightHistogramKL(bins=4, divergence="js").weigh(updates, context)
    assert [origin["js_nats"] for origin in js.origins] == pytest.approx([0, 0.0863046217223125], rel=1e-9)
    assert js.weights == pytest.approx([0.520683609867831, 0.479316390132169], rel=1e-9)


def test_fkl_2(cohort):
    g = np.array([0, 0, 0, 1.0])
    updates, context = cohort([np.array([0, 0, 0.5, 1]), g], start=g)
    weighing = WeightHistogramKL(bins=4).weigh(updates, context)
    assert weighing.weights == pytest.approx([0.119639419214189, 0.880360580785811], rel=1e-9)


def test_fkl_3(cohort):
    i = np.arange(500)
    g = np.sin(0.37 * i) * (1 + i / 500)
    updates, context = cohort([0.9 * g, g + 0.05, g * abs(g)], start=g)
    weights = WeightHistogramKL().weigh(updates, context).weights
    assert weights == pytest.approx([0.45220939860993, 0.46292084558825, 0.084869755801819], rel=1e-9)
    shares = WeightHistogramKL(weighting="one_minus_share").weigh(updates, context).weights
    assert shares == pytest.approx([0.4849937289608, 0.48743911794085, 0.027567153098346], rel=1e-9)


LAYERS = Layout(
    (
        TensorEntry("body.weight", "trainable", (4,), 0, 4),
        TensorEntry("body.bias", "trainable", (1,), 4, 1),
        TensorEntry("projection.weight", "trainable", (5,), 5, 5),
        TensorEntry("norm.running_mean", "buffer", (2,), 10, 2),
    ),
    10,
    12,
    0,
)


def two_layers(first, second, buffers=(9.0, 9.0)):
    return np.concatenate([first, second, buffers])


def test_buffers_and_excluded_parameters_do_not_count(cohort):
    start = two_layers(G, G)
    models = [two_layers(G, G, (50, -50)), two_layers(B, G)]
    plain, context = cohort([G, B], start=G)
    expected = WeightHistogramKL(bins=4).weigh(plain, context).weights
    updates, context = cohort(models, start=start, layout=LAYERS)
    diluted = WeightHistogramKL(bins=4).weigh(updates, context).weights
    assert diluted[0] > diluted[1] > expected[1]
    excluded = WeightHistogramKL(bins=4, exclude="^projection").weigh(updates, context).weights
    assert excluded == pytest.approx(expected, rel=1e-12)


def test_layers_have_their_own_range_and_count_by_size(cohort):
    start = two_layers(G, 100 * G)
    updates, context = cohort([start, two_layers(B, 100 * G)], start=start, layout=LAYERS)
    layered = WeightHistogramKL(bins=4, scope="per_layer").weigh(updates, context)
    assert layered.origins[1]["kl_nats"] == pytest.approx(0.277258872196679 / 2, rel=1e-9)
    whole = WeightHistogramKL(bins=4).weigh(updates, context)
    assert whole.origins[1]["kl_nats"] == 0  # the large layer's range hides the small one


def test_gamma_sharpens(cohort):
    updates, context = cohort([G, B], start=G)
    flat, plain, sharp = (WeightHistogramKL(bins=4, gamma=g).weigh(updates, context).weights for g in (0, 1, 3))
    assert flat.tolist() == [0.5, 0.5]
    assert sharp[0] / sharp[1] == pytest.approx((plain[0] / plain[1]) ** 3)


def test_one_value_everywhere(cohort):
    updates, context = cohort([np.ones(5)] * 3, start=np.ones(5))
    for binning in ("minmax", "quantile", "fd"):
        assert WeightHistogramKL(binning=binning).weigh(updates, context).weights == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"bins": 0}, "bins = 0 must be at least 1"),
        ({"gamma": -1.0}, "gamma = -1.0 must be finite"),
        ({"exclude": "("}, "no regular expression"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(ConfigError, match=words):
        WeightHistogramKL(**options)


def test_excluding_everything(cohort):
    with pytest.raises(ConfigError, match="leaves no parameter"):
        WeightHistogramKL(exclude=".").weigh(*cohort([G], start=G))
