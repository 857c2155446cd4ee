"""The command ``entrofed``."""

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter
from rich.console import Console
from rich.markup import escape

from entrofed import __version__
from entrofed.cli import console as terminal
from entrofed.cli.console import RUNS, DataDir, Out, Overrides
from entrofed.cli.studies import study_app
from entrofed.cli.suite import export, report, reproduce_app, sweep
from entrofed.errors import ConfigError, EntrofedError

app = App(
    name="entrofed",
    help="Federated learning that chooses and weighs clients by information.",
    version=__version__,
    suppress_keyboard_interrupt=False,  # main() says what to do next
)
data_app = App(name="data", help="Datasets: what there is, fetch it, check it.")
flower_app = App(name="flower", help="Our methods on Flower.")
app.command(data_app)
app.command(flower_app)
app.command(study_app)
app.command(reproduce_app)
for command in (sweep, report, export):
    app.command(command)
app.register_install_completion_command()


@app.command
def quickstart(*, out: Out = RUNS / "quickstart", seeds: int = 3) -> None:
    """Compare the methods on skewed clients in under a minute, with data that is already here."""
    from entrofed.cli.quickstart import play

    play(out, seeds, terminal.console)


@app.command
def run(
    file: Path,
    *,
    overrides: Overrides = None,
    seeds: Annotated[int | None, Parameter(help="Run this many seeds, counting up from the file's.")] = None,
    backend: Annotated[
        str | None, Parameter(help="Where clients train: inline, processes, ray or flower; as engine.backend.")
    ] = None,
    resume: Annotated[bool, Parameter(help="Continue runs that were started before.", negative="")] = False,
    overwrite: Annotated[bool, Parameter(help="Delete runs of the same name and seed first.", negative="")] = False,
    out: Out = RUNS,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment file."""
    from entrofed.cli.progress import play_all
    from entrofed.experiment.config import parse, read
    from entrofed.experiment.run_folder import RunFolder

    if resume and overwrite:
        raise ConfigError("--resume continues a run and --overwrite deletes it: choose one")
    if seeds is not None and seeds < 1:
        raise ConfigError(f"--seeds {seeds}: at least 1 is needed")
    first = read(file, [*(overrides or ()), *([] if backend is None else [f"engine.backend={backend}"])])
    wanted = range(first.seed, first.seed + (seeds or 1))
    experiments = [parse({**first.model_dump(exclude_unset=True), "seed": seed}) for seed in wanted]
    folders = [RunFolder(out / experiment.name / f"seed-{experiment.seed}") for experiment in experiments]
    for folder in folders:
        if overwrite and folder.exists():
            shutil.rmtree(folder.path)
        elif folder.exists() and not resume:
            raise ConfigError(
                f"{folder.path}: there is a run already; continue it with --resume, or replace it with --overwrite"
            )
    play_all(list(zip(experiments, folders, strict=True)), terminal.console, data_dir, resume=resume)
    terminal.console.print(f"\nNext: [bold]entrofed show {out / first.name}[/bold]")


@app.command
def resume(run: Path, *, data_dir: DataDir = None) -> None:
    """Continue a run, or all runs below a folder, from the last checkpoint."""
    from entrofed.cli.progress import play_all
    from entrofed.experiment.run_folder import find_runs

    folders = find_runs([run])
    if not folders:
        raise ConfigError(f"{run}: there is no run here to resume")
    play_all([(folder.experiment(), folder) for folder in folders], terminal.console, data_dir, resume=True)


@app.command(name="ls")
def list_runs(folder: Path = RUNS) -> None:
    """List the runs below a folder."""
    from entrofed.cli.tables.runs import runs_table

    terminal.console.print(runs_table(folder))


@app.command
def show(
    run: Path,
    *,
    selection: Annotated[bool, Parameter(help="Why each client was chosen, in the last rounds.", negative="")] = False,
    weights: Annotated[bool, Parameter(help="How much each client counted, and why.", negative="")] = False,
    peers: Annotated[bool, Parameter(help="How each node of a topology did.", negative="")] = False,
    plot: Annotated[
        Path | None,
        Parameter(help="Draw the cohorts' entropy (with --weights or --peers: the weights) as .png or .svg."),
    ] = None,
) -> None:
    """Show a run: its setting, its course, its outcome."""
    from entrofed.cli.tables.peers import mixing_chart, peers_tables
    from entrofed.cli.tables.runs import save_chart, show_run
    from entrofed.cli.tables.selection import entropy_chart, selection_tables
    from entrofed.cli.tables.weights import weights_chart, weights_tables
    from entrofed.experiment.run_folder import find_runs

    folders = find_runs([run])
    if not folders:
        raise ConfigError(f"{run}: there is no run here")
    if plot is not None and len(folders) > 1:
        raise ConfigError(f"{run}: there are {len(folders)} runs here; --plot draws one, such as {folders[0].path}")
    for folder in folders:
        show_run(folder, terminal.console)
        for table in selection_tables(folder) if selection else ():
            terminal.console.print(table)
        for table in weights_tables(folder) if weights else ():
            terminal.console.print(table)
        for table in peers_tables(folder) if peers else ():
            terminal.console.print(table)
    if plot is not None:
        draw = mixing_chart if peers else weights_chart if weights else entropy_chart
        save_chart(draw(folders[0]), plot)
        terminal.console.print(f"Picture: {plot}", highlight=False, markup=False)


@app.command
def compare(
    runs: Annotated[list[Path], Parameter(negative="")],
    *,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    as_csv: Annotated[bool, Parameter(name="--csv", negative="")] = False,
    as_md: Annotated[bool, Parameter(name="--md", negative="")] = False,
    against: Annotated[
        str | None, Parameter(help="Also test each experiment against the one of this name, paired by seed.")
    ] = None,
) -> None:
    """Compare experiments: mean and spread over their seeds."""
    from entrofed.suite.compare import (
        comparison,
        comparison_table,
        csv_text,
        markdown_text,
        paired_rows,
        paired_table,
    )

    rows = comparison(runs)
    if as_json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    elif as_csv:
        sys.stdout.write(csv_text(rows))
    elif as_md:
        sys.stdout.write(markdown_text(rows))
    else:
        terminal.console.print(comparison_table(rows))
        if against is not None:
            terminal.console.print(paired_table(paired_rows(runs, against)))


@app.command
def validate(
    file: Path,
    *,
    overrides: Overrides = None,
    plot: Annotated[
        Path | None, Parameter(help="Draw who holds what, or who talks to whom, as .png, .svg or .json.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Check an experiment file without running it, and show what it resolves to."""
    from entrofed.cli.tables.runs import draw_setup, federation_table, network_words
    from entrofed.experiment.build import prepare
    from entrofed.experiment.config import read, to_toml

    experiment = read(file, overrides or ())
    terminal.console.print(to_toml(experiment), highlight=False, markup=False, emoji=False, soft_wrap=True)
    setup = prepare(experiment, data_dir)
    terminal.console.print(federation_table(experiment, setup.federation))
    terminal.console.print(
        f"{setup.layout.trainable:,} parameters to train, {setup.layout.nbytes / 1e6:.2f} MB a model"
    )
    if setup.network is not None:
        terminal.console.print(network_words(setup.network))
    if plot is not None:
        draw_setup(setup, plot)
        terminal.console.print(f"{'Who holds what' if setup.network is None else 'Who talks to whom'}: {plot}")
    terminal.console.print("[green]valid[/green]")


@app.command
def doctor(*, data_dir: DataDir = None) -> None:
    """Check this machine: what works, what is missing, what to do about it."""
    from entrofed.cli.doctor import examine

    if not examine(terminal.console, data_dir):
        raise EntrofedError("the checks above that failed need attention")


@app.command
def parts() -> None:
    """List what methods are made of: every part with its defaults and its reference."""
    from entrofed.cli.tables.runs import parts_tables

    for table in parts_tables():
        terminal.console.print(table)


@app.command
def papers(table: str | None = None) -> None:
    """The papers' tables: which there are, or what one of them reports (``entrofed papers fedentopt/table1``)."""
    from entrofed.cli.tables.papers import list_of_tables, reported_tables

    for shown in [list_of_tables()] if table is None else reported_tables(table):
        terminal.console.print(shown)


@data_app.command(name="list")
def data_list(*, data_dir: DataDir = None) -> None:
    """List the datasets, and which of them are here."""
    from entrofed.cli.tables.runs import data_table

    terminal.console.print(data_table(data_dir))


@data_app.command(name="fetch")
def data_fetch(name: str, *, data_dir: DataDir = None) -> None:
    """Download a dataset, checked against its SHA-256."""
    from entrofed.cli.progress import download_progress
    from entrofed.data.catalog import data_directory
    from entrofed.data.fetch import fetch

    with download_progress(terminal.console) as progress:
        paths = fetch(name, data_directory(data_dir), progress)
    for path in paths:
        terminal.console.print(f"{path}", highlight=False, markup=False, soft_wrap=True)
    terminal.console.print(f"[green]{name} is complete[/green]")


@data_app.command(name="verify")
def data_verify(name: str | None = None, *, data_dir: DataDir = None) -> None:
    """Check the files of one dataset, or of all, against their SHA-256."""
    from entrofed.cli.tables.runs import verify_data

    verify_data(name, data_dir, terminal.console)


@flower_app.command(name="new")
def flower_new(folder: Path, *, method: str = "fedentopt") -> None:
    """Write a Flower app that runs: server, clients and task on data that is already here."""
    from entrofed.flower.new import new_app

    for path in new_app(folder, method=method):
        terminal.console.print(str(path), highlight=False, markup=False)
    terminal.console.print(f"Next: read [bold]{folder / 'README.md'}[/bold]")


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; exit codes: 0 ok, 1 failure, 2 usage, 3 data or checkpoint, 4 quorum, 130 Ctrl-C."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        app(
            [word for word in given if word != "--debug"],
            exit_on_error=False,
            print_error=True,
            error_console=Console(stderr=True),  # boxes of text, which soft_wrap would cut off
        )
    except CycloptsError:
        code = ConfigError.exit_code
    except EntrofedError as error:
        if debug:
            raise
        terminal.errors.print(f"[red]error:[/red] {escape(str(error))}")
        code = error.exit_code
    except KeyboardInterrupt:
        terminal.errors.print("\nstopped; finished rounds are kept: continue with --resume")
        code = 130
    except Exception as error:
        if debug:
            raise
        terminal.errors.print(
            f"[red]unexpected {type(error).__name__}:[/red] {escape(str(error))}\n(--debug shows where)"
        )
        code = EntrofedError.exit_code
    else:
        code = 0
    sys.exit(code)
