"""How good a model is: confusion counts and losses, summed in pieces, and the metrics made from them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from entrofed.client.metrics import Labels, Logits, Metric, measured
from entrofed.core.params import Params
from entrofed.core.parts import ModelRuntime
from entrofed.core.records import Metrics
from entrofed.core.tasks import Backend, EvaluateTask, PredictTask, Task
from entrofed.core.types import ClientData, Failure
from entrofed.errors import EntrofedError
from entrofed.info.prediction import Predictions

PIECE = 1000
"""Samples that a task evaluates: few enough to spread over workers, and the same whatever their number."""


@dataclass(frozen=True)
class ConfusionSums:
    """Counts of (true class, predicted class) and the summed cross entropy of some samples.

    ``logits`` and ``labels`` are those of each piece, in order, where metrics need them; they are joined at the end.
    """

    confusion: NDArray[np.int64]
    loss: float
    logits: tuple[Logits, ...] = ()
    labels: tuple[Labels, ...] = ()

    def __add__(self, other: "ConfusionSums") -> "ConfusionSums":
        return ConfusionSums(
            self.confusion + other.confusion,
            self.loss + other.loss,
            self.logits + other.logits,
            self.labels + other.labels,
        )

    @property
    def samples(self) -> tuple[Logits, Labels]:
        """Logits and label of each sample."""
        return np.concatenate(self.logits), np.concatenate(self.labels)


def confusion_sums(data: ClientData, model: ModelRuntime, *, logits: bool = False) -> ConfusionSums:
    """What the model says about samples."""
    confusion = np.zeros((data.classes, data.classes), np.int64)
    loss = 0.0
    said: list[tuple[Logits, Labels]] = []
    for found, y in model.predictions(data):
        loss += float(cross_entropy(found, y, reduction="sum"))
        np.add.at(confusion, (y.numpy(), found.argmax(1).numpy()), 1)
        if logits:
            said.append((found.numpy(), y.numpy()))
    return ConfusionSums(confusion, loss, *(tuple(part) for part in zip(*said, strict=True)))


def metrics(sums: ConfusionSums, chosen: Mapping[str, Metric] | None = None) -> Metrics:
    """Loss, accuracy, and precision, recall and F1 both macro- and support-weighted; 0/0 counts as 0.

    A class that occurs neither among the labels nor among the predictions is left out of the macro mean.
    Weighted recall equals accuracy. ``chosen`` are more metrics, by name, for which the sums must have logits.

    >>> metrics(ConfusionSums(np.array([[3, 1], [0, 4]]), 2.0)).accuracy
    0.875
    """
    right = np.diag(sums.confusion).astype(np.float64)
    support = sums.confusion.sum(axis=1)
    predicted = sums.confusion.sum(axis=0)
    precision = np.divide(right, predicted, out=np.zeros_like(right), where=predicted > 0)
    recall = np.divide(right, support, out=np.zeros_like(right), where=support > 0)
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(right), where=both > 0)
    seen = (support + predicted) > 0
    share = support / support.sum()
    return Metrics(
        loss=sums.loss / int(support.sum()),
        accuracy=float(right.sum() / support.sum()),
        macro_f1=float(f1[seen].mean()),
        weighted_f1=float(share @ f1),
        weighted_precision=float(share @ precision),
        weighted_recall=float(share @ recall),
        class_accuracy=[float(r) for r in recall],
        extra=measured(chosen, *sums.samples) if chosen else {},
    )


def predictions(backend: Backend, samples: int, models: Sequence[Params]) -> Predictions:
    """What the models say about the ``samples`` of the validation set."""
    tasks = [PredictTask(tuple(models), piece) for piece in pieces(np.arange(samples))]
    found: Predictions = totals(backend, [tasks], "valid")[0]
    return found


def evaluate(
    backend: Backend, work: Sequence[tuple[Params, NDArray[np.int64]]], part: str = "test", *, logits: bool = False
) -> list[ConfusionSums]:
    """Evaluate each model on its rows of a part of the data, in pieces that a backend may spread over its workers.

    ``logits``: whether the pieces bring along what the model says of each sample.
    """
    tasks = [[EvaluateTask(model, part, piece, logits) for piece in pieces(rows)] for model, rows in work]
    return totals(backend, tasks, part)


def pieces(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows as tasks take them."""
    return [rows[i : i + PIECE] for i in range(0, len(rows), PIECE)]


def totals(backend: Backend, groups: Sequence[Sequence[Task]], part: str) -> list[Any]:
    """The sum of what comes of the tasks of each group."""
    if not all(groups):
        raise EntrofedError(f"there is nothing to evaluate on: the {part} part of the data is empty")
    outcomes = iter(backend.run([task for group in groups for task in group]))
    return [reduce(add, [_usable(next(outcomes)) for _ in group]) for group in groups]


def _usable(outcome: Any) -> Any:
    if isinstance(outcome, Failure):
        where = f" ({outcome.where})" if outcome.where else ""
        raise EntrofedError(f"the evaluation of a model failed: {outcome.reason}{where}")
    return outcome
