"""Training against drift: objectives and server rules for clients whose data differ."""

from entrofed.core.parts import Method, Objective, ServerRule
from entrofed.methods.recipe import recipe
from entrofed.objectives.branch import Branch
from entrofed.objectives.calibrated import Calibrated
from entrofed.objectives.cohort_prior import CohortPrior
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.objectives.restricted_softmax import RestrictedSoftmax
from entrofed.objectives.sharpness import Sharpness
from entrofed.selectors.random import RandomSelection
from entrofed.servers.average import Average
from entrofed.servers.ccvr import CCVR
from entrofed.servers.concat import Concat
from entrofed.servers.dynamic import Dynamic
from entrofed.servers.normalized import Normalized
from entrofed.servers.scaffold import Scaffold
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.uniform import Uniform


@recipe
def fedprox() -> Method:
    """FedAvg with clients that stay near the global model.

    Reference: Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Algorithm 2.
    """
    return _fedavg(objective=Proximal())


@recipe
def moon() -> Method:
    """FedAvg with a contrastive loss between the representations of old and new models.

    Reference: Li, He and Song, "Model-Contrastive Federated Learning", CVPR 2021, Algorithm 1.
    """
    return _fedavg(objective=Contrastive())


@recipe
def fedrs() -> Method:
    """FedAvg with a softmax that is restricted for classes a client lacks.

    Reference: Li and Zhan, "FedRS: Federated Learning with Restricted Softmax for Label Distribution Non-IID Data", KDD
    2021.
    """
    return _fedavg(objective=RestrictedSoftmax())


@recipe
def fedlc() -> Method:
    """FedAvg with logits calibrated by the client's label counts.

    Reference: Zhang et al., "Federated Learning with Label Distribution Skew via Logits Calibration", ICML 2022.
    """
    return _fedavg(objective=Calibrated())


@recipe
def fednova() -> Method:
    """FedAvg of displacements that are normalized by the clients' numbers of steps.

    Reference: Wang et al., "Tackling the Objective Inconsistency Problem in Heterogeneous Federated Optimization",
    NeurIPS 2020.
    """
    return _fedavg(server=Normalized())


@recipe
def scaffold() -> Method:
    """FedAvg with control variates against the clients' drift.

    Reference: Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML 2020,
    Algorithm 1. Differs from the paper: weights by data size, and momentum is accounted for; see the server rule.
    """
    return _fedavg(server=Scaffold())


@recipe
def feddyn() -> Method:
    """Equal weights, and a regularizer that changes from round to round.

    Reference: Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, Algorithm 1.
    """
    return Method(RandomSelection(), Uniform(), CrossEntropy(), Dynamic())


@recipe
def fedsam() -> Method:
    """FedAvg with clients that look for flat minima.

    Reference: Qu et al., "Generalized Federated Learning via Sharpness Aware Minimization", ICML 2022.
    """
    return _fedavg(objective=Sharpness())


@recipe
def cohort_prior() -> Method:
    """FedAvg with logits adjusted by the pooled labels of the cohort."""
    return _fedavg(objective=CohortPrior())


@recipe
def ccvr() -> Method:
    """FedAvg whose output layer is calibrated at the end with virtual features.

    Reference: Luo et al., "No Fear of Heterogeneity: Classifier Calibration for Federated Learning with Non-IID Data",
    NeurIPS 2021, Algorithm 1.
    """
    return Method(RandomSelection(), DataSize(), CrossEntropy(), CCVR())


@recipe
def fedconcat() -> Method:
    """A network for each cluster of clients with like labels, then one linear layer on all their encoders.

    Reference: Diao, Li and He, "Exploiting Label Skews in Federated Learning with Model Concatenation", AAAI 2024.
    """
    return _fedavg(Branch(), Concat())


def _fedavg(
    objective: Objective = CrossEntropy(),  # noqa: B008 (frozen)
    server: ServerRule = Average(),  # noqa: B008 (frozen)
) -> Method:
    return Method(RandomSelection(), DataSize(), objective, server)
