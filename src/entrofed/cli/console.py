"""Where the commands print, and the options they share."""

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console

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
