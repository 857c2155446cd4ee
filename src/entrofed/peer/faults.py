"""Messages that are lost on purpose."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from entrofed.core.job import Job


class EdgeFaults:
    """Which messages are lost on purpose: those that the simulation of the same experiment loses."""

    def __init__(self, job: Job, node: int) -> None:
        self._node, network, seed = node, job.network, job.seed
        faulty = network is not None and (network.up < 1 or network.loss > 0 or network.split is not None)

        @lru_cache(maxsize=4)
        def senders(number: int) -> list[NDArray[np.int64]]:
            return network.senders(seed, number) if network is not None and faulty else []

        self._senders = senders

    def lost(self, number: int, receiver: int) -> bool:
        """Whether what this node sends in a round does not reach the receiver."""
        hoods = self._senders(number)
        return receiver < len(hoods) and self._node not in hoods[receiver]
