"""The papers' tables: ``entrofed papers`` and ``entrofed reproduce``."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter
from rich.markup import escape

from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.console import RUNS, DataDir, Jobs, Out, at_least_one, raise_failed, this_command
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

if TYPE_CHECKING:
    from entrofed.papers.reproduce import Planned

reproduce_app = App(name="reproduce", help="Play the papers' tables, and see how ours compare.")

PAPER_RUNS = RUNS / "papers"
RESULTS = Path("docs/results")


def papers(
    table: Annotated[
        str | None, completion.completed(completion.tables, help="A table such as fedentopt/table1; a list without.")
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """The papers' tables: which there are, or what one of them reports (``entrofed papers fedentopt/table1``)."""
    from entrofed.cli.tables.papers import list_of_tables, reported_facts, reported_tables

    if as_json:
        emit("papers", tables=reported_facts(table))
        return
    for shown in [list_of_tables()] if table is None else reported_tables(table):
        terminal.console.print(shown)


@reproduce_app.command(name="list")
def reproduce_list(*, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List every cell of every table that can be played, and which lack their data."""
    from entrofed.cli.tables.papers import cells_table
    from entrofed.papers.reproduce import playable

    if as_json:
        emit("reproduce.list", cells=playable(data_dir))
    else:
        terminal.console.print(cells_table(playable(data_dir)))


@reproduce_app.default
def reproduce(
    tables: Annotated[
        list[str],
        completion.completed(completion.tables, help="Tables such as fedentopt/table1 (entrofed papers).", negative=""),
    ],
    *,
    cell: Annotated[
        list[str] | None, completion.completed(completion.cells, help="Only these cells of the table.", negative="")
    ] = None,
    column: Annotated[
        list[str] | None, completion.completed(completion.columns, help="Only these columns.", negative="")
    ] = None,
    rounds: Annotated[int | None, Parameter(help="Instead of the paper's.")] = None,
    seeds: Annotated[int | None, Parameter(help="How many, from seed 0 on (default: 3).")] = None,
    budget: Annotated[
        str | None, Parameter(help="Time to spend, such as 30min: rounds and seeds are cut until it fits.")
    ] = None,
    dry_run: Annotated[
        bool, Parameter(help="Say what would be run, and which of it is among stored results; then stop.", negative="")
    ] = False,
    as_json: AsJson = False,
    jobs: Jobs = 1,
    out: Out = PAPER_RUNS,
    results: Annotated[Path, Parameter(help="Stored results that --dry-run looks at.")] = RESULTS,
    data_dir: DataDir = None,
) -> None:
    """Play tables such as ``fedentopt/table1`` and compare with the paper; goes on where it was stopped."""
    from entrofed.cli.progress import play_all
    from entrofed.papers import reproduce as planning

    at_least_one(rounds=rounds, seeds=seeds, jobs=jobs)
    console = terminal.errors if as_json else terminal.console
    wanted = [part for table in tables for part in planning.select(table, cell or (), column or ())]
    wanted = list({part.path: part for part in wanted}.values())
    selections = []
    for part in wanted:
        missing = planning.missing_data(part, data_dir)
        for words in missing.values():
            console.print(f"[yellow]{escape(words)}[/yellow]", soft_wrap=True)
        selections.append(part.without(missing))
    if not any(part.cells for part in selections):
        raise ConfigError("none of these cells can be run: the data of all is missing; see 'entrofed data list'")
    asked = seeds or planning.SEEDS
    if budget is None:
        runs = [planned for part in selections for planned in part.plan(out, rounds, asked)]
    else:
        seconds = planning.seconds_of(budget)
        console.print("Measuring what a round takes (a few rounds of each, those of earlier runs are known):")
        told = partial(console.print, highlight=False, markup=False, soft_wrap=True)
        runs, fits = planning.shorten(selections, out, rounds, asked, seconds, data_dir, told)
        console.print(planning.fit_words(fits, asked, budget), highlight=False)
    left = [planned for planned in runs if not planned.done]
    console.print(f"{len(runs)} runs, {len(runs) - len(left)} of them finished already", highlight=False)
    stored = planning.stored_runs(results) if dry_run or as_json else set()
    if dry_run:
        again = sum(planned.run in stored for planned in left)
        if again:
            words = f"{again} of the {len(left)} left have their results in {results}; they would be played again"
            console.print(words, highlight=False, soft_wrap=True)
        for planned in left if not as_json else ():
            words = f", stored in {results}" if planned.run in stored else ""
            console.print(
                f"{planned.folder.path}: {planned.experiment.rounds} rounds{words}", highlight=False, soft_wrap=True
            )
        if as_json:
            emit("reproduce", runs=[planning.facts(planned, stored) for planned in runs], tables=[])
        return
    failed = play_all(
        [(planned.experiment, planned.folder) for planned in left],
        console,
        data_dir,
        resume=True,
        keep_going=True,
        jobs=jobs,
    )
    if as_json:
        emit("reproduce", runs=[planning.facts(planned, stored) for planned in runs], tables=planning.judged(runs))
    else:
        _show_verdicts(runs)
        words = f"Runs: {out}. Next: [bold]{this_command()} report {out / tables[0]} -o report.html[/bold]"
        console.print(words, soft_wrap=True)
    raise_failed(failed, len(left))


def _show_verdicts(runs: "list[Planned]") -> None:
    from entrofed.cli.tables.papers import verdict_tables

    results = [planned.result() for planned in runs if planned.done]
    for path in dict.fromkeys(planned.table for planned in runs):
        for table in verdict_tables(path, results):
            terminal.console.print(table)


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
    output: Annotated[Path, Parameter(name=("--output", "-o"), help="The page.")] = Path("docs/results.md"),
) -> None:
    """Write the page of results from the Parquet files."""
    from entrofed.papers.figures import undrawn
    from entrofed.papers.page import with_shared, write_page
    from entrofed.papers.results import read_all
    from entrofed.papers.tables import papers as all_papers

    found = read_all(results)
    if not found:
        raise ConfigError(f"{results}: there are no results here; 'entrofed reproduce collect' gathers them")
    for path in write_page(found, output):
        terminal.console.print(str(path), highlight=False, markup=False)
    for paper, figure in undrawn(all_papers().values(), with_shared(found)):
        terminal.console.print(
            f"{paper.name}/{figure.id}: not drawn, nothing of it is stored; play 'entrofed reproduce "
            f"{paper.name}/{figure.table}', then 'entrofed reproduce collect'",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
