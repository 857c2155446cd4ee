"""The protected form of a method, as ``[privacy]`` asks for it, and what rounds then cost."""

from dataclasses import dataclass, replace
from typing import Any

from entrofed.core.job import Job
from entrofed.core.parts import Method
from entrofed.core.types import ClientTable, State
from entrofed.errors import ConfigError
from entrofed.experiment.sections.privacy import PrivacySection
from entrofed.privacy.accountant import Accounting
from entrofed.privacy.budget import Metered, participations, planned_steps, sampling_of, spent_on_updates
from entrofed.privacy.secure import Secure
from entrofed.privacy.updates import Private


@dataclass(frozen=True)
class Protection:
    """A method's updates, protected."""

    method: Method
    accounting: Accounting
    settings: dict[str, Any]
    """How, for the summary."""
    limit: tuple[int, str | None]
    """The rounds to be played, and why they are fewer than asked for, if they are."""

    def spent(self, job: Job, state: State) -> dict[str, Any]:
        """What the rounds up to a state have cost."""
        played = state.round
        taken = participations(state.selector, played, len(job.clients.sizes))
        return spent_on_updates(self.accounting, taken[job.participants], played, self.settings)


def protect(
    section: PrivacySection,
    method: Method,
    clients: ClientTable,
    *,
    participants: int,
    cohort: int,
    rounds: int,
    quorum: int,
    peers: bool = False,
    amplify: bool = True,
) -> Protection:
    """A method with its updates cut, noised and counted; see :class:`~entrofed.privacy.updates.Private`.

    ``amplify``: whether all who may be drawn are known, so that sampling can be claimed to help.
    """
    updates = section.updates
    if updates is None:
        raise ConfigError("there is no [privacy.updates]")
    if updates.delta * participants >= 1:
        raise ConfigError(
            f"privacy.updates.delta = {updates.delta:g} would allow to publish one of {participants} clients whole; "
            f"it must be well below {1 / participants:.2g}"
        )
    accounting = Accounting(
        noise=updates.noise or 1.0,
        delta=updates.delta,
        sampling=sampling_of(method, updates.where) if amplify else None,
        clients=participants,
        cohort=min(cohort, participants),
        counts=section.epsilon,
        neighbours=section.neighbours,
        library=updates.accountant,
    )
    if updates.noise is None and updates.epsilon is not None:  # the least that the budget asks for over all rounds
        accounting = accounting.calibrated(updates.epsilon, planned_steps(method, accounting, clients, rounds))
    poisson = accounting.sampling == "poisson"
    if poisson and quorum > 1:
        raise ConfigError(
            f"privacy.updates: method.quorum = {quorum} would tell of rounds with small cohorts, and Poisson sampling "
            "counts on their size being hidden; set method.quorum = 1"
        )
    server = Private(
        server=Secure(method.server) if section.secure else method.server,
        clip=updates.clip,
        noise=accounting.noise,
        where=updates.where,
        quantile=updates.quantile,
        shares=1 if peers else quorum,
        divisor=accounting.cohort if poisson else None,
        simulate=section.simulate,
    )
    most = None if updates.epsilon is None else accounting.most_steps(updates.epsilon)
    by_rounds = peers or accounting.sampling is not None
    selector = Metered(method.selector, None if by_rounds else most, updates.epsilon or 0.0)
    settings = {
        "clip": updates.clip,
        **({} if updates.quantile is None else {"quantile": updates.quantile}),
        "where": updates.where,
        "mechanism": (
            "Gaussian from the run's seed: simulated, not private" if section.simulate else "discrete Gaussian (OpenDP)"
        ),
        **({} if updates.epsilon is None else {"budget": updates.epsilon}),
    }
    protected = replace(method, server=server, selector=selector)
    if by_rounds and most is not None and most < rounds:
        rounds_words = f"{most} round{'s' * (most != 1)}"
        why = f"epsilon {updates.epsilon:g} is enough for {rounds_words} with noise {accounting.noise:.4g}"
        return Protection(protected, accounting, settings, (most, why))
    return Protection(protected, accounting, settings, (rounds, None))
