"""``[privacy]``: what clients release, and how it is protected."""

from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from entrofed.core.parts import LabelFact, Method
from entrofed.experiment.sections.section import Section, was_run
from entrofed.privacy.accountant import Library
from entrofed.privacy.counts import Neighbours
from entrofed.privacy.secure import check_secure
from entrofed.privacy.updates import Where, check_private


class UpdatesSection(Section):
    """Clipping and noise of updates.

    See :mod:`entrofed.privacy.updates` and :mod:`entrofed.privacy.accountant`.
    """

    clip: float = Field(gt=0)
    """The longest step (L2) that a client may make in a round; with ``quantile``, the first."""
    quantile: Annotated[float, Field(gt=0, lt=1)] | None = None
    """The share of steps that the clip should leave as they are; it then follows them from round to round."""
    noise: Annotated[float, Field(gt=0)] | None = None
    """The multiplier: standard deviation over sensitivity. Not given: the least that ``epsilon`` allows."""
    epsilon: Annotated[float, Field(gt=0)] | None = None
    """The budget of the whole run, label counts included: it ends before the round that would exceed it."""
    delta: float = Field(1e-5, gt=0, lt=1)
    """The delta of (epsilon, delta)."""
    where: Where = "server"
    """Who adds the noise: the ``server``, or each ``client`` its share."""
    unit: Literal["client"] = "client"
    """All that a client ever sends is hidden, not one of its records only."""
    accountant: Library = "pld"
    """How rounds are composed: by privacy loss distributions (``pld``) or Rényi divergences (``rdp``)."""

    @model_validator(mode="after")
    def _noise_or_epsilon(self, info: ValidationInfo) -> "UpdatesSection":
        if not was_run(info) and self.noise is None and self.epsilon is None:
            raise ValueError(
                "privacy.updates needs noise (a multiplier), or an epsilon to find it from; to clip only, take "
                'method.server = "clipped"'
            )
        return self


class PrivacySection(Section):
    """Noise on label counts (:mod:`entrofed.privacy.counts`) and on updates, and secure aggregation."""

    epsilon: Annotated[float, Field(gt=0)] | None = None
    """Budget of the label counts, which are noised before they leave a client."""
    neighbours: Neighbours = "add_remove"
    """What the noise hides: one record added or removed, a record replaced, or all of a client's records."""
    simulate: bool = False
    """Draw the noise from the run's seed: repeatable, and no privacy."""
    sizes: bool = False
    """Take the number of examples from the noised counts, too, instead of from the clients."""
    secure: bool = False
    """Secure aggregation: the server learns sums of updates and nothing about a single one."""
    updates: UpdatesSection | None = None
    """Clipping and noise of updates."""

    def check(self, method: Method, *, peers: bool, quorum: int, cohort: int) -> None:
        """Raise a ValueError if there is nothing to protect, a ConfigError if a method cannot be protected so."""
        released = method.pools or any(isinstance(fact, LabelFact) for fact in method.facts)
        if self.epsilon is None and self.updates is None and not self.secure:
            raise ValueError("[privacy] protects nothing; set epsilon (label counts), secure, or [privacy.updates]")
        if self.epsilon is not None and not released:
            raise ValueError(
                f"privacy.epsilon noises released label counts, and method {method.name!r} releases none; leave it out"
            )
        if self.sizes and self.epsilon is None:
            raise ValueError("privacy.sizes takes the sizes from noised label counts; set privacy.epsilon")
        if self.secure:
            check_secure(method, peers=peers, cohort=cohort)
        if self.updates is None:
            return
        if self.secure and self.updates.where == "server":
            raise ValueError(
                "privacy.updates.where = 'server' with privacy.secure: the server cannot cut what it does not see; set "
                "where = 'client'"
            )
        check_private(
            method,
            self.updates.where,
            counts=self.epsilon is not None,
            shares=1 if peers else quorum,
            peers=peers,
            quantile=self.updates.quantile is not None,
        )
