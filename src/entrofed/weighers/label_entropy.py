"""Weigh by how varied a client's labels are."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy

from entrofed.core.parts import Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.entropy import Base, entropy_of_counts


@dataclass(frozen=True)
class LabelEntropy(Weigher):
    """Softmax of the entropy of the label counts: ``alpha_k = exp(H_k) / sum_j exp(H_j)`` over the responders.

    In nats, ``exp(H_k)`` is the effective number of classes that client k holds; bits sharpen the weights. Counts may
    be noised. A client whose counts were noised away counts as one with a single class.
    """

    name: ClassVar[str] = "label_entropy"
    reference: ClassVar[str] = "Federated Generalization via Information-Theoretic Distribution Diversification, 4.1"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    base: Base = "nats"

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """In proportion to the exponential of the entropy."""
        counts = context.clients.told(LabelCounts.name, f"weigher {self.name!r}")
        entropies = entropy_of_counts(counts[[update.client for update in updates]], base=self.base)
        origins = [{f"label_entropy_{self.base}": float(h)} for h in entropies]
        return Weighing(np.asarray(scipy.special.softmax(entropies), np.float64), origins)
