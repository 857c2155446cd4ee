"""Commands that run an experiment file, or check it: ``run``, ``resume``, ``validate``."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.console import (
    RUNS,
    DataDir,
    ExperimentFile,
    Jobs,
    OneRun,
    Out,
    Overrides,
    Unset,
    at_least_one,
    this_command,
)
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

if TYPE_CHECKING:
    from entrofed.experiment.build import Setup
    from entrofed.experiment.config import Experiment
    from entrofed.experiment.run_folder import RunFolder

Verify = Annotated[
    bool, Parameter(help="Check the files of the dataset against their SHA-256, also if they were.", negative="")
]


def run(
    file: ExperimentFile,
    *,
    overrides: Overrides = None,
    unset: Unset = None,
    seeds: Annotated[int | None, Parameter(help="Run this many seeds, counting up from the file's.")] = None,
    backend: Annotated[
        str | None,
        completion.completed(
            completion.backends, help="Where clients train: auto, inline, processes, ray or flower; as engine.backend."
        ),
    ] = None,
    resume: Annotated[bool, Parameter(help="Continue runs that were started before.", negative="")] = False,
    overwrite: Annotated[bool, Parameter(help="Replace runs of the same name and seed.", negative="")] = False,
    jobs: Jobs = 1,
    out: Out = RUNS,
    verify: Verify = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment file."""
    from entrofed.cli.progress import play_all
    from entrofed.experiment.config import parse, read
    from entrofed.experiment.run_folder import RunFolder

    if resume and overwrite:
        raise ConfigError("--resume continues a run and --overwrite deletes it: choose one")
    at_least_one(seeds=seeds, jobs=jobs)
    changes = [*(overrides or ()), *([] if backend is None else [f"engine.backend={backend}"])]
    first = read(file, changes, unset=unset or ())
    wanted = range(first.seed, first.seed + (seeds or 1))
    experiments = [parse({**first.model_dump(exclude_unset=True), "seed": seed}) for seed in wanted]
    folders = [RunFolder(out / experiment.name / f"seed-{experiment.seed}") for experiment in experiments]
    runs = list(zip(experiments, folders, strict=True))
    console = terminal.errors if as_json else terminal.console
    if verify:
        _verify([first], data_dir, console)
    play_all(runs, console, data_dir, resume=resume, overwrite=overwrite, jobs=jobs)
    _tell("run", folders, out / first.name, as_json)


def _tell(schema: str, runs: Sequence["RunFolder"], folder: Path, as_json: bool) -> None:
    """What was played: for programs all of it, for people how to see it."""
    if as_json:
        from entrofed.cli.tables.runs import listed

        emit(schema, runs=listed(*(run.path for run in runs)))
        return
    command = shlex.join([this_command(), "show", str(folder)])
    terminal.console.print(f"\nNext: [bold]{escape(command)}[/bold]", soft_wrap=True)


def resume(
    run: OneRun,
    *,
    from_scratch: Annotated[
        bool, Parameter(help="Begin anew where no checkpoint is intact; the records so far are kept.", negative="")
    ] = False,
    verify: Verify = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Continue a run, or all runs below a folder, from the last checkpoint."""
    from entrofed.cli.progress import play_all
    from entrofed.experiment.run_folder import find_runs

    folders = find_runs([run])
    if not folders:
        raise ConfigError(f"{run}: there is no run here to resume")
    runs = [(folder.experiment(), folder) for folder in folders]
    console = terminal.errors if as_json else terminal.console
    if verify:
        _verify([experiment for experiment, _ in runs], data_dir, console)
    play_all(runs, console, data_dir, resume=True, from_scratch=from_scratch)
    _tell("resume", folders, run, as_json)


def _verify(experiments: Sequence["Experiment"], data_dir: Path | None, console: Console) -> None:
    """Raise a DataError if a file of their datasets is not the published one; own data has no published digest."""
    from entrofed.cli.tables.data import verify_data

    for name in sorted({experiment.data.name for experiment in experiments if experiment.data.path is None}):
        verify_data(name, data_dir, console)


def validate(
    file: ExperimentFile,
    *,
    overrides: Overrides = None,
    unset: Unset = None,
    plot: Annotated[
        Path | None, Parameter(help="Draw who holds what, or who talks to whom, as .png, .svg or .json.")
    ] = None,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Check an experiment file without running it, and show what it resolves to."""
    from entrofed.cli.tables.data import federation_facts, federation_table, network_words
    from entrofed.experiment.build import check_protection, prepare
    from entrofed.experiment.config import read, to_toml

    experiment = read(file, overrides or (), unset=unset or ())
    setup = prepare(experiment, data_dir)
    check_protection(setup)
    if plot is not None:
        _draw(setup, plot)
        terminal.errors.print(f"{'Who holds what' if setup.network is None else 'Who talks to whom'}: {plot}")
    if as_json:
        emit(
            "validate",
            experiment=experiment.model_dump(mode="json", exclude_none=True),
            federation=federation_facts(experiment, setup.federation),
            model={"parameters": setup.layout.trainable, "bytes": setup.layout.nbytes},
            edges=None if setup.network is None else sorted(map(sorted, setup.network.graph.edges)),
        )
        return
    terminal.console.print(to_toml(experiment), highlight=False, markup=False, emoji=False, soft_wrap=True)
    terminal.console.print(federation_table(experiment, setup.federation))
    terminal.console.print(
        f"{setup.layout.trainable:,} parameters to train, {setup.layout.nbytes / 1e6:.2f} MB per model"
    )
    if setup.network is not None:
        terminal.console.print(network_words(setup.network))
    terminal.console.print("[green]valid[/green]")


def _draw(setup: "Setup", path: Path) -> None:
    """A picture of who holds what; where there is no server, of who talks to whom."""
    from entrofed.charts.partition import partition_chart
    from entrofed.charts.save import save_chart
    from entrofed.charts.topology import topology_chart

    federation = setup.federation
    if setup.network is None:
        counts, classes = federation.label_counts, federation.data.classes
        save_chart(partition_chart(counts, classes, federation.names, federation.feature_shift), path)
    else:
        save_chart(topology_chart(setup.network.graph, federation.label_counts, "Who talks to whom"), path)
