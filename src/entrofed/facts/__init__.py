"""What clients tell besides their trained models: one file per fact."""

from entrofed.core.parts import Fact, by_name
from entrofed.facts.feature_sums import FeatureSums
from entrofed.facts.first_update import FirstUpdate
from entrofed.facts.label_counts import LabelCounts
from entrofed.facts.label_distance import LabelDistance
from entrofed.facts.label_mixture import LabelMixture
from entrofed.facts.loss import Loss
from entrofed.facts.mean_prediction import MeanPrediction
from entrofed.facts.squared_loss import SquaredLoss

FACTS: dict[str, type[Fact]] = by_name(
    LabelCounts, LabelMixture, LabelDistance, Loss, MeanPrediction, FirstUpdate, SquaredLoss, FeatureSums
)
