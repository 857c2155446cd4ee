"""Cohorts and weights by one principle: the labels of the aggregate as diverse as they can be."""

from entrofed.core.parts import Method
from entrofed.methods.recipe import recipe
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.selectors.fedentopt import LabelEntropyGreedy
from entrofed.selectors.maxent import MaxEntGreedy
from entrofed.selectors.random import RandomSelection
from entrofed.selectors.stratified import Stratified
from entrofed.servers.average import Average
from entrofed.servers.averaged import Averaged
from entrofed.servers.momentum import Momentum
from entrofed.servers.scaffold import Scaffold
from entrofed.weighers.maxent import MaxEnt
from entrofed.weighers.uniform import Uniform


@recipe
def maxent() -> Method:
    """Cohort and weights together make the mixed labels as diverse as they can be."""
    return Method(MaxEntGreedy(), MaxEnt(), CrossEntropy(), Average())


@recipe
def maxent_momentum() -> Method:
    """``maxent`` with momentum on the server."""
    return Method(MaxEntGreedy(), MaxEnt(), CrossEntropy(), Momentum())


@recipe
def fedmaxent() -> Method:
    """``maxent_momentum``, and the average of the models over rounds beside the last one."""
    return Method(MaxEntGreedy(), MaxEnt(), CrossEntropy(), Averaged(decay=0.98, server=Momentum()))


@recipe
def fedmaxent_prox() -> Method:
    """``fedmaxent``, and FedProx's term, which holds clients of few labels near the model that they started from."""
    server = Averaged(decay=0.98, server=Momentum())
    return Method(MaxEntGreedy(), MaxEnt(), Proximal(mu=0.1), server)


@recipe
def maxent_scaffold() -> Method:
    """``maxent`` with control variates against the clients' drift."""
    return Method(MaxEntGreedy(), MaxEnt(), CrossEntropy(), Scaffold())


@recipe
def fedentopt_maxent() -> Method:
    """FedEntOpt's cohorts, weighed so that their mixed labels have maximal entropy."""
    return Method(LabelEntropyGreedy(), MaxEnt(), CrossEntropy(), Average())


@recipe
def maxent_weights() -> Method:
    """A random cohort, weighed so that its mixed labels have maximal entropy."""
    return Method(RandomSelection(), MaxEnt(), CrossEntropy(), Average())


@recipe
def stratified() -> Method:
    """Every client once per sweep, in cohorts of like labels, with equal weights.

    With equal weights, clients count by how long they train: small steps of a sweep add up to one over all data.
    """
    return Method(Stratified(), Uniform(), CrossEntropy(), Average())
