"""Parts that say what a client minimizes."""

from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.types import Objective

OBJECTIVES: dict[str, type[Objective]] = {part.name: part for part in (CrossEntropy,)}
