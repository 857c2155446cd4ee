"""What clients tell besides their models: measured by hand, made of what was released, and refused where it lies.

What every fact has to keep is in ``test_parts_contract.py``.
"""

import re
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from entrofed.client.model import EVALUATION_BATCH, LocalModel
from entrofed.client.runtime import ClientRuntime
from entrofed.client.train import train
from entrofed.client.work import attempt
from entrofed.core.params import Params
from entrofed.core.parts import LabelFact
from entrofed.core.seeds import stream
from entrofed.core.tasks import FactTask, TrainTask
from entrofed.core.types import ClientData, Failure
from entrofed.core.validation import MAX_EXAMPLES
from entrofed.errors import ConfigError, EntrofedError
from entrofed.facts import FACTS
from entrofed.facts.first_update import FirstUpdate
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_mixture import LabelMixture
from entrofed.facts.loss import Loss
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.info.mixture import Mixture, fit
from entrofed.objectives.cross_entropy import CrossEntropy

LOGITS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 3.0], [2.0, 2.0, 2.0]])
LABELS = torch.tensor([0, 2, 1])
DATA = ClientData(LOGITS, LABELS, 3)


def as_they_are() -> LocalModel:
    """A model whose logits are its inputs, scaled by its only parameter, which is 1."""

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    return LocalModel(Scaled)


def softmax(logits: torch.Tensor) -> np.ndarray:
    exponentials = np.exp(logits.double().numpy())
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def test_the_eight_facts() -> None:
    told = {name: (fact.when, issubclass(fact, LabelFact)) for name, fact in FACTS.items()}
    assert told == {
        "label_counts": ("once", True),
        "label_mixture": ("once", True),
        "label_distance": ("once", True),
        "loss": ("before_round", False),
        "mean_prediction": ("with_update", False),
        "first_update": ("once", False),
        "squared_loss": ("with_update", False),
        "feature_sums": ("at_end", False),
    }
    assert len({fact.reveals for fact in FACTS.values()}) == len(FACTS)


# Labels


def test_label_counts() -> None:
    data = ClientData(torch.zeros(5, 1), torch.tensor([0, 3, 3, 1, 3]), 5)
    found = LabelCounts().measure(data, None)
    assert found.tolist() == [1, 1, 0, 3, 0]
    assert found.dtype == np.float64


@pytest.mark.parametrize("fact", [LabelCounts(), LabelMixture(), LabelMixture(0.9, "free_params")])
def test_only_what_was_released_leaves(fact: LabelFact) -> None:
    noised = np.array([0.0, 17.3, 0.4])
    found = fact.measure(replace(DATA, released=noised), None)
    np.testing.assert_array_equal(found, fact.of_counts(noised))
    assert not np.array_equal(found, fact.measure(DATA, None))


@pytest.mark.parametrize("counts", [[1, 0, 0], [0.25, 0, 0], [0, 0, MAX_EXAMPLES], [5, 5, 5]])
def test_counts_that_are(counts: list[float]) -> None:
    assert LabelCounts().problem(np.array(counts), 3) is None
    assert LabelCounts().problem(counts, 3) is None


@pytest.mark.parametrize(
    "counts", [[0, 0, 0], [1, -1e-9, 1], [1, 1], [1, 1, 1, 1], [1, np.nan, 1], [1, np.inf, 1], [MAX_EXAMPLES, 1, 0]]
)
def test_counts_that_are_not(counts: list[float]) -> None:
    reason = LabelCounts().problem(np.array(counts, np.float64), 3)
    assert reason is not None
    assert reason.startswith("3 numbers from 0 on, not all 0, are expected, found [")


def test_a_lie_does_not_fill_the_log() -> None:
    reason = LabelCounts().problem(np.full(10**5, -1.0), 3)
    assert reason is not None
    assert len(reason) < 300


