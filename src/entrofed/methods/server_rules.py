"""FedAvg with another server: optimizers that remember, and rules that are robust against adversarial clients."""

from entrofed.core.parts import Method, ServerRule
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.random import RandomSelection
from entrofed.servers.adaptive import FedAdagrad, FedAdam, FedYogi
from entrofed.servers.clipped import Clipped
from entrofed.servers.extrapolated import Extrapolated
from entrofed.servers.krum import Krum
from entrofed.servers.median import Median
from entrofed.servers.momentum import Momentum
from entrofed.servers.trimmed_mean import TrimmedMean
from entrofed.weighers.data_size import DataSize


@recipe
def fedavgm() -> Method:
    """FedAvg with momentum on the server.

    Reference: Hsu, Qi and Brown, "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
    Classification", 2019.
    """
    return _served(Momentum())


@recipe
def fedexp() -> Method:
    """FedAvg whose steps are the longer the less the clients agree.

    Reference: Jhunjhunwala, Wang and Joshi, "FedExP: Speeding Up Federated Averaging via Extrapolation", ICLR 2023.
    """
    return _served(Extrapolated())


@recipe
def fedadam() -> Method:
    """FedAvg with Adam on the server.

    Reference: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
    """
    return _served(FedAdam())


@recipe
def fedyogi() -> Method:
    """FedAvg with Yogi on the server.

    Reference: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
    """
    return _served(FedYogi())


@recipe
def fedadagrad() -> Method:
    """FedAvg with Adagrad on the server.

    Reference: Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
    """
    return _served(FedAdagrad())


@recipe
def median() -> Method:
    """A random cohort, of whose models the median of each value is taken; sizes do not count.

    Reference: Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018,
    Definition 1.
    """
    return _served(Median())


@recipe
def trimmed_mean() -> Method:
    """A random cohort, of whose models each value is averaged without the extremes; sizes do not count.

    Reference: Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates", ICML 2018,
    Definition 2.
    """
    return _served(TrimmedMean())


@recipe
def krum() -> Method:
    """A random cohort, of which the model with the closest neighbours becomes the next.

    Reference: Blanchard et al., "Machine Learning with Adversaries: Byzantine Tolerant Gradient Descent", NeurIPS
    2017, section 4.
    """
    return _served(Krum())


@recipe
def clipped() -> Method:
    """FedAvg in which no client can move far from the model it got.

    Reference: Sun et al., "Can You Really Backdoor Federated Learning?", 2019.
    """
    return _served(Clipped())


def _served(server: ServerRule) -> Method:
    return Method(RandomSelection(), DataSize(), CrossEntropy(), server)
