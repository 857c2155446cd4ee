"""A random cohort, weighed by information."""

from entrofed.core.parts import Method, Weigher
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.random import RandomSelection
from entrofed.servers.average import Average
from entrofed.weighers.discrepancy import Discrepancy
from entrofed.weighers.label_entropy import LabelEntropy
from entrofed.weighers.loss_deviation import LossDeviation
from entrofed.weighers.pooled_kl import PooledKL
from entrofed.weighers.prediction_entropy import PredictionEntropy
from entrofed.weighers.weight_kl import WeightHistogramKL


@recipe
def fedklentropy() -> Method:
    """More weight for models whose weights are spread like the global model's.

    Reference: Le et al., "FedKLEntropy: Enhancing Federated Learning via Model Entropy and Kullback-Leibler
    Divergence", equations 2 to 4.
    """
    return _weighed(WeightHistogramKL())


@recipe
def max_entropy() -> Method:
    """More weight for clients with more varied labels.

    Reference: "Federated Generalization via Information-Theoretic Distribution Diversification", anonymous authors,
    section 4.1.
    """
    return _weighed(LabelEntropy())


@recipe
def inv_entropy() -> Method:
    """More weight for models that are more certain on the server's validation set.

    Reference: Sterniczuk, "An entropy-based framework for model aggregation in federated learning", Algorithm 1.
    """
    return _weighed(PredictionEntropy())


@recipe
def fedep() -> Method:
    """More weight for clients whose labels differ most from everybody's, with a server in the middle.

    Reference: Feng et al., "FedEP: Tailoring Attention to Heterogeneous Data Distribution with Entropy Pooling for
    Decentralized Federated Learning", Algorithms 1 and 2. Differs from the paper: central, and smoothed.
    """
    return _weighed(PooledKL())


@recipe
def feddisco() -> Method:
    """By size, less for clients whose labels are far from uniform.

    Reference: Ye et al., "FedDisco: Federated Learning with Discrepancy-Aware Collaboration", ICML 2023.
    """
    return _weighed(Discrepancy())


@recipe
def fedasl() -> Method:
    """Less weight for clients whose training loss is far from the cohort's median.

    Reference: Talukder and Islam, "Computationally Efficient Auto-Weighted Aggregation for Heterogeneous Federated
    Learning", 2022.
    """
    return _weighed(LossDeviation())


def _weighed(weigher: Weigher) -> Method:
    return Method(RandomSelection(), weigher, CrossEntropy(), Average())
