"""ASL-1 and ASL-2, and the losses that have no say."""

from dataclasses import replace

import numpy as np
import pytest

from entrofed.errors import ConfigError
from entrofed.weighers.loss_deviation import LossDeviation


@pytest.fixture
def weights(cohort):
    return lambda losses, **options: LossDeviation(**options).weigh(*cohort(losses=losses)).weights


def test_asl_1(weights):
    losses = [0.2, 0.5, 0.55, 0.6, 2.0]
    inside = 0.290082895432
    expected = [0.104521891595, inside, inside, inside, 0.0252294221092]
    assert weights(losses, ddof=0) == pytest.approx(expected, rel=1e-9)
    assert weights(losses) == pytest.approx([*[0.244066801127] * 4, 0.0237327954917], rel=1e-9)


def test_asl_2(weights):
    losses = [1.0, 1.2, 3.0]
    assert weights(losses, ddof=0) == pytest.approx([0.476206034668, 0.476206034668, 0.0475879306647], rel=1e-9)
    assert weights(losses) == pytest.approx([0.471166837792, 0.471166837792, 0.0576663244152], rel=1e-9)


@pytest.mark.parametrize("ddof", [0, 1])
def test_no_spread(weights, ddof):
    assert weights([0.7], ddof=ddof).tolist() == [1.0]
    assert weights([0.7, 0.7], ddof=ddof).tolist() == [0.5, 0.5]


def test_a_loss_that_is_not_finite_gets_nothing(weights):
    assert weights([1.0, float("nan"), 1.2, 3.0, float("inf")])[[1, 4]].tolist() == [0, 0]
    assert weights([1.0, float("nan"), 1.2, 3.0])[[0, 2, 3]] == pytest.approx(weights([1.0, 1.2, 3.0]))
    assert np.isnan(weights([float("nan")])).all()  # nobody is left: the caller falls back


def test_the_loss_of_the_last_epoch(cohort):
    updates, context = cohort(losses=[9.0, 9.0, 9.0])
    updates = [replace(u, train_loss_last_epoch=loss) for u, loss in zip(updates, [1.0, 1.2, 3.0], strict=True)]
    assert LossDeviation(epochs="last").weigh(updates, context).weights[2] == pytest.approx(0.0576663244152)
    assert LossDeviation().weigh(updates, context).weights.tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("options", [{"alpha": -0.1}, {"beta": 0.0}, {"beta": float("inf")}])
def test_bad_options(options):
    with pytest.raises(ConfigError, match="must"):
        LossDeviation(**options)
