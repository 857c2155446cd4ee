"""What an update says about the labels that a client has, where it tells no counts.

One step on the cross entropy moves the output layer's bias by ``b_i += lr (D_i - s_i)``: the share of class i in the
batch, less what the model predicts of it on average. With the mean softmax output ``E_i`` for class i on samples of
other classes, the expected move over R epochs is ``lr R (D_i sum_c E_c - E_i)``: positive exactly where a client has
more of a class than the model expects. So the moves that are positive, as shares of their sum, estimate ``D``: exact
for a client with one class, good for a few classes; of a client whose labels are balanced, about half the classes seem
to be missing. Unlike a softmax of the moves, they need no temperature: learning rate, momentum and steps cancel out.

Reference: Chen and Vikalo, "Heterogeneity-Guided Client Sampling: Towards Fast and Efficient Non-IID Federated
Learning" (HiCS-FL), NeurIPS 2024, equation 6; that the positive part is taken for the labels is our own.
"""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def estimated_counts(rises: Floats, examples: Floats) -> Floats:
    """Label counts ``[client, class]`` from sums of positive moves, and numbers of examples.

    A client of which nothing is known (a row of zeros) is taken for the mean of the others; if nothing is known of
    anybody, for uniform.

    >>> estimated_counts(np.array([[3.0, 1.0], [0.0, 0.0], [0.0, 0.5]]), np.array([8.0, 8.0, 2.0])).tolist()
    [[6.0, 2.0], [3.0, 5.0], [0.0, 2.0]]
    """
    totals = rises.sum(axis=1, keepdims=True)
    known = totals[:, 0] > 0
    shares = np.divide(rises, totals, out=np.zeros_like(rises), where=totals > 0)
    shares[~known] = shares[known].mean(axis=0) if known.any() else 1 / rises.shape[1]
    return np.asarray(shares * examples[:, None])
