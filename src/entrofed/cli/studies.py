"""``entrofed study``: what can be seen in a minute or two, without training or with small models."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter
from rich.markup import escape
from rich.table import Table

from entrofed.cli import console as terminal
from entrofed.cli.advise import Client, Counts
from entrofed.cli.console import Clients, Rounds, Seeds, at_least_one
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

study_app = App(
    name="study",
    help="Small studies: selection, topologies (without training), adversarial peers, curious servers.",
)


@study_app.command(name="selection")
def study_selection(
    *,
    counts: Counts = None,
    client: Client = None,
    clients: Annotated[int | None, Parameter(help="Clients of a partition (default: 100).")] = None,
    cohort: Annotated[int, Parameter(help="Clients per round.")] = 10,
    rounds: Annotated[int, Parameter(help="Rounds that each selector plays.")] = 100,
    partitions: Annotated[int, Parameter(help="How many are drawn; with --counts, how often selectors draw.")] = 10,
    classes: Annotated[int | None, Parameter(help="Labels (default: 10); 20: CIFAR-100's superclasses.")] = None,
    buffer: Annotated[
        tuple[float, ...], Parameter(help="Further buffer sizes, as shares of the clients.", negative="")
    ] = (
        0.1,
        0.9,
    ),
    epsilon: Annotated[tuple[float, ...], Parameter(help="Privacy of the label counts.", negative="")] = (0.5,),
    plot: Annotated[Path | None, Parameter(help="Draw it into this .png, .svg or .json file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare what selectors choose, without training, on partitions of CIFAR's label counts, or on your own counts."""
    from entrofed.charts.studies import selection_chart
    from entrofed.cli.tables.studies import selection_study_tables
    from entrofed.data.count_table import read_counts
    from entrofed.studies.selection import study, study_counts

    at_least_one(cohort=cohort, rounds=rounds, partitions=partitions)
    options: dict[str, Any] = {"cohort": cohort, "rounds": rounds, "buffers": buffer, "epsilons": epsilon}
    if counts is None:
        if client is not None:
            raise ConfigError("--client names a column of the file of --counts: give that, too")
        clients, classes = 100 if clients is None else clients, 10 if classes is None else classes
        at_least_one(clients=clients)
        if classes < 2:
            raise ConfigError(f"--classes {classes}: at least 2 are needed")
        rows = study(clients=clients, classes=classes, seeds=partitions, **options)
    else:
        for option, given in (("clients", clients), ("classes", classes)):
            if given is not None:
                raise ConfigError(f"--{option} is for partitions that are drawn; with --counts, they are in the file")
        table = read_counts(counts, client)
        rows, classes = study_counts(table, counts.name, seeds=partitions, **options), len(table.classes)
    _show_study("selection", rows, selection_study_tables, partial(selection_chart, classes=classes), plot, as_json)


@study_app.command(name="topology")
def study_topology(
    *,
    nodes: Annotated[int, Parameter(help="Of each graph.")] = 10,
    partitions: Annotated[int, Parameter(help="How many are drawn for each alpha.")] = 5,
    alpha: Annotated[tuple[float, ...], Parameter(help="Dirichlet parameters of the partitions.", negative="")] = (
        20.0,
        1.0,
        0.1,
    ),
    plot: Annotated[Path | None, Parameter(help="Draw the spectral gaps into this .png, .svg or .json file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Compare how topologies and weighings mix models without a server, in seconds, on MNIST's label counts."""
    from entrofed.charts.studies import topology_study_chart
    from entrofed.cli.tables.studies import topology_study_tables
    from entrofed.studies.topology import study

    at_least_one(nodes=nodes, partitions=partitions)
    rows = study(nodes=nodes, alphas=alpha, seeds=partitions)
    _show_study("topology", rows, topology_study_tables, topology_study_chart, plot, as_json)


@study_app.command(name=("adversaries", "liars"))
def study_adversaries(
    *,
    peers: Annotated[int, Parameter(help="How many there are, one of them adversarial.")] = 10,
    rounds: Rounds = 10,
    seeds: Seeds = 3,
    plot: Annotated[Path | None, Parameter(help="Draw it into this .png, .svg or .json file.")] = None,
    as_json: AsJson = False,
) -> None:
    """See what a peer gains by a false claim about its labels, and what defences help, in a minute on small data."""
    from entrofed.charts.studies import adversaries_chart
    from entrofed.cli.tables.studies import adversaries_study_tables
    from entrofed.studies.adversaries import ATTACKS, study

    at_least_one(peers=peers, rounds=rounds, seeds=seeds)
    rows = study(peers=peers, rounds=rounds, seeds=seeds)
    _show_study(
        "adversaries", rows, adversaries_study_tables, partial(adversaries_chart, attacks=ATTACKS), plot, as_json
    )


@study_app.command(name="attacks")
def study_attacks(
    *,
    clients: Clients = 10,
    hostile: Annotated[int, Parameter(help="How many of them attack.")] = 2,
    rounds: Rounds = 10,
    seeds: Seeds = 3,
    plot: Annotated[Path | None, Parameter(help="Draw it into this .png, .svg or .json file.")] = None,
    as_json: AsJson = False,
) -> None:
    """See what attacks do to a model under each defence, and what defences cost without any, in minutes."""
    from entrofed.charts.studies import attacks_chart
    from entrofed.cli.tables.studies import attacks_study_tables
    from entrofed.studies.attacks import study

    at_least_one(clients=clients, hostile=hostile, rounds=rounds, seeds=seeds)
    if hostile >= clients:
        raise ConfigError(f"--hostile {hostile}: of {clients} clients, at least one must be honest")
    rows = study(clients=clients, hostile=hostile, rounds=rounds, seeds=seeds)
    _show_study("attacks", rows, attacks_study_tables, attacks_chart, plot, as_json)


@study_app.command(name="leakage")
def study_leakage(
    *,
    clients: Clients = 20,
    rounds: Rounds = 20,
    epsilon: Annotated[float, Parameter(help="The budget of runs with noise on updates.")] = 8.0,
    counts: Annotated[float, Parameter(help="The epsilon of label counts.")] = 0.5,
    seeds: Seeds = 3,
    plot: Annotated[Path | None, Parameter(help="Draw it into this .png, .svg or .json file.")] = None,
    as_json: AsJson = False,
) -> None:
    """See what a curious server learns of labels and samples under each protection, in minutes on small data."""
    from entrofed.charts.studies import leakage_chart
    from entrofed.cli.tables.studies import leakage_study_tables
    from entrofed.studies.leakage import study

    at_least_one(clients=clients, rounds=rounds, seeds=seeds)
    if not epsilon > counts > 0:
        raise ConfigError(f"--counts {counts:g} is part of the budget --epsilon {epsilon:g}: 0 < counts < epsilon")
    rows = study(clients=clients, rounds=rounds, epsilon=epsilon, counts=counts, seeds=seeds)
    _show_study("leakage", rows, leakage_study_tables, leakage_chart, plot, as_json)


def _show_study(
    name: str,
    rows: list[dict[str, Any]],
    tables: Callable[[list[dict[str, Any]]], Iterable[Table]],
    chart: Callable[[list[dict[str, Any]]], Any],
    plot: Path | None,
    as_json: bool,
) -> None:
    """Print a study as tables or JSON, and draw it if asked."""
    if as_json:
        emit("study", study=name, rows=rows)
    else:
        for table in tables(rows):
            terminal.console.print(table)
    if plot is not None:
        from entrofed.charts.save import save_chart

        save_chart(chart(rows), plot)
        terminal.errors.print(f"Picture: {escape(str(plot))}")
