"""Attacks on what clients send: which labels they hold, and which samples a model was trained on.

References: bias of the output layer: Yin et al., See through Gradients, CVPR 2021, and Chen and Vikalo, Heterogeneity-
Guided Client Sampling (HiCS-FL), NeurIPS 2024; membership by the loss: Yeom et al., CSF 2018.
"""

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]


def labels_from_bias(step: Doubles) -> Doubles:
    """The label distribution that a step of the output layer's bias speaks for: the rises, as shares of their sum.

    The gradient of the cross entropy by the bias is ``mean softmax output - share`` in each class, so the bias rises
    for the classes of which the client holds more than the model says, and falls for those that it lacks. Neither the
    learning rate nor the number of steps is needed, nor does clipping hinder it. Equal shares, if nothing rises.

    >>> labels_from_bias(np.array([0.03, -0.04, 0.01])).tolist()
    [0.75, 0.0, 0.25]
    """
    rises = np.maximum(step, 0)
    return rises / rises.sum() if rises.sum() > 0 else np.full(len(step), 1 / len(step))


def total_variation(a: Doubles, b: Doubles) -> float:
    """Half the L1 distance of two distributions: 0 if equal, 1 if they have no label in common."""
    return float(np.abs(a - b).sum() / 2)


def advantage(inside: Doubles, outside: Doubles) -> float:
    """How well losses tell members from others: the probability that a member's loss is the lower one (AUC).

    Half: not at all.

    >>> advantage(np.array([0.1, 0.3]), np.array([0.2, 0.4]))
    0.75
    """
    lower = (inside[:, None] < outside[None]).mean() + (inside[:, None] == outside[None]).mean() / 2
    return float(lower)
