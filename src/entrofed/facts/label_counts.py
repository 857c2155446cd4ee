"""How many examples of each class a client has."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from entrofed.core.parts import LabelFact
from entrofed.core.types import LABEL_COUNTS
from entrofed.core.validation import MAX_EXAMPLES, as_numbers


@dataclass(frozen=True)
class LabelCounts(LabelFact):
    """The label counts ``[class]`` as they were released: true, or noised and clipped at zero."""

    name: ClassVar[str] = LABEL_COUNTS
    reveals: ClassVar[str] = "its label counts"

    def of_counts(self, counts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The counts themselves."""
        return counts

    def problem(self, value: Any, classes: int) -> str | None:
        """Numbers from 0 on, one per class, not all 0."""
        row = as_numbers(value)
        if row.shape == (classes,) and (row >= 0).all() and 0 < row.sum() <= MAX_EXAMPLES:
            return None
        return f"{classes} numbers from 0 on, not all 0, are expected, found {str(row)[:200]}"
