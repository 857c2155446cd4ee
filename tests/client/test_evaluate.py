"""Metrics held to scikit-learn, and evaluation in pieces."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.client.evaluate import PIECE, ConfusionSums, evaluate, metrics
from entrofed.core.params import Layout, Params
from entrofed.core.tasks import EvaluateTask
from entrofed.core.types import Failure
from entrofed.errors import EntrofedError
from entrofed.experiment.build import federate
from entrofed.experiment.sections.data import DataSection

NOTHING = Params(np.zeros(0, np.float32), np.zeros(0, np.int64))

confusions = st.integers(2, 6).flatmap(
    lambda classes: arrays(np.int64, (classes, classes), elements=st.sampled_from([0, 0, 0, 1, 2, 7]))
)


def labels(confusion: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """True and predicted labels with these counts."""
    pairs = np.repeat(np.argwhere(confusion >= 0), confusion.ravel(), axis=0)
    return pairs[:, 0], pairs[:, 1]


@settings(deadline=None, max_examples=60)
@given(confusions.filter(np.any))
def test_metrics_are_scikit_learns(confusion: np.ndarray) -> None:
    found = metrics(ConfusionSums(confusion, 1.0))
    true, predicted = labels(confusion)
    each = {"labels": np.arange(len(confusion)), "average": None}
    expected = {
        "accuracy": accuracy_score(true, predicted),
        "macro_f1": f1_score(true, predicted, average="macro", zero_division=0),
        "weighted_f1": f1_score(true, predicted, average="weighted", zero_division=0),
        "weighted_precision": precision_score(true, predicted, average="weighted", zero_division=0),
        "weighted_recall": recall_score(true, predicted, average="weighted", zero_division=0),
        "class_accuracy": recall_score(true, predicted, zero_division=0, **each).tolist(),
    }
    assert set(found.to_json()) == {"loss", *expected}
    for name, value in expected.items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-12, abs=1e-15), name
    assert found.weighted_recall == pytest.approx(found.accuracy, rel=1e-12)
    assert found.loss == 1.0 / len(true)


def test_constant_predictor() -> None:
    confusion = np.zeros((10, 10), np.int64)
    confusion[:, 4] = 100
    found = metrics(ConfusionSums(confusion, 0.0))
    assert found.macro_f1 == pytest.approx(0.0181818181818182, rel=1e-12)
    assert found.accuracy == 0.1
    assert found.class_accuracy == [0, 0, 0, 0, 1, 0, 0, 0, 0, 0]


def test_by_hand() -> None:
    """Precisions 3/3, 4/5, recalls 3/4, 4/4, supports 4, 4."""
    found = metrics(ConfusionSums(np.array([[3, 1, 0], [0, 4, 0], [0, 0, 0]]), 2.0))
    assert found.loss == 0.25
    assert found.accuracy == 7 / 8
    assert found.weighted_precision == pytest.approx((1 + 0.8) / 2, rel=1e-15)
    assert found.macro_f1 == pytest.approx((6 / 7 + 8 / 9) / 2, rel=1e-15)  # the unseen class is left out
    assert found.class_accuracy == [0.75, 1, 0]


@given(st.lists(st.tuples(arrays(np.int64, (3, 3), elements=st.integers(0, 9)), st.integers(0, 99)), min_size=1))
def test_sums_add(pieces: list[tuple[np.ndarray, int]]) -> None:
    total = ConfusionSums(*pieces[0])
    for confusion, loss in pieces[1:]:
        total = total + ConfusionSums(confusion, loss)
    np.testing.assert_array_equal(total.confusion, sum(confusion for confusion, _ in pieces))
    assert total.loss == sum(loss for _, loss in pieces)


class Recorder:
    """A backend that answers every task alike."""

    def __init__(self, *answers: Any) -> None:
        self.answers, self.tasks = answers, []

    def run(self, tasks: Sequence[EvaluateTask]) -> list[Any]:
        self.tasks = list(tasks)
        return [self.answers[i % len(self.answers)] for i in range(len(tasks))]


def test_pieces_cover_every_row_once() -> None:
    backend = Recorder(ConfusionSums(np.eye(2, dtype=np.int64), 0.5))
    rows = np.arange(2 * PIECE + 1)[::-1]
    (total,) = evaluate(backend, [(NOTHING, rows)])  # type: ignore[arg-type]
    assert [task.cost for task in backend.tasks] == [PIECE, PIECE, 1]
    assert {task.part for task in backend.tasks} == {"test"}
    np.testing.assert_array_equal(np.concatenate([task.rows for task in backend.tasks]), rows)
    assert total.confusion.tolist() == [[3, 0], [0, 3]]
    assert total.loss == 1.5


def test_nothing_to_evaluate_on() -> None:
    with pytest.raises(EntrofedError, match="the test part of the data is empty"):
        evaluate(Recorder(), [(NOTHING, np.arange(0))])  # type: ignore[arg-type]


def test_a_piece_that_fails_is_an_error() -> None:
    backend = Recorder(ConfusionSums(np.eye(2, dtype=np.int64), 0.0), Failure("worker died"))
    with pytest.raises(EntrofedError, match="evaluation of a model failed: worker died"):
        evaluate(backend, [(NOTHING, np.arange(2 * PIECE))])  # type: ignore[arg-type]


def test_a_model_on_iris() -> None:
    """The whole path against one plain pass over the test part."""
    federation = federate(DataSection(name="iris", clients=3), 0)
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.9))  # evaluated without dropout
    layout = Layout.of(model)
    backend = InlineBackend()
    build = lambda: torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.9))  # noqa: E731
    backend.open(Workload(federation, build, layout))
    data = federation.data
    found = metrics(*evaluate(backend, [(layout.read(model), np.arange(len(data.test_y)))]))
    x = torch.from_numpy((data.test_x - federation.shift) / federation.scale)
    with torch.no_grad():
        logits = model.eval()(x)
    assert found.accuracy == pytest.approx(accuracy_score(data.test_y, logits.argmax(1)), rel=1e-15)
    loss = torch.nn.functional.cross_entropy(logits, torch.from_numpy(data.test_y))
    assert found.loss == pytest.approx(float(loss), rel=1e-6)
