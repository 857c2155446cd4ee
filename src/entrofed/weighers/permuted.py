"""A control: weights that know nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from entrofed.seeds import stream
from entrofed.types import Context, Update, Weigher, Weighing
from entrofed.weighers.data_size import DataSize


@dataclass(frozen=True)
class Permuted(Weigher):
    """Another weigher's weights, shuffled among the responders in every round.

    If a method does no better than its permuted self, its weights carry no information.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)
    name: ClassVar[str] = "permuted"

    weigher: Weigher = DataSize()  # noqa: RUF009 (frozen)

    @property
    def needs(self) -> frozenset[str]:
        """Whatever the other weigher needs."""
        return self.weigher.needs

    def summary(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The other weigher's."""
        return self.weigher.summary(counts)

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """The other weigher's weights in an order drawn from the run's seed."""
        inner = self.weigher.weigh(updates, context)
        by_client = np.argsort([update.client for update in updates])
        source = np.empty(len(updates), np.int64)
        source[by_client] = stream(context.seed, "permute weights", context.round).permutation(by_client)
        origins = [
            {**(inner.origins[i] if inner.origins else {}), "of_client": updates[i].client} for i in source.tolist()
        ]
        return Weighing(inner.weights[source], origins)
