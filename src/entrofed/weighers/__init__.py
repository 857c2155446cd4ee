"""Parts that say how much each update counts."""

from entrofed.types import Weigher
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.reselection import SoftLabelReselection
from entrofed.weighers.uniform import Uniform

WEIGHERS: dict[str, type[Weigher]] = {part.name: part for part in (DataSize, Uniform, SoftLabelReselection)}
