"""A limit to what one client can weigh."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from entrofed.core.types import Context, Update, Weighing
from entrofed.core.validation import safe_weights
from entrofed.errors import ConfigError
from entrofed.info.simplex import water_fill
from entrofed.weighers.wrapped import WrappedWeigher


@dataclass(frozen=True)
class Capped(WrappedWeigher):
    """Another weigher's weights with none above ``share``; what is cut off goes to the others in proportion.

    So a client that lies about its data to gain weight gains ``share`` at most. The order of the weights is kept. With
    fewer than ``1 / share`` responders all weights are equal.
    """

    name: ClassVar[str] = "capped"

    share: float = 0.3

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigError(f"weigher {self.name!r}: share = {self.share} must be above 0 and at most 1")

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """Water-filled; where the other weigher fails, the data-size weights in its place are."""
        inner = safe_weights(self.weigher, updates, context)
        origins = inner.origins or [{} for _ in updates]
        origins = [{**origin, "uncapped": float(weight)} for origin, weight in zip(origins, inner.weights, strict=True)]
        return Weighing(water_fill(inner.weights, self.share), origins)
