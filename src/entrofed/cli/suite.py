"""Commands about many runs: ``reproduce``, ``sweep``, ``report`` and ``export``."""

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.markup import escape
from rich.table import Table

from entrofed.cli import console as terminal
from entrofed.cli.console import RUNS, DataDir, Out, Overrides
from entrofed.errors import ConfigError, EntrofedError

if TYPE_CHECKING:
    from entrofed.papers.reproduce import Planned

reproduce_app = App(name="reproduce", help="Play the papers' tables, and see how ours compare.")

PAPER_RUNS = RUNS / "papers"
RESULTS = Path("docs/results")


@reproduce_app.command(name="list")
def reproduce_list(*, data_dir: DataDir = None) -> None:
    """List every cell of every table that can be played, and which lack their data."""
    from entrofed.cli.tables.papers import cells_table

    terminal.console.print(cells_table(data_dir))


@reproduce_app.default
def reproduce(
    tables: Annotated[list[str], Parameter(negative="")],
    *,
    cell: Annotated[list[str] | None, Parameter(help="Only these cells of the table.", negative="")] = None,
    column: Annotated[list[str] | None, Parameter(help="Only these columns.", negative="")] = None,
    rounds: Annotated[int | None, Parameter(help="Instead of the paper's.")] = None,
    seeds: int | None = None,
    budget: Annotated[
        str | None, Parameter(help="Time to spend, such as 30min: rounds and seeds are cut until it fits.")
    ] = None,
    dry_run: Annotated[bool, Parameter(help="Say what would be run, and stop.", negative="")] = False,
    out: Out = PAPER_RUNS,
    data_dir: DataDir = None,
) -> None:
    """Play tables such as ``fedentopt/table1`` and compare with the paper; goes on where it was stopped."""
    from entrofed.cli.progress import play_all
    from entrofed.papers import reproduce as suite

    for name, value in (("rounds", rounds), ("seeds", seeds)):
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: at least 1 is needed")
    wanted = [part for table in tables for part in suite.select(table, cell or (), column or ())]
    wanted = list({part.path: part for part in wanted}.values())
    selections = []
    for part in wanted:
        missing = suite.missing_data(part, data_dir)
        for words in missing.values():
            terminal.console.print(f"[yellow]{escape(words)}[/yellow]", soft_wrap=True)
        selections.append(part.without(missing))
    if not any(part.cells for part in selections):
        raise ConfigError("none of these cells can be run: the data of all is missing; see 'entrofed data list'")
    asked = seeds or suite.SEEDS
    if budget is None:
        runs = [planned for part in selections for planned in part.plan(out, rounds, asked)]
    else:
        runs, fits = suite.shorten(selections, out, rounds, asked, suite.seconds_of(budget), data_dir)
        terminal.console.print(suite.fit_words(fits, asked, budget), highlight=False)
    left = [planned for planned in runs if not planned.done]
    terminal.console.print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished already", highlight=False)
    if dry_run:
        for planned in left:
            terminal.console.print(f"{planned.folder.path}: {planned.experiment.rounds} rounds", highlight=False)
        return
    failed = play_all(
        [(planned.experiment, planned.folder) for planned in left],
        terminal.console,
        data_dir,
        resume=True,
        keep_going=True,
    )
    _show_verdicts(runs)
    terminal.console.print(f"Runs: {out}. Next: [bold]entrofed report {out / tables[0]} -o report.html[/bold]")
    _raise_failed(failed, len(left))


def _show_verdicts(runs: "list[Planned]") -> None:
    from entrofed.cli.tables.papers import verdict_tables

    results = [planned.result() for planned in runs if planned.done]
    for path in dict.fromkeys(planned.table for planned in runs):
        for table in verdict_tables(path, results):
            terminal.console.print(table)


def _raise_failed(failed: dict[str, EntrofedError], of: int) -> None:
    if failed:
        raise EntrofedError(f"{len(failed)} of {of} runs failed (see above); the command again tries them again")


@reproduce_app.command(name="collect")
def reproduce_collect(
    *,
    out: Out = PAPER_RUNS,
    results: Annotated[Path, Parameter(help="Where the Parquet files lie, one for each table.")] = RESULTS,
) -> None:
    """Gather finished runs into small Parquet files, beside what they hold already."""
    from entrofed.papers.reproduce import finished
    from entrofed.papers.results import store

    found = finished(out)
    if not found:
        raise ConfigError(
            f"{out}: there is no finished run of a paper's table here; play one with 'entrofed reproduce'"
        )
    for path in store(found, results):
        terminal.console.print(f"{path}: {path.stat().st_size / 1e3:.0f} kB", highlight=False)


@reproduce_app.command(name="page")
def reproduce_page(
    *,
    results: Annotated[Path, Parameter(help="Where the Parquet files lie.")] = RESULTS,
    output: Annotated[Path, Parameter(name=("--output", "-o"))] = Path("docs/results.md"),
) -> None:
    """Write the page of results from the Parquet files."""
    from entrofed.papers.page import write_page
    from entrofed.papers.results import read_all

    found = read_all(results)
    if not found:
        raise ConfigError(f"{results}: there are no results here; 'entrofed reproduce collect' gathers them")
    for path in write_page(found, output):
        terminal.console.print(str(path), highlight=False, markup=False)


