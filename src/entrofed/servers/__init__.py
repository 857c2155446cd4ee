"""Parts that make the next model from the weighted updates."""

from entrofed.core.types import ServerRule
from entrofed.servers.adaptive import FedAdagrad, FedAdam, FedYogi
from entrofed.servers.average import Average
from entrofed.servers.clipped import Clipped
from entrofed.servers.concat import Concat
from entrofed.servers.krum import Krum
from entrofed.servers.median import Median
from entrofed.servers.momentum import Momentum
from entrofed.servers.normalized import Normalized
from entrofed.servers.scaffold import Scaffold
from entrofed.servers.trimmed_mean import TrimmedMean

SERVERS: dict[str, type[ServerRule]] = {
    part.name: part
    for part in (
        Average,
        Normalized,
        Scaffold,
        Momentum,
        FedAdam,
        FedYogi,
        FedAdagrad,
        Median,
        TrimmedMean,
        Krum,
        Clipped,
        Concat,
    )
}
