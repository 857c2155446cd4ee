"""``entrofed sweep``: many settings of one experiment file."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from rich.table import Table

from entrofed.cli import console as terminal
from entrofed.cli.console import (
    JOBS,
    RUNS,
    DataDir,
    ExperimentFile,
    Out,
    Overrides,
    Unset,
    at_least_one,
    raise_failed,
    this_command,
)
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from entrofed.suite.play import Runs


def sweep(
    file: ExperimentFile,
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
    unset: Unset = None,
    seeds: Annotated[int, Parameter(help="Seeds for each setting, counting up from the file's.")] = 1,
    jobs: Annotated[int | None, Parameter(help=f"{JOBS}; without it as many as pay, and with --tune one.")] = None,
    out: Out = RUNS,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Run an experiment file with every combination of settings, or search for good ones; resumes by itself."""
    from entrofed.cli.progress import play_all
    from entrofed.cli.tables.comparison import comparison_table
    from entrofed.cli.tables.runs import listed
    from entrofed.experiment.runner import is_finished
    from entrofed.suite.compare import comparison
    from entrofed.suite.sweep import folder_of, jobs_for, plan
    from entrofed.suite.sweep import grid as combinations

    if bool(grid) == bool(tune):
        raise ConfigError("give --grid for every combination of values, or --tune to search; one of the two")
    at_least_one(seeds=seeds, trials=trials, jobs=jobs)
    console = terminal.errors if as_json else terminal.console
    changes, removed = overrides or [], unset or []
    folder = folder_of(file, changes, removed, out)
    if tune:
        how: dict[str, Any] = {"trials": trials, "seeds": seeds, "metric": metric, "unset": removed}
        _tune(file, changes, tune, folder, jobs or 1, data_dir, how, as_json)
        return
    runs = plan(file, changes, combinations(grid or []), seeds, folder, unset=removed)
    _check(runs)
    left = [(experiment, folder) for experiment, folder in runs if not is_finished(experiment, folder)]
    at_once = jobs or jobs_for([experiment.engine for experiment, _ in left])
    so_many = f"; {at_once} at once (--jobs)" if at_once > 1 else ""
    finished = f"{len(runs) - len(left)} of them finished already"
    console.print(f"{len(runs)} runs, {finished}{so_many}", highlight=False)
    failed = play_all(left, console, data_dir, resume=True, keep_going=True, jobs=at_once)
    done = [folder.path for _, folder in runs if folder.exists() and folder.summary() is not None]
    rows = comparison(done) if done else []
    if as_json:
        emit("sweep", runs=listed(*done), experiments=rows, trials=None)
    elif done:
        terminal.console.print(comparison_table(rows))
        command = shlex.join([this_command(), "report", str(folder), "-o", "report.html"])
        terminal.console.print(f"Next: {command}", highlight=False, markup=False, soft_wrap=True)
    raise_failed(failed, len(left))


def _check(runs: "Runs") -> None:
    """An error if a run of another configuration lies where one of these would."""
    for experiment, folder in runs:
        try:
            folder.check(experiment, resume=True)
        except ConfigError as error:
            words = str(error).partition(" Take another name")[0]
            raise ConfigError(f"{words} Name this sweep apart with --set name=NAME, or take another --out") from None


def _tune(
    file: Path,
    overrides: list[str],
    options: list[str],
    folder: Path,
    jobs: int,
    data_dir: Path | None,
    how: dict[str, Any],
    as_json: bool,
) -> None:
    from entrofed.cli.progress import play_all
    from entrofed.cli.tables.runs import listed
    from entrofed.experiment.tables import key_of
    from entrofed.suite.sweep import plan
    from entrofed.suite.tune import search, setting_of

    def play(runs: "Runs") -> None:
        _check(runs)
        play_all(runs, terminal.errors if as_json else terminal.console, data_dir, resume=True, jobs=jobs)

    def find(trials: int) -> "list[FrozenTrial]":
        return search(file, overrides, options, folder=folder, play=play, **{**how, "trials": trials})

    for trial in find(0):  # those of an earlier search
        _check(plan(file, overrides, [setting_of(trial.params)], how["seeds"], folder, unset=how["unset"]))
    found = find(how["trials"])
    if as_json:
        tried = [{"settings": setting_of(trial.params), "value": trial.value} for trial in found]
        emit("sweep", runs=listed(folder), experiments=[], trials=tried)
        return
    shown = Table(*found[0].params, how["metric"], title=f"{len(found)} trials, the best ten first")
    for trial in found[:10]:
        shown.add_row(*setting_of(trial.params).values(), f"{trial.value:.4f}")
    terminal.console.print(shown)
    best = [f"{key}={value}" for key, value in setting_of(found[0].params).items()]
    named = [] if any(key_of(text) == "name" for text in overrides) else [f"name={file.stem}-tuned"]
    words = [this_command(), "run", str(file), *(word for key in how["unset"] for word in ("--unset", key))]
    words += [word for text in (*overrides, *best, *named) for word in ("--set", text)]
    terminal.console.print(f"Next: {shlex.join(words)} --seeds 3", highlight=False, markup=False, soft_wrap=True)
