"""The ordinary classification loss."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.core.parts import ALL_CLIENTS, Given, ModelRuntime, Objective
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData
from entrofed.errors import ConfigError


def balanced(counts: NDArray[Any]) -> NDArray[np.float64]:
    """``n / (m n_c)`` with m classes that occur: every class weighs alike, and the mean sample 1; 0 for others.

    >>> balanced(np.array([3, 1, 0])).tolist()
    [0.6666666666666666, 2.0, 0.0]
    """
    held, weights = counts > 0, np.zeros(len(counts))
    weights[held] = counts.sum() / (held.sum() * counts[held])
    return weights


def stacked_cross_entropy(
    logits: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None = None, label_smoothing: float = 0.0
) -> torch.Tensor:
    """The mean cross entropy of each client's batch, as :func:`torch.nn.functional.cross_entropy` takes it.

    ``logits [clients, classes, batch]``, ``y [clients, batch]`` with -100 for none, ``weights [clients, classes, 1]``.

    >>> logits = torch.tensor([[[0.0, 5.0], [0.0, 1.0]]])
    >>> round(float(stacked_cross_entropy(logits, torch.tensor([[1, -100]]))), 4)
    0.6931
    """
    there = y >= 0
    if weights is None:
        losses = torch.nn.functional.cross_entropy(logits, y, reduction="none", label_smoothing=label_smoothing)
        return losses.sum(dim=1) / there.sum(dim=1)
    surprise, label = -logits.log_softmax(dim=1), y.clamp(min=0).unsqueeze(1)
    weigh = weights.expand_as(logits).gather(1, label).squeeze(1) * there
    losses = (1 - label_smoothing) * weigh * surprise.gather(1, label).squeeze(1)
    losses = losses + label_smoothing / logits.shape[1] * there * (weights * surprise).sum(dim=1)
    return losses.sum(dim=1) / weigh.sum(dim=1)


def stacked_cross_entropy_slopes(logits: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each client's mean cross entropy, and its gradient by the logits: ``(softmax - one-hot) / samples``.

    >>> logits = torch.tensor([[[0.0, 5.0], [0.0, 1.0]]])
    >>> losses, slopes = stacked_cross_entropy_slopes(logits, torch.tensor([[1, -100]]))
    >>> round(float(losses), 4), (slopes + 0).tolist()
    (0.6931, [[[0.5, 0.0], [-0.5, 0.0]]])
    """
    there, label = (y >= 0).unsqueeze(1), y.clamp(min=0).unsqueeze(1)
    share, surprise = there / there.sum(dim=2, keepdim=True), logits.log_softmax(dim=1)
    right = surprise.gather(1, label)
    slopes = surprise.exp_().scatter_(1, label, right.expm1())
    return (right * share).sum(dim=(1, 2)).neg_(), slopes.mul_(share)


@dataclass(frozen=True)
class CrossEntropy(Objective):
    """Mean cross entropy of the softmax of the logits, in nats, as :func:`torch.nn.functional.cross_entropy` has it.

    ``label_smoothing``: the share of a label that is spread evenly over all classes. ``class_weights``: one per class,
    or ``balanced``, from the labels that the client trains on (:func:`balanced`), or ``pooled``, the same from those of
    all clients together, which come as a secure sum; a batch's mean is the weighted one.
    """

    name: ClassVar[str] = "cross_entropy"

    label_smoothing: float | None = None
    class_weights: tuple[float, ...] | Literal["balanced", "pooled"] | None = None

    def __post_init__(self) -> None:
        if self.label_smoothing is not None and not 0 <= self.label_smoothing < 1:
            raise ConfigError(
                f"objective {self.name!r}: label_smoothing = {self.label_smoothing} must be at least 0 and below 1"
            )
        weights = self.class_weights if isinstance(self.class_weights, tuple) else (1.0,)
        if not weights or not all(0 < weight < float("inf") for weight in weights):
            raise ConfigError(f"objective {self.name!r}: class_weights = {list(weights)} must be above 0, and finite")

    @property
    def plain(self) -> bool:
        """Whether it is the loss without options."""
        return not self.label_smoothing and self.class_weights is None

    @property
    def pools(self) -> bool:
        """If weights are to come from everybody's labels."""
        return self.class_weights == "pooled"

    @property
    def needs(self) -> frozenset[str]:
        """Somebody who makes the sum."""
        return frozenset({ALL_CLIENTS}) if self.pools else frozenset()

    def pooled(self, counts: NDArray[np.float64]) -> "CrossEntropy":
        """With the weights in numbers; a class that nobody holds weighs 1."""
        if not self.pools:
            return self
        positive = np.maximum(counts, 0.0)
        return replace(self, class_weights=tuple(np.where(positive > 0, balanced(positive), 1.0).tolist()))

    def check_classes(self, classes: int) -> None:
        """Every class needs its weight."""
        if isinstance(self.class_weights, tuple) and len(self.class_weights) != classes:
            raise ConfigError(
                f"objective {self.name!r}: class_weights has {len(self.class_weights)} values, and the data has "
                f"{classes} classes; give one for each, in the order of the classes"
            )

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """The weights."""
        if self.class_weights is None:
            return lambda x: {}
        if self.class_weights == "pooled":
            raise ConfigError(f"objective {self.name!r}: class_weights = 'pooled', and nobody has pooled the labels")
        values = balanced(data.label_counts) if self.class_weights == "balanced" else self.class_weights
        weights = torch.tensor(values, dtype=torch.float32, device=model.device)
        return lambda x: {"weights": weights}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        return torch.nn.functional.cross_entropy(
            model(x), y, weight=given.get("weights"), label_smoothing=self.label_smoothing or 0.0
        )

    def stacked_loss(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over each client's batch."""
        return stacked_cross_entropy(logits, y, given.get("weights"), self.label_smoothing or 0.0)

    def stacked_slopes(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> tuple[torch.Tensor, torch.Tensor]:
        """By the formula, where there are no options; a subclass with another loss is not meant by it."""
        if not self.plain or type(self).stacked_loss is not CrossEntropy.stacked_loss:
            return super().stacked_slopes(logits, y, given)
        return stacked_cross_entropy_slopes(logits, y)
