"""Parts that choose the cohort of a round."""

from entrofed.core.parts import Selector, by_name
from entrofed.selectors.class_balanced import ClassBalanced
from entrofed.selectors.clustered import ClusteredBySimilarity, ClusteredBySize
from entrofed.selectors.convex_hull import ConvexHull, Interior
from entrofed.selectors.estimated_counts import EstimatedCounts
from entrofed.selectors.facility_location import FacilityLocation
from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.selectors.full import FullSelection
from entrofed.selectors.hics import HierarchicalClusters
from entrofed.selectors.kl import KLSelection
from entrofed.selectors.loss_correlation import LossCorrelation
from entrofed.selectors.maxent import MaxEntGreedy
from entrofed.selectors.minimax_sim import MaxSim, MiniMaxSim
from entrofed.selectors.oort import Oort
from entrofed.selectors.poisson import PoissonSampling
from entrofed.selectors.power_of_choice import PowerOfChoice
from entrofed.selectors.random import RandomSelection
from entrofed.selectors.scripted import Scripted
from entrofed.selectors.stratified import Stratified

SELECTORS: dict[str, type[Selector]] = by_name(
    RandomSelection,
    PoissonSampling,
    FullSelection,
    LabelEntropyGreedy,
    MaxEntGreedy,
    ClassBalanced,
    Stratified,
    EstimatedCounts,
    HierarchicalClusters,
    ClusteredBySize,
    ClusteredBySimilarity,
    FacilityLocation,
    LossCorrelation,
    MiniMaxSim,
    ConvexHull,
    MaxSim,
    Interior,
    PowerOfChoice,
    Oort,
    KLSelection,
    Scripted,
)
