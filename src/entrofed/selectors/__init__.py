"""Parts that choose the cohort of a round."""

from entrofed.core.parts import Selector, by_name
from entrofed.selectors.class_balanced import ClassBalanced
from entrofed.selectors.convex_hull import ConvexHull, Interior
from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.selectors.full import FullSelection
from entrofed.selectors.kl import KLSelection
from entrofed.selectors.maxent import MaxEntGreedy
from entrofed.selectors.minimax_sim import MaxSim, MiniMaxSim
from entrofed.selectors.power_of_choice import PowerOfChoice
from entrofed.selectors.random import RandomSelection
from entrofed.selectors.scripted import Scripted

SELECTORS: dict[str, type[Selector]] = by_name(
    RandomSelection,
    FullSelection,
    LabelEntropyGreedy,
    MaxEntGreedy,
    ClassBalanced,
    MiniMaxSim,
    ConvexHull,
    MaxSim,
    Interior,
    PowerOfChoice,
    KLSelection,
    Scripted,
)
