"""Selection baselines that the papers compare against."""

from entrofed.core.parts import Method
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.selectors.full import FullSelection
from entrofed.selectors.oort import Oort
from entrofed.selectors.power_of_choice import PowerOfChoice
from entrofed.selectors.random import RandomSelection
from entrofed.servers.average import Average
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.reselection import SoftLabelReselection
from entrofed.weighers.uniform import Uniform


@recipe
def power_of_choice() -> Method:
    """The clients with the largest loss, equal weights.

    Reference: Cho, Wang and Joshi, "Towards Understanding Biased Client Selection in Federated Learning", AISTATS
    2022, Algorithm 1.
    """
    return Method(PowerOfChoice(), Uniform(), CrossEntropy(), Average())


@recipe
def oort() -> Method:
    """The clients that promise most for the time they take, averaged by data size.

    Reference: Lai, Zhu, Madhyastha and Chowdhury, "Oort: Efficient Federated Learning via Guided Participant
    Selection", OSDI 2021, Algorithm 1.
    """
    return Method(Oort(), DataSize(), CrossEntropy(), Average())


@recipe
def full() -> Method:
    """Everybody that may take part, in every round, with equal weights."""
    return Method(FullSelection(), Uniform(), CrossEntropy(), Average())


@recipe
def reselection() -> Method:
    """A random cohort, of which those are left out whose predictions make the cohort's less diverse.

    Reference: the re-selection baseline of FedEntOpt, Fig. 1.
    """
    return Method(RandomSelection(), SoftLabelReselection(), CrossEntropy(), Average())
