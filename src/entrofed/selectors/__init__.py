"""Parts that choose the cohort of a round."""

from entrofed.selectors.full import FullSelection
from entrofed.selectors.power_of_choice import PowerOfChoice
from entrofed.selectors.random import RandomSelection
from entrofed.types import Selector

SELECTORS: dict[str, type[Selector]] = {part.name: part for part in (RandomSelection, FullSelection, PowerOfChoice)}
