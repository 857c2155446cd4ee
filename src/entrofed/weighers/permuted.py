"""A control: weights that know nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrofed.core.types import Context, Update, Weighing
from entrofed.weighers.wrapped import WrappedWeigher


@dataclass(frozen=True)
class Permuted(WrappedWeigher):
    """Another weigher's weights, shuffled among the responders in every round.

    If a method does no better than its permuted self, its weights carry no information.
    """

    name: ClassVar[str] = "permuted"

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """The other weigher's weights in an order drawn from the run's seed."""
        inner = self.weigher.weigh(updates, context)
        by_client = np.argsort([update.client for update in updates])
        source = np.empty(len(updates), np.int64)
        source[by_client] = context.stream("permute weights").permutation(by_client)
        origins = [
            {**(inner.origins[i] if inner.origins else {}), "of_client": updates[i].client} for i in source.tolist()
        ]
        return Weighing(inner.weights[source], origins)
