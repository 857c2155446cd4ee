"""What weighers that wrap another one have in common."""

from dataclasses import dataclass
from typing import ClassVar

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
