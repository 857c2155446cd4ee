"""What weighers that wrap another one have in common."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from entrofed.core.parts import Weigher, Wrapper
from entrofed.weighers.data_size import DataSize


@dataclass(frozen=True)
class WrappedWeigher(Wrapper, Weigher):
    """Another weigher, and whatever it needs."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    weigher: Weigher = DataSize()  # noqa: RUF009 (frozen)

    @property
    def wrapped(self) -> Weigher:
        """The other weigher."""
        return self.weigher

    @property
    def pools(self) -> bool:
        """As the other weigher."""
        return self.weigher.pools

    def pooled(self, counts: NDArray[np.float64]) -> Self:
        """With the other weigher, once it knows."""
        return replace(self, weigher=self.weigher.pooled(counts)) if self.pools else self
