"""Adjust logits by how often the cohort sees each class."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from entrofed.core.parts import Fact, Given, ModelRuntime, Objective
from entrofed.core.tasks import TrainTask
from entrofed.core.types import ClientData, ClientTable, PartState
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.objectives.cross_entropy import stacked_cross_entropy

LABELS = "cohort_labels"
ABSENT = 1e-8
"""Stands for the share of a class that nobody in the cohort holds."""


@dataclass(frozen=True)
class CohortPrior(Objective):
    """Cross entropy of logits that are raised by ``tau ln pi_c``, pi the pooled labels of the round's cohort.

    So the model learns what would be right if classes were equally frequent in what is averaged, whereas FedLC corrects
    for the client's own labels: a class that the client lacks and the cohort has is still pushed down by its data. The
    server sends the cohort's pooled counts along with the model. Where there is none (a cohort of one client, a round
    of first updates, peers), pi are the client's own labels. Only in training. ``tau = 0`` is plain cross entropy.
    """

    name: ClassVar[str] = "cohort_prior"
    reference: ClassVar[str] = "our own; Menon et al., Long-Tail Learning via Logit Adjustment, ICLR 2021, equation 10"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)

    tau: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.tau < float("inf"):
            raise ConfigError(f"objective {self.name!r}: tau = {self.tau} must be finite and not negative")

    def broadcast(self, clients: ClientTable, cohort: Sequence[int]) -> PartState:
        """The counts that the cohort released, pooled."""
        return {LABELS: clients.told(LabelCounts.name, f"objective {self.name!r}")[list(cohort)].sum(axis=0)}

    def begin(self, task: TrainTask, data: ClientData, model: ModelRuntime) -> Callable[[torch.Tensor], Given]:
        """What is added to the logits."""
        counts = task.broadcast.get(LABELS, np.zeros(data.classes))
        counts = counts if counts.any() else data.label_counts
        shares = np.maximum(counts / max(counts.sum(), 1e-300), ABSENT)
        raised = torch.from_numpy((self.tau * np.log(shares)).astype(np.float32)).to(model.device)
        return lambda x: {"raised": raised}

    def loss(self, model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over the batch."""
        return torch.nn.functional.cross_entropy(model(x) + given["raised"], y)

    def stacked_loss(self, logits: torch.Tensor, y: torch.Tensor, given: Given) -> torch.Tensor:
        """The mean over each client's batch."""
        return stacked_cross_entropy(logits + given["raised"], y)