@settings(max_examples=40)
@given(st.lists(st.integers(0, 60), min_size=2, max_size=6).filter(any), st.floats(0.05, 1))
def test_a_mixture_is_the_one_that_fits(counts: list[int], ratio: float) -> None:
    row = np.array(counts, np.float64)
    for penalty in ("components", "free_params"):
        fact = LabelMixture(ratio, penalty)  # type: ignore[arg-type]
        found = fact.of_counts(row)
        assert found.tolist() == fit(row, ratio=ratio, penalty=penalty).to_vector().tolist()  # type: ignore[arg-type]
        assert found[0] == row.sum()
        assert len(found) % 3 == 1
        assert fact.problem(found, len(counts)) is None
        components = len(Mixture.from_vector(found).weights)
        assert components <= ceil(ratio * np.count_nonzero(row))


def test_mixtures_by_hand() -> None:
    """One class is one narrow component; two classes side by side have mean 1.5 and variance 1/4."""
    assert LabelMixture().of_counts(np.array([30.0, 0, 0])) == pytest.approx([30, 1, 0, 0.01])
    assert LabelMixture().of_counts(np.array([0, 30.0, 30.0])) == pytest.approx([60, 1, 1.5, 0.25])


def test_the_mixture_of_an_empty_client() -> None:
    assert LabelMixture().of_counts(np.zeros(4)).tolist() == [0]
    assert LabelMixture().problem(np.zeros(1), 4) is None


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ([30, 1, 0], "1 \\+ 3m numbers"),
        ([5], "1 \\+ 3m numbers"),
        ([30, 0.5, 0, 0.1], "sum to 1"),
        ([30, 1.5, 0, 0.1, -0.5, 1, 0.1], "must be >= 0"),
        ([30, 1, 0, 0], "variances .* must be positive"),
        ([30, 1, 0, -1], "variances .* must be positive"),
        ([-30, 1, 0, 1], "size of a mixture is -30.0"),
        ([30, 1, np.nan, 1], "numbers up to"),
        ([np.inf, 1, 0, 1], "numbers up to"),
        ([30, 1, 1e300, 1], "numbers up to"),
        ([[30, 1, 0, 1]], "in a row"),
    ],
)
def test_mixtures_that_are_none(told: list[float], words: str) -> None:
    reason = LabelMixture().problem(np.array(told, np.float64), 3)
    assert reason is not None
    assert re.search(words, reason)


@pytest.mark.parametrize("ratio", [0.0, -0.5, 1.1, float("nan"), float("inf")])
def test_impossible_ratios(ratio: float) -> None:
    with pytest.raises(ConfigError, match=r"fact 'label_mixture': ratio = .* must be above 0 and at most 1"):
        LabelMixture(ratio)


# What the model says


def test_a_loss_by_hand() -> None:
    expected = -np.log(softmax(LOGITS)[np.arange(3), LABELS]).mean()
    found = Loss().measure(DATA, as_they_are())
    assert found.shape == ()
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_a_mean_prediction_by_hand() -> None:
    found = MeanPrediction().measure(DATA, as_they_are())
    assert found == pytest.approx(softmax(LOGITS).mean(axis=0), rel=1e-12)
    assert found.sum() == pytest.approx(1, rel=1e-12)


@pytest.mark.parametrize("fact", [Loss(), MeanPrediction()])
def test_batches_are_no_part_of_it(fact: Loss | MeanPrediction) -> None:
    """Means over samples, not over batches, of which the last is small."""
    x = torch.randn(EVALUATION_BATCH + 3, 3, generator=torch.Generator().manual_seed(0))
    y = torch.arange(len(x)) % 3
    whole = fact.measure(ClientData(x, y, 3), as_they_are())
    parts = [
        fact.measure(ClientData(x[rows], y[rows], 3), as_they_are()) for rows in (slice(None, -3), slice(-3, None))
    ]
    np.testing.assert_allclose(whole, (EVALUATION_BATCH * parts[0] + 3 * parts[1]) / len(x), rtol=1e-6)


