"""``entrofed advise``: what label counts alone say about a federation."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.markup import escape

from entrofed.cli import console as terminal
from entrofed.cli.console import DataDir
from entrofed.cli.machine import AsJson, emit

if TYPE_CHECKING:
    from entrofed.data.count_table import CountTable

Counts = Annotated[
    Path | None,
    Parameter(help="Your own label counts: a row per client, a column per class; .csv, .tsv, .parquet or .json."),
]
Client = Annotated[
    str | None, Parameter(help="The column that names the clients, if it is not the first, or holds numbers.")
]


def advise(
    file: Annotated[
        Path,
        Parameter(help="Label counts (a row per client, a column per class: .csv, .tsv, .parquet, .json), or a .toml."),
    ],
    *,
    cohort: Annotated[
        int | None, Parameter(help="Clients per round (default: the experiment's; 10, or half of fewer clients).")
    ] = None,
    rounds: Annotated[int, Parameter(help="Rounds that each selector plays.")] = 100,
    seeds: Annotated[int, Parameter(help="How often it plays them, with other draws.")] = 5,
    buffer: Annotated[
        tuple[float, ...], Parameter(help="Buffer sizes to try, as shares of the clients.", negative="")
    ] = (
        0.0,
        0.3,
        0.5,
        0.7,
        0.9,
    ),
    epsilon: Annotated[tuple[float, ...], Parameter(help="Privacy of the label counts.", negative="")] = (
        0.1,
        0.5,
        1.0,
        5.0,
    ),
    client: Client = None,
    plot: Annotated[Path | None, Parameter(help="Draw it into this .png, .svg or .json file.")] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """See what label counts alone say, in seconds, without training: skew, cohorts, selectors, noise, what to do."""
    from dataclasses import asdict

    from entrofed.data.count_table import read_counts
    from entrofed.studies.advice import advise as find_out

    if file.suffix == ".toml":
        table, cohort = _of_experiment(file, cohort, data_dir)
    else:
        table = read_counts(file, client)
    advice = find_out(table, cohort=cohort, rounds=rounds, seeds=seeds, buffers=buffer, epsilons=epsilon)
    if as_json:
        emit("advise", **asdict(advice))
    else:
        sys.stdout.write(str(advice))
    if plot is not None:
        from entrofed.charts.advice import advice_chart
        from entrofed.charts.save import save_chart

        save_chart(advice_chart(asdict(advice.findings)), plot)
        terminal.errors.print(f"Picture: {escape(str(plot))}")


def _of_experiment(file: Path, cohort: int | None, data_dir: Path | None) -> "tuple[CountTable, int]":
    """The counts of an experiment's participants, and its cohort; of peers, all of them take part in every round."""
    from entrofed.data.count_table import counts_of
    from entrofed.experiment.build import federate
    from entrofed.experiment.config import read

    experiment = read(file)
    table = counts_of(federate(experiment.data, experiment.seed, data_dir))
    there = int(table.counts.any(axis=1).sum())
    if cohort is None:
        cohort = there if experiment.topology else min(experiment.method.cohort_size(len(table.counts)), there)
    return table, cohort
