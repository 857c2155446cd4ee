"""Another weigher with label counts that are estimated from the updates it weighs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from entrofed.core.output_layer import bias_moves, check_bias
from entrofed.core.parts import ALL_CLIENTS, Fact, LabelFact, Sees, Weigher
from entrofed.core.types import LABEL_COUNTS, Context, FactTable, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.info.label_estimates import estimated_counts
from entrofed.weighers.label_entropy import LabelEntropy
from entrofed.weighers.wrapped import WrappedWeigher


@dataclass(frozen=True)
class EstimatedCounts(WrappedWeigher):
    """A weigher by label counts, or by summaries of them, that gets estimates instead.

    The estimates are of this round alone: the positive moves of the output layer's bias, as shares, times the number
    of examples (:mod:`entrofed.info.label_estimates`). Clients outside the cohort have no counts, so that a ``target``
    of ``pooled`` is the cohort's own. It needs a server: peers do not know where their neighbours' updates began.
    """

    name: ClassVar[str] = "estimated_counts"
    reference: ClassVar[str] = "our own, on Chen and Vikalo, HiCS-FL, NeurIPS 2024, equation 6"
    sees: ClassVar[Sees] = "models"

    weigher: Weigher = LabelEntropy()  # noqa: RUF009 (frozen)

    def __post_init__(self) -> None:
        if not any(isinstance(fact, LabelFact) for fact in self.weigher.facts):
            raise ConfigError(
                f"weigher {self.name!r}: {self.weigher.name!r} works with no label counts that could be estimated; "
                "give one that does, such as 'label_entropy'"
            )

    @property
    def facts(self) -> tuple[Fact, ...]:
        """The other weigher's, without those about labels."""
        return tuple(fact for fact in self.weigher.facts if not isinstance(fact, LabelFact))

    @property
    def needs(self) -> frozenset[str]:
        """The other weigher's, and a server."""
        return self.weigher.needs | {ALL_CLIENTS}

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """The other weigher's weights."""
        classes = context.clients.classes
        start = check_bias(context.layout.output_bias(classes), classes, f"weigher {self.name!r}")
        moves = bias_moves(start, classes, context.params, updates)
        rises = np.array([np.maximum(moves.get(update.client, np.zeros(classes)), 0) for update in updates])
        estimates = estimated_counts(rises, np.array([update.num_examples for update in updates], np.float64))
        counts = np.zeros((len(context.clients.sizes), classes))
        counts[[update.client for update in updates]] = estimates
        told: dict[str, FactTable] = {
            fact.name: counts if fact.name == LABEL_COUNTS else fact.of_all(list(counts))
            for fact in self.weigher.facts
            if isinstance(fact, LabelFact)
        }
        clients = replace(context.clients, facts={**context.clients.facts, **told})
        return self.weigher.weigh(updates, replace(context, clients=clients))
