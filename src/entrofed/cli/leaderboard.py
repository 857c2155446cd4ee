"""``entrofed leaderboard``: methods on several federations, tuned alike, ranked."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.markup import escape

from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.console import RUNS, DataDir, Jobs, Out, at_least_one, raise_failed
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError, EntrofedError

if TYPE_CHECKING:
    from entrofed.leaderboard.plan import Pairing
    from entrofed.papers.reproduce import Planned


def leaderboard(
    *,
    federation: Annotated[
        list[str] | None,
        completion.completed(completion.federations, help="Only these federations.", negative=""),
    ] = None,
    method: Annotated[
        list[str] | None,
        completion.completed(
            completion.compared,
            help="Only these methods; yours, as my_parts.py:MyMethod, stands beside the stored.",
            negative="",
        ),
    ] = None,
    seeds: Annotated[int | None, Parameter(help="Instead of the board's, from seed 0 on.")] = None,
    budget: Annotated[str | None, Parameter(help="Time to spend, such as 30min; the command again goes on.")] = None,
    dry_run: Annotated[bool, Parameter(help="Say what would be run, and stop.", negative="")] = False,
    as_json: AsJson = False,
    jobs: Jobs = 1,
    out: Out = RUNS / "leaderboard",
    results: Annotated[Path, Parameter(help="Where Parquet files and chosen settings lie.")] = Path("docs/leaderboard"),
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="The page; by default beside --results, as .md.")
    ] = None,
    data_dir: DataDir = None,
) -> None:
    """Play what is missing of the leaderboard, each method with settings that are sought alike, and write its page."""
    from entrofed.cli.progress import play_all
    from entrofed.leaderboard.board import board, cell_of
    from entrofed.leaderboard.plan import pairings
    from entrofed.papers.reproduce import seconds_of, without_data

    at_least_one(seeds=seeds, jobs=jobs)
    until = None if budget is None else time.monotonic() + seconds_of(budget)
    console = terminal.errors if as_json else terminal.console
    entries, here = board(), []
    methods = [entries.method(name) for name in method or entries.methods]
    for name in federation or entries.federations:
        found = entries.federation(name)
        if (words := without_data(cell_of(found, methods[0].column({})), data_dir)) is None:
            here.append(found)
        else:
            console.print(f"[yellow]{escape(words)}[/yellow]", soft_wrap=True)
    if not here:
        raise ConfigError("none of these federations can be run: the data of all is missing; see 'entrofed data list'")
    failed, runs = dict[str, EntrofedError](), 0
    searches, missing = list[dict[str, Any]](), list[dict[str, Any]]()
    for pairing in pairings(here, methods, seeds):
        console.print(
            f"{pairing.federation.id}: {len(pairing.methods)} methods, {pairing.seeds} seeds", highlight=False
        )
        if dry_run:
            sought, lacking = _lacking(pairing, out, results)
            searches, missing = searches + sought, missing + lacking
            continue
        play = partial(play_all, console=console, data_directory=data_dir, resume=True, jobs=jobs, until=until)
        played, wrong, spent = _play(pairing, out, results, play)
        runs, failed = runs + played, failed | wrong
        if spent:
            console.print(f"{budget} are spent; the same command goes on", highlight=False)
            break
    if dry_run and as_json:
        emit("leaderboard.plan", searches=searches, runs=missing)
    elif dry_run:
        for search in searches:
            words = "{federation}, {method}: {trials} trials with {seeds} seeds".format(**search)
            console.print(words, highlight=False)
        for run in missing:
            console.print("{path}: {rounds} rounds".format(**run), highlight=False)
    else:
        written = _write(results, output or results.with_suffix(".md"), console, as_json=as_json)
        raise_failed(failed, runs)
        if not written:
            raise ConfigError(f"{results}: there are no results yet; give it more time, or fewer methods")


def _lacking(pairing: "Pairing", out: Path, results: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The searches and the runs that are still to be played."""
    from entrofed.leaderboard.plan import in_tables, left, stored
    from entrofed.leaderboard.tuning import read_settings

    name, tuning = pairing.federation.id, pairing.federation.tuning
    chosen = read_settings(results, name)
    searches = (
        []
        if tuning is None
        else [
            {"federation": name, "method": method.id, "trials": tuning.trials, "seeds": tuning.seeds}
            for method in pairing.untuned(chosen)
        ]
    )
    every = pairing.plan(chosen, out)
    kept = stored(results, name) | {(run.column, run.seed): run for run in in_tables(pairing, every, results)}
    runs = [
        {
            "federation": name,
            "method": run.column.label,
            "seed": run.experiment.seed,
            "rounds": run.experiment.rounds,
            "path": run.folder.path,
        }
        for run in left(every, kept)
    ]
    return searches, runs


def _play(
    pairing: "Pairing", out: Path, results: Path, play: "Callable[..., dict[str, EntrofedError]]"
) -> tuple[int, dict[str, EntrofedError], bool]:
    """Search, play and store; how many runs were to be played, which failed, and whether the time was spent."""
    from entrofed.cli.progress import TimeUpError
    from entrofed.leaderboard.plan import finished, in_tables, left, stored
    from entrofed.leaderboard.tuning import keep_settings, read_settings, tune
    from entrofed.papers.results import store

    federation, failed, runs, spent = pairing.federation, dict[str, EntrofedError](), list["Planned"](), False
    try:
        for method in pairing.untuned(read_settings(results, federation.id)):
            found = tune(federation, method, out / "tuning", play)
            keep_settings(results, federation.id, {method.id: found})
        every = pairing.plan(read_settings(results, federation.id), out)
        store(in_tables(pairing, every, results), results)
        runs = left(every, stored(results, federation.id))
        failed = play([(run.experiment, run.folder) for run in runs], keep_going=True)
    except TimeUpError:
        spent = True
    store(finished(out, federation.id), results)
    return len(runs), failed, spent


def _write(results: Path, output: Path, console: Console, *, as_json: bool) -> bool:
    from entrofed.leaderboard.board import board
    from entrofed.leaderboard.page import write_page
    from entrofed.leaderboard.standing import standing
    from entrofed.leaderboard.tuning import read_settings
    from entrofed.papers.results import read_all

    entries = board()
    found = standing(entries, read_all(results))
    if not found.places:
        return False
    write_page(entries, found, {name: read_settings(results, name) for name in found.places}, output)
    console.print(str(output), highlight=False, markup=False)
    if as_json:
        emit("leaderboard", **vars(found))
    return True
