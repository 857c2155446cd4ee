"""Parts that say how much each update counts."""

from entrofed.core.parts import Weigher, by_name
from entrofed.weighers.capped import Capped
from entrofed.weighers.data_size import DataSize
from entrofed.weighers.discrepancy import Discrepancy
from entrofed.weighers.draws import Draws
from entrofed.weighers.estimated_counts import EstimatedCounts
from entrofed.weighers.label_entropy import LabelEntropy
from entrofed.weighers.loss_deviation import LossDeviation
from entrofed.weighers.maxent import MaxEnt
from entrofed.weighers.permuted import Permuted
from entrofed.weighers.pooled_kl import PooledKL
from entrofed.weighers.prediction_entropy import PredictionEntropy
from entrofed.weighers.reselection import SoftLabelReselection
from entrofed.weighers.uniform import Uniform
from entrofed.weighers.weight_kl import WeightHistogramKL

WEIGHERS: dict[str, type[Weigher]] = by_name(
    DataSize,
    Uniform,
    LabelEntropy,
    MaxEnt,
    Discrepancy,
    EstimatedCounts,
    WeightHistogramKL,
    PredictionEntropy,
    PooledKL,
    LossDeviation,
    SoftLabelReselection,
    Draws,
    Permuted,
    Capped,
)
