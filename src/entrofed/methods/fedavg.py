"""Federated averaging, and the control in which size does not count."""

from entrofed.core.parts import Method
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.random import RandomSelection
from entrofed.servers.average import Average
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.uniform import Uniform


@recipe
def fedavg() -> Method:
    """Random cohort, local SGD, average by data size.

    Reference: McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
    AISTATS 2017, Algorithm 1.
    """
    return Method(RandomSelection(), DataSize(), CrossEntropy(), Average())


@recipe
def fedavg_uniform() -> Method:
    """FedAvg with equal weights: the control for every method that stops weighing by data size."""
    return Method(RandomSelection(), Uniform(), CrossEntropy(), Average())
