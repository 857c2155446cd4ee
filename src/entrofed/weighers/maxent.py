"""Weigh so that the cohort's labels, mixed by the weights, are as informative as they can be."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from entrofed.core.parts import Fact, Sees, Weigher
from entrofed.core.types import Context, Update, Weighing
from entrofed.errors import ConfigError
from entrofed.facts.label_counts import LabelCounts
from entrofed.info.entropy import entropy_of_counts
from entrofed.info.maxent import CERTIFIED, Target, check_target, label_rows, maxent_weights, target_distribution

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class MaxEnt(Weigher):
    """The weights that maximize ``H(sum_k alpha_k p_k) - strength KL(alpha || prior)``, with label distributions p.

    A concave problem with one solution, found to within 1e-10 nats: see :mod:`entrofed.info.maxent`. ``prior``:
    ``equal``, or ``size`` (the numbers of examples); a large ``strength`` gives these back. ``target``: ``uniform``;
    ``pooled``, the labels of all clients together; or a number per class. Then ``-KL(sum_k alpha_k p_k || target)``
    takes the place of the entropy. ``least``: the effective number of clients, ``1 / sum_k alpha_k^2``, is at least
    that, so that no client carries the round; a smaller cohort gets equal weights. Counts may be noised.

    It cannot mend a cohort that lacks a class, and the rarer a class, the more its holder's noise counts.
    """

    name: ClassVar[str] = "maxent"
    reference: ClassVar[str] = "our own; the target is that of Lutz et al., FedEntOpt, by weights instead of by choice"
    facts: ClassVar[tuple[Fact, ...]] = (LabelCounts(),)
    sees: ClassVar[Sees] = "sum"

    strength: float = 0.1
    prior: Literal["equal", "size"] = "equal"
    target: Target = "uniform"
    least: float = 1.0

    def __post_init__(self) -> None:
        where = f"weigher {self.name!r}"
        if not 1e-3 <= self.strength <= 1e3:
            raise ConfigError(f"{where}: strength = {self.strength} must be between 0.001 and 1000")
        if not 1 <= self.least < float("inf"):
            raise ConfigError(f"{where}: least = {self.least} is a number of clients, at least 1")
        check_target(where, self.target)

    def weigh(self, updates: Sequence[Update], context: Context) -> Weighing:
        """One convex problem in as many variables as there are updates."""
        where = f"weigher {self.name!r}"
        counts = context.clients.told(LabelCounts.name, where)
        target = target_distribution(self.target, counts, where)
        sizes = np.array([update.num_examples for update in updates], np.float64)
        prior = sizes / sizes.sum() if self.prior == "size" else np.full(len(updates), 1 / len(updates))
        told = counts[[update.client for update in updates]]
        rows = label_rows(told, prior)
        weights, gap = maxent_weights(rows, target, prior, strength=self.strength, least=self.least)
        if gap > CERTIFIED:
            log.warning("round %d: %s weights are up to %.1e nats from the best", context.round, self.name, gap)
        bits = entropy_of_counts(told, base="bits")
        origins = [{"label_entropy_bits": float(h), "prior": float(p)} for h, p in zip(bits, prior, strict=True)]
        return Weighing(weights, origins)
