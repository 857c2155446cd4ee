"""Metrics that an experiment asks for besides accuracy, loss and F1.

A metric is a function of all logits ``float32 [samples, classes]`` and labels ``int64 [samples]`` to a number: ours,
and any of the user's. It is computed at once, where the run is led, from logits that the pieces of an evaluation bring
along: exactly, whatever the pieces and the workers, and nothing of it is sent to a worker.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from entrofed.errors import ConfigError

Logits = NDArray[np.float32]
Labels = NDArray[np.int64]
Metric = Callable[[Logits, Labels], Any]

BINS = 15
"""Bins of confidence, as in Guo et al."""
CLIENT_ACCURACY = "client_accuracy"


def balanced_accuracy(logits: Logits, labels: Labels) -> float:
    """The mean over classes of the share that is recognized; a class without samples is left out.

    >>> balanced_accuracy(np.array([[1, 0], [1, 0], [0, 1], [1, 0]]), np.array([0, 0, 1, 1]))
    0.75
    """
    right = logits.argmax(axis=1) == labels
    return float(np.mean([right[labels == label].mean() for label in np.unique(labels)]))


def auroc(logits: Logits, labels: Labels) -> float:
    """Area under the ROC curve, for two classes: the probability that a sample of the second class has a higher score
    (difference of logits) than one of the first, ties counting half. NaN if a class has no sample.

    >>> auroc(np.array([[0, 1], [0, 3], [0, 2], [0, 4]]), np.array([0, 0, 1, 1]))
    0.75
    """
    scores = logits[:, 1].astype(np.float64) - logits[:, 0]
    positive = labels == 1
    pairs = int(positive.sum()) * int((~positive).sum())
    if not pairs or not np.isfinite(scores).all():
        return float("nan")
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # equal scores share their mean rank
    first = positive.sum() * (positive.sum() + 1) / 2
    return float((ranks[place.reshape(-1)][positive].sum() - first) / pairs)


def calibration_error(logits: Logits, labels: Labels) -> float:
    """Expected calibration error: ``sum_m |B_m| / n * |accuracy(B_m) - confidence(B_m)|`` over 15 bins of equal width.

    ``B_m`` are the samples whose greatest probability lies in ``((m - 1) / 15, m / 15]``. NaN if a logit is not finite.
    Guo et al., On Calibration of Modern Neural Networks, ICML 2017.

    >>> round(calibration_error(np.log([[0.9, 0.1], [0.9, 0.1]]), np.array([0, 1])), 6)  # 50 % right, 90 % sure
    0.4
    """
    if not np.isfinite(logits).all():
        return float("nan")
    confidence = scipy.special.softmax(logits.astype(np.float64), axis=1).max(axis=1)
    excess = (logits.argmax(axis=1) == labels) - confidence
    bins = np.clip(np.ceil(confidence * BINS).astype(np.int64) - 1, 0, BINS - 1)
    return float(np.abs(np.bincount(bins, weights=excess, minlength=BINS)).sum() / len(labels))


METRICS: dict[str, Metric] = {
    "balanced_accuracy": balanced_accuracy,
    "auroc": auroc,
    "calibration_error": calibration_error,
}


def client_accuracy(accuracies: Sequence[float]) -> dict[str, float | None]:
    """How evenly a model serves the clients: mean, mean of the worst tenth (at least one), and standard deviation.

    >>> client_accuracy([1.0, 0.5, 0.9])["client_accuracy_worst"]
    0.5
    """
    ranked = np.sort(np.asarray(accuracies, np.float64))
    worst = ranked[: max(1, len(ranked) // 10)]
    return {
        f"{CLIENT_ACCURACY}_mean": float(ranked.mean()),
        f"{CLIENT_ACCURACY}_worst": float(worst.mean()),
        f"{CLIENT_ACCURACY}_spread": float(ranked.std()),
    }


def measured(metrics: Mapping[str, Metric], logits: Logits, labels: Labels) -> dict[str, float | None]:
    """Each metric by name; None where it is not finite. A ConfigError if one raises, or returns no number."""
    return {name: _number(name, metric, logits, labels) for name, metric in metrics.items()}


def _number(name: str, metric: Metric, logits: Logits, labels: Labels) -> float | None:
    try:
        found = metric(logits, labels)
    except Exception as error:
        raise ConfigError(
            f"metric {name!r} raised {type(error).__name__}: {error}. It was given logits {logits.shape} and labels "
            f"{labels.shape} as numpy arrays; mend it, and continue the run with 'entrofed resume'"
        ) from error
    shape = tuple(getattr(found, "shape", ()))
    try:
        value = float(found) if not shape and not isinstance(found, str) else None
    except (TypeError, ValueError):
        value = None
    if value is None:
        what = f"{type(found).__name__}{f' of shape {shape}' if shape else ''}"
        raise ConfigError(f"metric {name!r} returned {what}; it must return one number")
    return value if np.isfinite(value) else None
