"""FedEntOpt, and other selections by label counts."""

from entrofed.core.parts import Method
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.class_balanced import ClassBalanced
from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.selectors.kl import KLSelection
from entrofed.servers.average import Average
from entrofed.weighers.data_size import DataSize


@recipe
def fedentopt() -> Method:
    """A cohort whose pooled labels have maximal entropy, averaged by data size.

    Reference: Lutz, Steidl, Müller and Samek, "Boosting Federated Learning with FedEntOpt: Mitigating Label Skew by
    Entropy-Based Client Selection", Algorithm 1.
    """
    return Method(LabelEntropyGreedy(), DataSize(), CrossEntropy(), Average())


@recipe
def fedcbs() -> Method:
    """Cohorts drawn so that their pooled labels are balanced, averaged by data size.

    Reference: Zhang et al., "Fed-CBS: A Heterogeneity-Aware Client Sampling Mechanism for Federated Learning via
    Class-Imbalance Reduction", ICML 2023.
    """
    return Method(ClassBalanced(), DataSize(), CrossEntropy(), Average())


@recipe
def kl() -> Method:
    """A fixed cohort that trains on clipped, nearly uniform data.

    Reference: Seol and Kim, Sensors 2023, 23(3):1152, Algorithm 2. The FedEntOpt paper cites another work for it.
    """
    return Method(KLSelection(), DataSize(), CrossEntropy(), Average())