def sweep(
    file: Path,
    *,
    grid: Annotated[
        list[str] | None, Parameter(help="Values to combine, such as data.alpha=0.1,0.3,1; give it again.", negative="")
    ] = None,
    tune: Annotated[
        list[str] | None,
        Parameter(help="What to search, such as 'method.lr=0.001..0.1 log' or method.epochs=1..10.", negative=""),
    ] = None,
    trials: Annotated[int, Parameter(help="How many settings --tune tries.")] = 20,
    metric: Annotated[str, Parameter(help="What --tune maximizes.")] = "accuracy_id_last_10",
    overrides: Overrides = None,
    seeds: Annotated[int, Parameter(help="Seeds for each setting, counting up from the file's.")] = 1,
    out: Out = RUNS,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment file with every combination of settings, or search for good ones; resumes by itself."""
    from entrofed.cli.progress import play_all
    from entrofed.experiment.runner import is_finished
    from entrofed.suite.compare import comparison, comparison_table
    from entrofed.suite.sweep import grid as combinations
    from entrofed.suite.sweep import plan

    if bool(grid) == bool(tune):
        raise ConfigError("give --grid for every combination of values, or --tune to search; one of the two")
    for name, value in (("seeds", seeds), ("trials", trials)):
        if value < 1:
            raise ConfigError(f"--{name} {value}: at least 1 is needed")
    if tune:
        _tune(file, overrides or [], tune, trials, seeds, metric, out, data_dir)
        return
    runs = plan(file, overrides or [], combinations(grid or []), seeds, out)
    left = [(experiment, folder) for experiment, folder in runs if not is_finished(experiment, folder)]
    terminal.console.print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished already", highlight=False)
    failed = play_all(left, terminal.console, data_dir, resume=True, keep_going=True)
    done = [folder.path for _, folder in runs if folder.exists() and folder.summary() is not None]
    if done:
        terminal.console.print(comparison_table(comparison(done)))
    _raise_failed(failed, len(left))


def _tune(
    file: Path,
    overrides: list[str],
    options: list[str],
    trials: int,
    seeds: int,
    metric: str,
    out: Path,
    data_dir: Path | None,
) -> None:
    from entrofed.cli.progress import play_all
    from entrofed.suite.tune import search, setting_of

    found = search(
        file,
        overrides,
        options,
        trials=trials,
        seeds=seeds,
        metric=metric,
        out=out,
        play=lambda runs: play_all(runs, terminal.console, data_dir, resume=True),
    )
    shown = Table(*found[0].params, metric, title=f"{len(found)} trials, the best ten first")
    for trial in found[:10]:
        shown.add_row(*setting_of(trial.params).values(), f"{trial.value:.4f}")
    terminal.console.print(shown)
    best = " ".join(f"--set {key}={value}" for key, value in setting_of(found[0].params).items())
    terminal.console.print(f"Next: entrofed run {file} {best} --seeds 3", highlight=False, soft_wrap=True)


def report(
    runs: Annotated[list[Path], Parameter(negative="")],
    *,
    output: Annotated[Path, Parameter(name=("--output", "-o"))] = Path("report.html"),
    title: str | None = None,
    live: Annotated[
        bool, Parameter(help="Rewrite the page as rounds finish; it refreshes itself.", negative="")
    ] = False,
    every: Annotated[float, Parameter(help="Seconds between looks, with --live.")] = 5.0,
) -> None:
    """Write one self-contained page about runs: courses, weights, cohorts, partition, costs, configuration."""
    from entrofed.experiment.run_folder import find_runs
    from entrofed.report import live as watch
    from entrofed.report import write_report

    if live:
        if every <= 0:
            raise ConfigError(f"--every {every}: must be above 0 seconds")
        terminal.console.print(f"Watching; open {output} and leave it open. Ctrl-C stops.", highlight=False)
        watch(lambda: find_runs(runs), output, every, stop=lambda: False, title=title)
    else:
        write_report(find_runs(runs), output, title=title)
    terminal.console.print(f"Report: {output} ({output.stat().st_size / 1e6:.1f} MB)", highlight=False)


def export(
    runs: Annotated[list[Path], Parameter(negative="")],
    *,
    to: Annotated[str, Parameter(help="csv, parquet, tensorboard, mlflow or wandb (offline).")] = "parquet",
    output: Annotated[Path, Parameter(name=("--output", "-o"))] = Path("export"),
) -> None:
    """Write the figures of runs for other programs."""
    from entrofed.experiment.run_folder import find_runs
    from entrofed.export import export as write

    told = logging.StreamHandler()  # what was left alone, what was replaced
    logger = logging.getLogger("entrofed")
    logger.addHandler(told)
    logger.setLevel(logging.INFO)
    try:
        paths = write(find_runs(runs), output, to)
    finally:
        logger.removeHandler(told)
    for path in paths:
        terminal.console.print(str(path), highlight=False, markup=False)
