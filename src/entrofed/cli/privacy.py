"""``entrofed privacy``: what a budget of privacy buys."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter
from rich.markup import escape

from entrofed.cli import console as terminal
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError, EntrofedError

CANARIES = 1000
"""Of the audit by one run."""

privacy_app = App(name="privacy", help="Budgets of differential privacy.")


@privacy_app.command(name="plan")
def plan_budget(
    file: Annotated[Path | None, Parameter(help="An experiment file to take all of it from.")] = None,
    *,
    clients: Annotated[int | None, Parameter(help="How many there are (default: 1000).")] = None,
    cohort: Annotated[int | None, Parameter(help="Clients per round (default: 100).")] = None,
    rounds: Annotated[int | None, Parameter(help="Of the whole run (default: 100).")] = None,
    epsilon: Annotated[float | None, Parameter(help="The budget of the whole run.")] = None,
    delta: Annotated[float | None, Parameter(help="Of (epsilon, delta) (default: 1e-5).")] = None,
    counts: Annotated[float | None, Parameter(help="The epsilon of released label counts, part of the budget.")] = None,
    rest: Annotated[
        tuple[float, ...], Parameter(help="FedEntOpt's buffers, as shares of the clients.", negative="")
    ] = (0.5, 0.9),
    noise: Annotated[float | None, Parameter(help="Judge this multiplier instead of finding the least.")] = None,
    as_json: AsJson = False,
) -> None:
    """Say which rounds, cohort and noise fit a budget, for each way of choosing clients, before anything is run."""
    from entrofed.cli.tables.privacy import plan_table
    from entrofed.privacy.plan import plan

    if file is not None:
        from entrofed.experiment.config import read

        experiment = read(file)
        privacy = experiment.privacy
        if privacy is None or privacy.updates is None:
            raise ConfigError(f"{file}: there is no [privacy.updates] to plan for")
        clients = clients or experiment.data.clients
        if clients is not None:
            cohort = cohort or experiment.method.cohort_size(clients)
        rounds, epsilon = rounds or experiment.rounds, epsilon or privacy.updates.epsilon
        delta, counts = delta or privacy.updates.delta, counts or privacy.epsilon
        noise = noise or privacy.updates.noise
    clients, cohort, rounds, delta = clients or 1000, cohort or 100, rounds or 100, delta or 1e-5
    if epsilon is None:
        raise ConfigError("--epsilon is the budget; there is no plan without one")
    for name, value in (("clients", clients), ("cohort", cohort), ("rounds", rounds), ("epsilon", epsilon)):
        if not value > 0:
            raise ConfigError(f"--{name} {value}: it must be above 0")
    if cohort > clients or not 0 < delta < 1 or not all(0 <= share <= 1 for share in rest):
        raise ConfigError(
            "a cohort is no larger than --clients, --delta is between 0 and 1, each --rest between 0 and 1"
        )
    ways = plan(
        clients=clients,
        cohort=cohort,
        rounds=rounds,
        epsilon=epsilon,
        delta=delta,
        counts=counts,
        rests=rest,
        noise=noise,
    )
    if as_json:
        emit("privacy.plan", ways=ways)
        return
    title = f"{clients} clients, {cohort} per round, {rounds} rounds: epsilon {epsilon:g} at delta {delta:g}"
    terminal.console.print(plan_table(ways, title))
    for way in ways:
        if way.problem is not None:
            terminal.console.print(f"[bold]{way.name}[/bold] does not fit: {escape(way.problem)}", highlight=False)


@privacy_app.command(name="audit")
def audit_privacy(
    *,
    epsilon: Annotated[float, Parameter(help="Of the label counts.")] = 1.0,
    noise: Annotated[float, Parameter(help="The multiplier of updates.")] = 2.0,
    participations: Annotated[int, Parameter(help="Rounds in which the client takes part.")] = 3,
    trials: Annotated[int, Parameter(help="Runs with a client, and as many without it.")] = 4000,
    as_json: AsJson = False,
) -> None:
    """Attack our own mechanisms: the epsilon that can be proved from outside must stay below what is claimed."""
    import numpy as np

    from entrofed.cli.tables.privacy import audit_table
    from entrofed.privacy.audit import audit, audit_updates, counts_mechanism
    from entrofed.privacy.one_run import audit_one_run
    from entrofed.privacy.updates import Private
    from entrofed.registry import build

    if not (epsilon > 0 and noise > 0 and participations > 0 and trials >= 100):
        raise ConfigError("--epsilon, --noise and --participations are above 0, --trials is at least 100")
    counts = audit(
        f"label counts, epsilon {epsilon:g} (OpenDP)", counts_mechanism(epsilon), epsilon, 0.0, trials=trials
    )
    rule = Private(server=build("server", "average"), clip=1.0, noise=noise, simulate=True)
    updates = audit_updates(rule, np.array([0.4, 0.3, 0.3]), participations, 1e-5, trials=trials)
    found = [counts, updates, audit_one_run(rule, participations, 1e-5, canaries=CANARIES)]
    if as_json:
        emit("privacy.audit", claims=[{**vars(one), "holds": one.holds} for one in found])
    else:
        terminal.console.print(audit_table(found))
    if not all(one.holds for one in found):
        raise EntrofedError("a claim does not hold: do not rely on this build")
