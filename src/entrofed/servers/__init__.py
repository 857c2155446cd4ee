"""Parts that make the next model from the weighted updates."""

from entrofed.core.parts import ClientRule, ServerRule, by_name
from entrofed.privacy.updates import LocalNoise
from entrofed.servers.adaptive import FedAdagrad, FedAdam, FedYogi
from entrofed.servers.average import Average
from entrofed.servers.averaged import Averaged
from entrofed.servers.ccvr import CCVR
from entrofed.servers.clipped import Clipped
from entrofed.servers.concat import Concat, FewBatches
from entrofed.servers.dynamic import Dynamic, DynamicRegularizer
from entrofed.servers.extrapolated import Extrapolated
from entrofed.servers.krum import Krum
from entrofed.servers.median import Median
from entrofed.servers.momentum import Momentum
from entrofed.servers.normalized import AccumulatedSteps, Normalized
from entrofed.servers.scaffold import ControlVariate, Scaffold
from entrofed.servers.trimmed_mean import TrimmedMean

SERVERS: dict[str, type[ServerRule]] = by_name(
    Average,
    Averaged,
    CCVR,
    Normalized,
    Scaffold,
    Dynamic,
    Momentum,
    Extrapolated,
    FedAdam,
    FedYogi,
    FedAdagrad,
    Median,
    TrimmedMean,
    Krum,
    Clipped,
    Concat,
)

CLIENT_RULES: dict[str, type[ClientRule]] = by_name(
    AccumulatedSteps, ControlVariate, DynamicRegularizer, FewBatches, LocalNoise
)
"""What clients do for some of them."""
