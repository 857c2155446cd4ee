"""How good a model is: a confusion matrix and a loss, counted in pieces, and the figures made from them."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.backends.base import Backend, Order
from entrofed.client.runtime import EVALUATION_BATCH, Site
from entrofed.core.params import Params
from entrofed.core.types import Failure
from entrofed.errors import EntrofedError
from entrofed.info.prediction import Predictions

PIECE = 1000
"""Samples an order evaluates: small enough to spread over workers, and the same whatever their number."""


@dataclass(frozen=True)
class Tally:
    """Counts of (true class, predicted class) and the summed cross entropy of some samples."""

    confusion: NDArray[np.int64]
    loss: float

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.confusion + other.confusion, self.loss + other.loss)


@dataclass(frozen=True)
class EvaluateOrder:
    """Evaluate ``params`` on some rows of the ``train``, ``test`` or ``valid`` part of the data."""

    params: Params
    part: str
    rows: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """Samples to pass over."""
        return len(self.rows)

    def carry_out(self, site: Site) -> Tally:
        """What a backend calls, wherever the work is done."""
        site.bench.load(self.params)
        site.bench.model.eval()
        classes = len(site.federation.data.classes)
        confusion = np.zeros((classes, classes), np.int64)
        loss = 0.0
        with torch.inference_mode():
            for start in range(0, len(self.rows), EVALUATION_BATCH):
                x, y = site.samples(self.part, self.rows[start : start + EVALUATION_BATCH])
                logits = site.bench.model(site.for_model(site.standardize(x)))
                loss += float(torch.nn.functional.cross_entropy(logits, y, reduction="sum"))
                np.add.at(confusion, (y.numpy(), logits.argmax(1).numpy()), 1)
        return Tally(confusion, loss)


@dataclass(frozen=True)
class LossOrder:
    """The mean loss of a model on a client's training data."""

    params: Params
    client: int
    cost: int

    def carry_out(self, site: Site) -> float:
        """What a backend calls, wherever the work is done."""
        rows = site.federation.shards[self.client]
        return EvaluateOrder(self.params, "train", rows).carry_out(site).loss / len(rows)


@dataclass(frozen=True)
class PredictOrder:
    """What several models say about some rows of the validation set, in one pass over its batches."""

    params: Params
    others: tuple[Params, ...]
    rows: NDArray[np.int64]

    @property
    def cost(self) -> int:
        """Samples to pass over."""
        return len(self.rows) * (1 + len(self.others))

    def carry_out(self, site: Site) -> Predictions:
        """What a backend calls, wherever the work is done."""
        models = (self.params, *self.others)
        probabilities = np.empty((len(models), len(self.rows), len(site.federation.data.classes)))
        site.bench.model.eval()
        with torch.inference_mode():
            for start in range(0, len(self.rows), EVALUATION_BATCH):
                batch = slice(start, start + EVALUATION_BATCH)
                x = site.for_model(site.standardize(site.samples("valid", self.rows[batch])[0]))
                for i, params in enumerate(models):
                    site.bench.load(params)
                    probabilities[i, batch] = site.bench.model(x).double().softmax(dim=1).numpy()
        return Predictions.of(probabilities)


def predictions(backend: Backend, samples: int, models: Sequence[Params]) -> Predictions:
    """What the models say about the ``samples`` of the validation set."""
    first, *others = models
    pieces = [PredictOrder(first, tuple(others), piece) for piece in pieces_of(np.arange(samples))]
    found: Predictions = totals(backend, [pieces], "valid")[0]
    return found


def evaluate(backend: Backend, models: Sequence[Params], part: str, rows: NDArray[np.int64]) -> list[Tally]:
    """Evaluate each model on all ``rows``."""
    return evaluate_own(backend, [(model, rows) for model in models], part)


def evaluate_own(backend: Backend, work: Sequence[tuple[Params, NDArray[np.int64]]], part: str) -> list[Tally]:
    """Evaluate each model on its own rows, in pieces that a backend may spread over its workers."""
    orders = [[EvaluateOrder(model, part, piece) for piece in pieces_of(rows)] for model, rows in work]
    return totals(backend, orders, part)


def pieces_of(rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Rows as orders take them."""
    return [rows[i : i + PIECE] for i in range(0, len(rows), PIECE)]


def totals(backend: Backend, groups: Sequence[Sequence[Order]], part: str) -> list[Any]:
    """The sum of what comes of the orders of each group."""
    if not all(groups):
        raise EntrofedError(f"there is nothing to evaluate on: the {part} part of the data is empty")
    outcomes = iter(backend.run([order for group in groups for order in group]))
    return [reduce(add, [_usable(next(outcomes)) for _ in group]) for group in groups]


def _usable(outcome: Any) -> Any:
    if isinstance(outcome, Failure):
        raise EntrofedError(f"the evaluation of a model failed: {outcome.reason}")
    return outcome


def figures(tally: Tally) -> dict[str, Any]:
    """Loss, accuracy, and precision, recall and F1 both macro- and support-weighted; 0/0 counts as 0.

    A class that occurs neither among the labels nor among the predictions is left out of the macro mean.
    Weighted recall equals accuracy.

    >>> figures(Tally(np.array([[3, 1], [0, 4]]), 2.0))["accuracy"]
    0.875
    """
    right = np.diag(tally.confusion).astype(np.float64)
    support = tally.confusion.sum(axis=1)
    predicted = tally.confusion.sum(axis=0)
    precision = np.divide(right, predicted, out=np.zeros_like(right), where=predicted > 0)
    recall = np.divide(right, support, out=np.zeros_like(right), where=support > 0)
    both = precision + recall
    f1 = np.divide(2 * precision * recall, both, out=np.zeros_like(right), where=both > 0)
    seen = (support + predicted) > 0
    share = support / support.sum()
    return {
        "loss": tally.loss / int(support.sum()),
        "accuracy": float(right.sum() / support.sum()),
        "macro_f1": float(f1[seen].mean()),
        "weighted_f1": float(share @ f1),
        "weighted_precision": float(share @ precision),
        "weighted_recall": float(share @ recall),
        "class_accuracy": [float(r) for r in recall],
    }