@pytest.mark.parametrize("loss", [np.array(0.0), np.array(2.5), np.array(np.inf), np.array(np.nan), np.array(3), 1.5])
def test_losses_that_are(loss: object) -> None:
    """One that is not finite is a model that diverged: the selector's business."""
    assert Loss().problem(loss, 3) is None


@pytest.mark.parametrize("loss", [np.zeros(1), np.zeros((1, 1)), np.array("high"), np.array(True), np.array(1j), None])
def test_losses_that_are_not(loss: object) -> None:
    reason = Loss().problem(loss, 3)
    assert reason is not None
    assert reason.startswith("a loss that is no number: ")


@pytest.mark.parametrize("soft", [[0.2, 0.3, 0.5], [1, 0, 0], [0.2, 0.3, 0.5004]])
def test_distributions(soft: list[float]) -> None:
    assert MeanPrediction().problem(np.array(soft), 3) is None


@pytest.mark.parametrize(
    "soft",
    [[0.5, 0.5], [0.5, 0.5, 0.1], [1.1, -0.1, 0], [np.nan, 0.5, 0.5], [np.inf, 0, 0], [0, 0, 0], [[0.2, 0.3, 0.5]]],
)
def test_what_is_no_distribution(soft: list[float]) -> None:
    assert MeanPrediction().problem(np.array(soft, np.float64), 3) == "it is not a distribution over 3 classes"


# Where they are measured


def test_measured_on_the_model_that_the_task_brings(digits, bench) -> None:
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    other = Params((bench.params.values * 3).astype(np.float32), bench.params.counters)
    data = runtime.client_data(2)
    for fact in (Loss(), MeanPrediction(), LabelCounts(), LabelMixture()):
        found = [attempt(FactTask(fact, 2, params), runtime) for params in (bench.params, other, bench.params)]
        np.testing.assert_array_equal(found[0], found[2])
        assert np.array_equal(found[0], found[1]) == isinstance(fact, LabelFact)
        runtime.model.load(bench.params)
        np.testing.assert_array_equal(found[0], fact.measure(data, runtime.model))
        assert fact.problem(found[0], data.classes) is None
    assert attempt(FactTask(LabelCounts(), 2, bench.params), runtime).tolist() == digits.label_counts[2].tolist()


def test_with_an_update_on_the_trained_model_and_the_data_it_was_trained_on(digits, bench, training) -> None:
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    limits = np.minimum(digits.label_counts[2], 3)
    task = TrainTask(2, 0, 9, bench.params, CrossEntropy(), training, limits=limits)
    whole = runtime.client_data(2)
    plain = train(task, whole, runtime.model)
    told = train(replace(task, facts=(MeanPrediction(), Loss())), whole, runtime.model)
    assert not plain.facts
    assert set(told.facts) == {"mean_prediction", "loss"}
    assert plain.params.values.tobytes() == told.params.values.tobytes()  # to measure changes nothing
    runtime.model.load(told.params)
    trained_on = whole.at_most(limits, stream(9, "limit", 2))
    assert len(trained_on) == limits.sum() < len(whole)
    for fact in (MeanPrediction(), Loss()):
        np.testing.assert_array_equal(told.facts[fact.name], fact.measure(trained_on, runtime.model))
        assert not np.allclose(told.facts[fact.name], fact.measure(whole, runtime.model))


def test_a_first_update_is_a_task_of_its_own(digits, bench) -> None:
    runtime = ClientRuntime(digits, bench.build, compiled=False)
    with pytest.raises(EntrofedError, match="a first update is trained, not measured"):
        FirstUpdate().measure(runtime.client_data(0), runtime.model)
    failed = attempt(FactTask(FirstUpdate(), 0, bench.params), runtime)
    assert isinstance(failed, Failure)
    assert "trained, not measured" in failed.reason
