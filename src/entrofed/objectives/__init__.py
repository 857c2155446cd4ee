"""Parts that say what a client minimizes."""

from entrofed.core.types import Objective
from entrofed.objectives.branch import Branch
from entrofed.objectives.calibrated import Calibrated
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.objectives.restricted_softmax import RestrictedSoftmax

OBJECTIVES: dict[str, type[Objective]] = {
    part.name: part for part in (CrossEntropy, Proximal, Contrastive, RestrictedSoftmax, Calibrated, Branch)
}
