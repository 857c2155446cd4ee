"""Commands that look at runs: ``ls``, ``show``, ``compare``, ``report``, ``export``. None builds a part of a run."""

import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from entrofed.cli import console as terminal
from entrofed.cli.console import RUNS, ManyRuns, OneRun
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

if TYPE_CHECKING:
    from rich.table import Table

    from entrofed.experiment.stored import StoredRun

Target = Annotated[
    float | None, Parameter(help="Also rounds, megabytes and seconds to this test accuracy, for example 0.9.")
]


def ls(folder: Annotated[Path, Parameter(help="A folder that holds runs.")] = RUNS, *, as_json: AsJson = False) -> None:
    """List the runs below a folder."""
    from entrofed.cli.tables.runs import listed, runs_table

    found = listed(folder)
    if as_json:
        emit("ls", folder=folder, runs=found)
    elif found:
        terminal.print_whole(runs_table(found, folder))
    else:
        words = f"no runs below {folder}; 'entrofed run FILE' makes some"
        terminal.console.print(words, highlight=False, markup=False, soft_wrap=True)


def show(
    run: OneRun,
    *,
    selection: Annotated[bool, Parameter(help="Why each client was chosen, in the last rounds.", negative="")] = False,
    weights: Annotated[bool, Parameter(help="How much each client counted, and why.", negative="")] = False,
    peers: Annotated[bool, Parameter(help="How each node of a topology did.", negative="")] = False,
    target: Target = None,
    plot: Annotated[
        Path | None,
        Parameter(help="Draw the cohorts' entropy (with --weights or --peers: the weights) as .png or .svg."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show a run: its setting, its course, its outcome."""
    from entrofed.cli.tables.runs import run_facts, show_run
    from entrofed.experiment.stored import find_stored
    from entrofed.suite.target import checked_target

    folders = find_stored([run])
    if not folders:
        raise ConfigError(f"{run}: there is no run here")
    if plot is not None and len(folders) > 1:
        raise ConfigError(f"{run}: there are {len(folders)} runs here; --plot draws one, such as {folders[0].path}")
    if target is not None:
        checked_target(target)
    asked = list(_tables(selection=selection, weights=weights, peers=peers))
    if as_json:
        emit("show", runs=[run_facts(folder, target) for folder in folders])
    else:
        tables = [[table for of_run in asked for table in of_run(folder)] for folder in folders]
        for folder, asked_for in zip(folders, tables, strict=True):
            show_run(folder, terminal.console, target)
            for table in asked_for:
                terminal.console.print(table)
    if plot is not None:
        from entrofed.charts.cohort_entropy import entropy_chart
        from entrofed.charts.mixing import mixing_chart
        from entrofed.charts.save import save_chart
        from entrofed.charts.weights import weights_chart
        from entrofed.experiment.run_folder import RunFolder

        draw = mixing_chart if peers else weights_chart if weights else entropy_chart
        save_chart(draw(RunFolder(folders[0].path)), plot)
        terminal.console.print(f"Picture: {plot}", highlight=False, markup=False)


def _tables(*, selection: bool, weights: bool, peers: bool) -> Iterator[Callable[["StoredRun"], Iterable["Table"]]]:
    """Functions of a run: the tables that are asked for."""
    if selection:
        from entrofed.cli.tables.selection import selection_tables

        yield selection_tables
    if weights:
        from entrofed.cli.tables.weights import weights_tables

        yield weights_tables
    if peers:
        from entrofed.cli.tables.peers import peers_tables

        yield peers_tables


def compare(
    runs: ManyRuns,
    *,
    as_json: AsJson = False,
    as_csv: Annotated[bool, Parameter(name="--csv", help="Print it as CSV.", negative="")] = False,
    as_md: Annotated[bool, Parameter(name="--md", help="Print it as Markdown.", negative="")] = False,
    against: Annotated[
        str | None, Parameter(help="Also test each experiment against the one of this name, paired by seed.")
    ] = None,
    target: Target = None,
) -> None:
    """Compare experiments: mean and spread over their seeds."""
    from entrofed.cli.tables.comparison import comparison_table, more_tables, paired_table
    from entrofed.suite.compare import comparison, csv_text, markdown_text, paired_markdown, paired_rows

    rows = comparison(runs, target)
    tests = None if against is None else paired_rows(runs, against)
    if as_json:
        emit("compare", experiments=rows, against=against, tests=tests)
    elif as_csv:
        sys.stdout.write(csv_text(rows, tests))
    elif as_md:
        sys.stdout.write(markdown_text(rows) + ("" if tests is None else f"\n{paired_markdown(tests)}"))
    else:
        for table in (comparison_table(rows), *more_tables(rows)):
            terminal.console.print(table)
        if tests is not None:
            terminal.console.print(paired_table(tests))


def report(
    runs: ManyRuns,
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The page.")] = Path("report.html"),
    title: Annotated[str | None, Parameter(help="Of the page.")] = None,
    live: Annotated[
        bool, Parameter(help="Rewrite the page as rounds finish; it refreshes itself.", negative="")
    ] = False,
    every: Annotated[float, Parameter(help="Seconds between looks, with --live.")] = 5.0,
    target: Target = None,
) -> None:
    """Write one self-contained page about runs: courses, weights, cohorts, partition, costs, configuration."""
    from entrofed.experiment.run_folder import find_runs
    from entrofed.report import live as watch
    from entrofed.report import write_report
    from entrofed.report.live import is_played

    if output.is_dir():
        raise ConfigError(f"--output {output}: that is a folder; name a file, such as {output / 'report.html'}")
    if live:
        if every <= 0:
            raise ConfigError(f"--every {every}: must be above 0 seconds")
        if any(is_played(run) for run in find_runs(runs)):
            terminal.console.print(f"Watching; open {output} and leave it open. Ctrl-C stops.", highlight=False)
        watch(lambda: find_runs(runs), output, every, stop=lambda: False, title=title, target=target)
        left = [run for run in find_runs(runs) if not (run.path / "summary.json").exists()]
        for run in left:
            words = f"{run.label} is not finished, and no process plays it: 'entrofed resume {run.path}' continues it"
            terminal.console.print(words, highlight=False, markup=False, soft_wrap=True)
        if not left:
            terminal.console.print("All runs are finished: the page stays as it is.", highlight=False)
    else:
        write_report(find_runs(runs), output, title=title, target=target)
    terminal.console.print(f"Report: {output} ({output.stat().st_size / 1e6:.1f} MB)", highlight=False)


def export(
    runs: ManyRuns,
    *,
    to: Annotated[
        str,
        Parameter(
            help="Metrics as csv, parquet, tensorboard, mlflow or wandb (offline); or the model of one run, as a file "
            "that ends in .safetensors, .pt2 or .onnx (these two run the network's code)."
        ),
    ] = "parquet",
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="The folder for metrics; by default 'export'.")
    ] = None,
) -> None:
    """Write the metrics of runs, or the model of a run, for other programs."""
    from entrofed.experiment.run_folder import find_runs
    from entrofed.export import export as write
    from entrofed.export.model import SUFFIXES, export_model

    if (path := Path(to)).suffix in SUFFIXES:
        if output is not None:
            raise ConfigError(f"--output is the folder for metrics; a model is written to the file of --to: {path}")
        found = find_runs(runs)
        if len(found) != 1:
            shown = f", such as {found[0].path}" if found else ""
            raise ConfigError(f"--to {path}: a model is that of one run, and here are {len(found)}; name one{shown}")
        terminal.console.print(export_model(found[0], path), highlight=False, markup=False, soft_wrap=True)
        return
    told = logging.StreamHandler()  # what was left alone, what was replaced
    logger = logging.getLogger("entrofed")
    logger.addHandler(told)
    logger.setLevel(logging.INFO)
    try:
        paths = write(find_runs(runs), output or Path("export"), to)
    finally:
        logger.removeHandler(told)
    for path in paths:
        terminal.console.print(str(path), highlight=False, markup=False)
