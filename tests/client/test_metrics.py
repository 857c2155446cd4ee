"""Chosen metrics: held to scikit-learn and to hand-computed cases, whatever the pieces and the workers."""

from collections.abc import Callable
from functools import reduce
from operator import add

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from entrofed.backends.base import Workload
from entrofed.backends.inline import InlineBackend
from entrofed.backends.processes import ProcessBackend
from entrofed.client.evaluate import ConfusionSums, evaluate, metrics
from entrofed.client.metrics import METRICS, auroc, balanced_accuracy, calibration_error, client_accuracy, measured
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError

few = st.sampled_from([-2.0, -0.5, 0.0, 0.5, 0.5, 3.0])  # with ties


def samples(classes: int) -> st.SearchStrategy[tuple[np.ndarray, np.ndarray]]:
    one = st.tuples(st.lists(few, min_size=classes, max_size=classes), st.integers(0, classes - 1))
    return st.lists(one, min_size=1, max_size=30).map(
        lambda found: (np.array([x for x, _ in found], np.float32), np.array([y for _, y in found], np.int64))
    )


@pytest.mark.filterwarnings("ignore:y_pred contains classes:UserWarning", "ignore:A single label:UserWarning")
@given(samples(4))
def test_balanced_accuracy_is_scikit_learns(found: tuple[np.ndarray, np.ndarray]) -> None:
    logits, labels = found
    expected = balanced_accuracy_score(labels, logits.argmax(1))
    assert balanced_accuracy(logits, labels) == pytest.approx(expected, rel=1e-12)


@given(samples(2))
def test_auroc_is_scikit_learns(found: tuple[np.ndarray, np.ndarray]) -> None:
    logits, labels = found
    if len(set(labels.tolist())) < 2:
        assert np.isnan(auroc(logits, labels))
    else:
        assert auroc(logits, labels) == pytest.approx(roc_auc_score(labels, logits[:, 1] - logits[:, 0]), rel=1e-12)


def test_auroc_tells_apart_what_probabilities_do_not() -> None:
    """Softmax in float32 says 1 to both; the logits differ."""
    logits = np.array([[0, 40], [0, 50]], np.float32)
    assert auroc(logits, np.array([0, 1])) == 1.0
    assert auroc(-logits, np.array([0, 1])) == 0.0


def plain_calibration_error(logits: np.ndarray, labels: np.ndarray) -> float:
    """As the paper writes it."""
    p = torch.tensor(logits, dtype=torch.float64).softmax(1).numpy()
    confidence, predicted = p.max(1), logits.argmax(1)
    total = 0.0
    for m in range(1, 16):
        bin_ = ((confidence > (m - 1) / 15) | (m == 1)) & (confidence <= m / 15)
        if bin_.any():
            total += bin_.sum() / len(labels) * abs((predicted == labels)[bin_].mean() - confidence[bin_].mean())
    return total


@given(samples(3))
def test_calibration_error_is_the_papers(found: tuple[np.ndarray, np.ndarray]) -> None:
    assert calibration_error(*found) == pytest.approx(plain_calibration_error(*found), rel=1e-9, abs=1e-12)


def test_calibration_error_by_hand() -> None:
    """Two samples at 0.6, one right; two at 0.95, both right: 0.5 * 0.1 + 0.5 * 0.05."""
    logits = np.log(np.array([[0.6, 0.4], [0.6, 0.4], [0.95, 0.05], [0.95, 0.05]])).astype(np.float32)
    assert calibration_error(logits, np.array([0, 1, 0, 0])) == pytest.approx(0.075, rel=1e-6)


@pytest.mark.parametrize("metric", [auroc, calibration_error])
def test_not_defined_if_a_model_diverged(metric: Callable[..., float]) -> None:
    assert np.isnan(metric(np.array([[np.nan, 0], [1, 0]], np.float32), np.array([0, 1])))


def test_client_accuracy_by_hand() -> None:
    found = client_accuracy([0.5] * 10 + [1.0] * 8 + [0.1, 0.3])
    assert found == pytest.approx(
        {
            "client_accuracy_mean": 13.4 / 20,
            "client_accuracy_worst": 0.2,  # two of twenty
            "client_accuracy_spread": np.std([0.5] * 10 + [1.0] * 8 + [0.1, 0.3]),
        }
    )
    assert client_accuracy([0.25])["client_accuracy_worst"] == 0.25


@given(samples(3), st.integers(1, 5))
def test_pieces_add_up(found: tuple[np.ndarray, np.ndarray], size: int) -> None:
    """In whatever pieces, the metrics are the same to the last bit."""
    logits, labels = found
    nothing = np.zeros((3, 3), np.int64)
    pieces = [
        ConfusionSums(nothing, 0.0, (logits[i : i + size],), (labels[i : i + size],))
        for i in range(0, len(labels), size)
    ]
    total = reduce(add, pieces)
    assert measured(METRICS, *total.samples) == measured(METRICS, logits, labels)


def test_the_same_on_every_backend(digits: Federation, bench, two_workers: ProcessBackend) -> None:
    chosen = {"balanced_accuracy": balanced_accuracy, "spread": lambda logits, labels: logits.std()}
    found = []
    for backend in (InlineBackend(), two_workers):
        backend.open(Workload(digits, bench.build, bench.layout))
        rows = np.arange(len(digits.data.train_y))
        (sums,) = evaluate(backend, [(bench.params, rows)], "train", logits=True)
        assert sums.samples[0].shape == (len(rows), 10)
        np.testing.assert_array_equal(sums.samples[1], digits.data.train_y)
        found.append(metrics(sums, chosen))
    assert found[0] == found[1]
    assert set(found[0].extra) == set(chosen)


def test_without_metrics_nothing_is_brought_along(digits: Federation, inline: InlineBackend, bench) -> None:
    (sums,) = evaluate(inline, [(bench.params, np.arange(20))])
    assert sums.logits == sums.labels == ()
    assert metrics(sums).extra == {}
    assert "extra" not in metrics(sums).to_json()


LOGITS, LABELS = np.zeros((4, 2), np.float32), np.array([0, 1, 0, 1])


@pytest.mark.parametrize("number", [0.5, 1, np.float32(0.5), np.array(0.5), torch.tensor(0.5), True])
def test_a_number_of_any_kind_will_do(number: object) -> None:
    found = measured({"own": lambda logits, labels: number}, LOGITS, LABELS)["own"]
    assert type(found) is float
    assert found in (0.5, 1.0)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_is_not_finite_is_not_defined(number: float) -> None:
    assert measured({"own": lambda logits, labels: number}, LOGITS, LABELS) == {"own": None}


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (np.zeros(3), r"ndarray of shape \(3,\)"),
        (torch.zeros(1), r"Tensor of shape \(1,\)"),
        (None, "NoneType"),
        ("0.5", "str"),
        ({"a": 1.0}, "dict"),
        (1j, "complex"),
    ],
)
def test_what_is_no_number_is_refused(returned: object, words: str) -> None:
    with pytest.raises(ConfigError, match=rf"metric 'own' returned {words}; it must return one number"):
        measured({"own": lambda logits, labels: returned}, LOGITS, LABELS)


def test_a_metric_that_raises_is_named() -> None:
    with pytest.raises(ConfigError, match=r"metric 'cost' raised ZeroDivisionError.*logits \(4, 2\)"):
        measured({"cost": lambda logits, labels: 1 // 0}, LOGITS, LABELS)
