"""Where the commands print, and what else they share."""

from collections.abc import Sized
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

from entrofed.errors import EntrofedError

console = Console()
errors = Console(stderr=True, soft_wrap=True, highlight=False)

Overrides = Annotated[
    list[str] | None,
    Parameter(name="--set", help="Change a setting, e.g. --set method.lr=0.05.", negative=""),
]
DataDir = Annotated[
    Path | None, Parameter(help="Where datasets lie (default: $ENTROFED_DATA, then the user's cache folder).")
]
Out = Annotated[Path, Parameter(help="The folder that holds all runs.")]
RUNS = Path("runs")


def raise_failed(failed: Sized, of: int) -> None:
    """An error if some of the runs failed."""
    if len(failed):
        raise EntrofedError(f"{len(failed)} of {of} runs failed (see above); the command again tries them again")
