"""Parts that say what a client minimizes."""

from entrofed.core.parts import Objective, by_name
from entrofed.objectives.branch import Branch
from entrofed.objectives.calibrated import Calibrated
from entrofed.objectives.cohort_prior import CohortPrior
from entrofed.objectives.contrastive import Contrastive
from entrofed.objectives.cross_entropy import CrossEntropy
from entrofed.objectives.proximal import Proximal
from entrofed.objectives.restricted_softmax import RestrictedSoftmax
from entrofed.objectives.sharpness import Sharpness

OBJECTIVES: dict[str, type[Objective]] = by_name(
    CrossEntropy, Proximal, Contrastive, RestrictedSoftmax, Calibrated, CohortPrior, Sharpness, Branch
)
