"""Where the commands print, and what else they share."""

import os
import re
import shutil
import sys
from collections.abc import Sized
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.table import Table
from rich.text import Text

from entrofed.cli.completion import changes, completed, keys
from entrofed.errors import ConfigError, EntrofedError

CONTROL = dict.fromkeys((*range(9), *range(11, 32), *range(127, 160)), "�")
"""Characters that command a terminal; tabs and line ends are none."""


class SafeConsole(Console):
    """Prints text as text: what stands in a file never commands the terminal."""

    def render_str(self, text: str, **options: Any) -> Text:
        """The text without control characters."""
        return super().render_str(text.translate(CONTROL), **options)


console = SafeConsole()
errors = SafeConsole(stderr=True, soft_wrap=True, highlight=False)


def print_whole(table: Table) -> None:
    """Print a table in the width of the terminal; where there is none, and nobody says a width, no name is broken."""
    if console.is_terminal or "COLUMNS" in os.environ:
        console.print(table)
    else:
        natural = console.measure(table, options=console.options.update(max_width=10_000)).maximum
        SafeConsole(file=console.file, width=natural).print(table)


Overrides = Annotated[
    list[str] | None,
    completed(changes, name="--set", help="Change a setting, e.g. --set method.lr=0.05.", negative=""),
]
Unset = Annotated[
    list[str] | None,
    completed(keys, help="Take a setting of the file away, e.g. --unset data.alpha.", negative=""),
]
ExperimentFile = Annotated[Path, Parameter(help="An experiment file, such as examples/digits.toml.")]
OneRun = Annotated[Path, Parameter(help="The folder of a run, or of several, such as runs/digits.")]
ManyRuns = Annotated[
    list[Path], Parameter(help="Folders of runs, or folders that hold such, for example runs/digits.", negative="")
]
DataDir = Annotated[
    Path | None, Parameter(help="Where datasets lie (default: $ENTROFED_DATA, then the user's cache folder).")
]
Clients = Annotated[int, Parameter(help="How many clients there are.")]
Rounds = Annotated[int, Parameter(help="Rounds of each run.")]
Seeds = Annotated[int, Parameter(help="Seeds of each setting, from 0 on.")]
Out = Annotated[Path, Parameter(help="The folder that holds all runs.")]
JOBS = "Runs that are played at once, each on a core of its own"
Jobs = Annotated[int, Parameter(help=f"{JOBS}.")]
RUNS = Path("runs")


def this_command() -> str:
    """How the command is called from here: by its name where the shell finds it, else by its place."""
    called = Path(sys.argv[0])
    if called.name == "__main__.py":  # python -m entrofed
        called = Path(sys.executable).with_name("entrofed")
    if shutil.which("entrofed") or called.name != "entrofed":
        return "entrofed"
    return min(os.path.relpath(called), str(called.absolute()), key=len)


def in_options(words: str) -> str:
    """What the library says, with the options of the command in place of its arguments.

    >>> in_options("continue it with resume = True, or begin anew with from_scratch = True")
    'continue it with --resume, or begin anew with --from-scratch'
    """
    return re.sub(r"\b(resume|overwrite|from_scratch) = True", lambda found: f"--{found[1].replace('_', '-')}", words)


def at_least_one(**options: int | None) -> None:
    """An error if one of these options is given, and below 1."""
    for name, value in options.items():
        if value is not None and value < 1:
            raise ConfigError(f"--{name} {value}: at least 1 is needed")


def raise_failed(failed: Sized, of: int) -> None:
    """An error if some of the runs failed."""
    if len(failed):
        raise EntrofedError(f"{len(failed)} of {of} runs failed (see above); the command again tries them again")
