"""What weighers that go around another one have in common."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict

from entrofed.core.types import Weigher
from entrofed.weighers.data_size import DataSize


@dataclass(frozen=True)
class Around(Weigher):
    """Another weigher, and whatever it needs."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    weigher: Weigher = DataSize()  # noqa: RUF009 (frozen)

    @property
    def needs(self) -> frozenset[str]:
        """Whatever the other weigher needs."""
        return self.weigher.needs

    def summary(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The other weigher's."""
        return self.weigher.summary(counts)
