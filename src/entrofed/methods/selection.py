"""Other choices of clients: by updates, by losses, by clusters; and by label counts that nobody released."""

from entrofed.core.parts import Method, Selector
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.clustered import ClusteredBySimilarity, ClusteredBySize
from entrofed.selectors.estimated_counts import EstimatedCounts
from entrofed.selectors.facility_location import FacilityLocation
from entrofed.selectors.hics import HierarchicalClusters
from entrofed.selectors.loss_correlation import LossCorrelation
from entrofed.selectors.maxent import MaxEntGreedy
from entrofed.servers.average import Average
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.draws import Draws
from entrofed.weighers.estimated_counts import EstimatedCounts as EstimatedCountsWeigher
from entrofed.weighers.maxent import MaxEnt
from entrofed.weighers.uniform import Uniform


@recipe
def hics() -> Method:
    """Clusters of clients whose labels seem to be balanced first, by their updates; equal weights.

    Reference: Chen and Vikalo, "Heterogeneity-Guided Client Sampling: Towards Fast and Efficient Non-IID Federated
    Learning" (HiCS-FL), NeurIPS 2024, Algorithm 1.
    """
    return _with(HierarchicalClusters())


@recipe
def divfl() -> Method:
    """Clients whose updates stand for those of all others, equal weights.

    Reference: Balakrishnan et al., "Diverse Client Selection for Federated Learning via Submodular Maximization", ICLR
    2022, Algorithm 1.
    """
    return _with(FacilityLocation())


@recipe
def fedcor() -> Method:
    """Clients whose training lowers the losses of others, too; equal weights.

    Reference: Tang et al., "FedCor: Correlation-Based Active Client Selection Strategy for Heterogeneous Federated
    Learning", CVPR 2022. Differs from the paper in how losses are gathered; see the selector.
    """
    return _with(LossCorrelation())


@recipe
def clustered_size() -> Method:
    """A client from each of as many groups of equal size, filled by size; unbiased.

    Reference: Fraboni et al., "Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in
    Federated Learning", ICML 2021, Algorithm 1.
    """
    return Method(ClusteredBySize(), Draws(), CrossEntropy(), Average())


@recipe
def clustered_similarity() -> Method:
    """A client from each of as many groups of equal size, of clients with like updates; unbiased.

    Reference: Fraboni et al., "Clustered Sampling: Low-Variance and Improved Representativity for Clients Selection in
    Federated Learning", ICML 2021, Algorithm 2.
    """
    return Method(ClusteredBySimilarity(), Draws(), CrossEntropy(), Average())


@recipe
def fedentopt_estimated() -> Method:
    """FedEntOpt with label counts that are estimated from updates: nothing but models leaves a client."""
    return Method(EstimatedCounts(), DataSize(), CrossEntropy(), Average())


@recipe
def maxent_estimated() -> Method:
    """``maxent``, cohort and weights, with label counts that are estimated from updates."""
    return Method(EstimatedCounts(MaxEntGreedy()), EstimatedCountsWeigher(MaxEnt()), CrossEntropy(), Average())


def _with(selector: Selector) -> Method:
    return Method(selector, Uniform(), CrossEntropy(), Average())
