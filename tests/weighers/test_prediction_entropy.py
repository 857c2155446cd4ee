"""Weights from what models say about the validation set."""

import logging

import numpy as np
import pytest

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.client.evaluate import predictions
from entrofed.client.runtime import ClientRuntime
from entrofed.core.params import Params
from entrofed.errors import ConfigError
from entrofed.experiment.build import prepare
from entrofed.experiment.config import parse
from entrofed.info.prediction import Predictions
from entrofed.weighers.prediction_entropy import PredictionEntropy

SURE, UNSURE = [(1.0, 0.0)], [(0.5, 0.5)]


def test_more_certain_models_weigh_more(cohort):
    asked = []

    def predict(models):
        asked.append([model.values[0] for model in models])
        return Predictions.of([[(0.9, 0.1), (0.8, 0.2)], [(0.6, 0.4), (0.5, 0.5)]])

    models = [np.array([1.0], np.float32), np.array([2.0], np.float32)]
    weighing = PredictionEntropy().weigh(*cohort(models, predict=predict))
    assert asked == [[1.0, 2.0]]  # all models at once
    assert weighing.weights == pytest.approx([0.623348817217185, 0.376651182782815], rel=1e-9)
    assert weighing.origins[0]["prediction_entropy_bits"] == pytest.approx(0.595461844238322)


def test_a_certain_model_is_noticed_and_can_be_capped(cohort, caplog):
    models = [np.zeros(1, np.float32)] * 3
    made = cohort(models, predict=lambda models: Predictions.of([SURE, UNSURE, UNSURE]))
    with caplog.at_level(logging.WARNING):
        assert PredictionEntropy().weigh(*made).weights[0] > 1 - 1e-11
    assert "the model of client 0 has a prediction entropy of 0 bits" in caplog.text
    assert PredictionEntropy(max_weight=0.5).weigh(*made).weights == pytest.approx([0.5, 0.25, 0.25])


@pytest.mark.parametrize("options", [{"floor": 0.0}, {"floor": float("nan")}, {"max_weight": 0.0}, {"max_weight": 2.0}])
def test_bad_options(options):
    with pytest.raises(ConfigError, match="must be"):
        PredictionEntropy(**options)


def experiment(**data):
    return parse(
        {"data": {"name": "digits", "clients": 3, **data}, "method": {"name": "inv_entropy"}, "model": "digits_mlp"}
    )


def test_no_validation_set():
    with pytest.raises(ConfigError, match=r"'digits' has none; .* data.validation = 0.1"):
        prepare(experiment())


def test_a_validation_set_of_ones_own():
    with pytest.raises(ConfigError, match=r"'iris' has a validation set of its own, 30 samples"):
        prepare(experiment(name="iris", validation=0.1))


def test_the_share_is_set_aside():
    whole, setup = prepare(parse({"data": {"name": "digits", "clients": 3}})), prepare(experiment(validation=0.1))
    data, before = setup.federation.data, whole.federation.data
    assert data.validation_size == round(0.1 * len(before.train_y))
    assert data.validation_size + len(data.train_y) == len(before.train_y)
    assert sum(len(shard) for shard in setup.federation.shards) == len(data.train_y)
    together = np.concatenate([data.train_x, data.valid_x]).reshape(len(before.train_y), -1)
    assert np.array_equal(np.sort(together, axis=0), np.sort(before.train_x.reshape(len(before.train_y), -1), axis=0))
    with pytest.raises(ConfigError, match="is 0 of"):
        prepare(experiment(validation=1e-9))


def test_one_pass_equals_a_pass_for_each_model(two_workers):
    setup = prepare(experiment(validation=0.9))  # several pieces
    samples = setup.federation.data.validation_size
    models = [Params((setup.params.values * scale).astype(np.float32), setup.params.counters) for scale in (1, 2, 5)]
    backend = InlineBackend()
    backend.open(Workload(setup.federation, setup.build, setup.layout))
    together = predictions(backend, samples, models)
    apart = [predictions(backend, samples, [model]) for model in models]
    assert together.samples == samples
    assert together.entropies.tolist() == [one.entropies[0] for one in apart]
    assert together.totals.tolist() == [one.totals[0].tolist() for one in apart]
    assert (np.diff(together.entropies) < 0).all()  # larger weights, surer predictions

    runtime = ClientRuntime(setup.federation, setup.build, compiled=False)  # the plain way
    model, inputs = runtime.model, runtime.model.inputs
    model.load(models[1])
    model.module.eval()
    x = runtime.samples("valid", np.arange(samples)).x
    p = model.module(inputs.for_model(inputs.standardize(x))).softmax(1).detach().numpy().astype(np.float64)
    assert together.entropies[1] == pytest.approx(-(p * np.log2(p)).sum(), rel=1e-5)

    two_workers.open(Workload(setup.federation, setup.build, setup.layout))
    spread = predictions(two_workers, samples, models)
    assert spread.entropies.tolist() == together.entropies.tolist()
