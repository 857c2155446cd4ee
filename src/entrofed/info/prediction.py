"""How certain models are of what they predict. Pure functions; entropies in bits."""

from dataclasses import dataclass
from math import log
from typing import Literal

import numpy as np
import scipy
from numpy.typing import ArrayLike

from entrofed.errors import DataError
from entrofed.info.entropy import Floats, entropy

Aggregate = Literal["mean_of_entropies", "entropy_of_mean"]


@dataclass(frozen=True)
class Predictions:
    """What several models said about the same samples, summed up so that pieces can be added.

    >>> two = Predictions.of([[[0.5, 0.5], [1.0, 0.0]]])
    >>> two.entropy("mean_of_entropies").tolist(), two.entropy("entropy_of_mean").round(3).tolist()
    ([0.5], [0.811])
    """

    samples: int
    entropies: Floats
    """``[model]``: summed entropy of its predictions; NaN where a prediction is not finite."""
    totals: Floats
    """``[model, class]``: summed probabilities."""

    @classmethod
    def of(cls, probabilities: ArrayLike) -> "Predictions":
        """From softmax outputs, ``[model, sample, class]``; logits passed by mistake are refused."""
        p = np.asarray(probabilities, np.float64)
        finite = np.asarray(np.isfinite(p).all(axis=(1, 2)))
        wrong = np.argwhere(((np.abs(p.sum(axis=-1) - 1) > 1e-3) | (p < 0).any(axis=-1)) & finite[:, None])
        if len(wrong):
            model, sample = wrong[0]
            raise DataError(
                f"model {model} predicts {p[model, sample].tolist()} for sample {sample}, which sums to "
                f"{p[model, sample].sum():.6g}, not to 1; pass probabilities (softmax), not logits"
            )
        bits = np.where(finite, scipy.special.entr(p).sum(axis=(1, 2)) / log(2), np.nan)
        return cls(p.shape[1], bits, p.sum(axis=1))

    def __add__(self, other: "Predictions") -> "Predictions":
        return Predictions(self.samples + other.samples, self.entropies + other.entropies, self.totals + other.totals)

    def entropy(self, aggregate: Aggregate = "mean_of_entropies") -> Floats:
        """H_i = (1/|V|) sum_v H(p_i(v)), or H of the mean prediction; NaN for a model that is not finite."""
        if aggregate == "mean_of_entropies":
            return self.entropies / self.samples
        usable = np.isfinite(self.entropies)
        found = np.full(len(usable), np.nan)
        mean = self.totals[usable] / self.totals[usable].sum(axis=1, keepdims=True)
        found[usable] = entropy(mean, base="bits")
        return found


def inverse_entropy_weights(entropies: Floats, *, floor: float = 1e-12) -> Floats:
    """``alpha_i = E_i / sum E`` with ``E_i = 1 / max(H_i, floor)``; 0 where the entropy is NaN.

    Models without any doubt share all weight: the limit of the formula, and its flaw, since a model that always says
    the same is one of them. All NaN if no entropy is finite.

    >>> inverse_entropy_weights(np.array([1.0, 3.0])).tolist()
    [0.75, 0.25]
    """
    usable = np.isfinite(entropies)
    certainty = np.where(usable, 1 / np.maximum(np.where(usable, entropies, 1.0), floor), 0.0)
    return certainty / certainty.sum() if usable.any() else np.full(len(entropies), np.nan)
