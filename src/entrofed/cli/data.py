"""``entrofed data``: datasets."""

from cyclopts import App

from entrofed.cli import console as terminal
from entrofed.cli.console import DataDir

data_app = App(name="data", help="Datasets: what there is, fetch it, check it.")


@data_app.command(name="list")
def data_list(*, data_dir: DataDir = None) -> None:
    """List the datasets, and which of them are here."""
    from entrofed.cli.tables.data import data_table

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
    from entrofed.cli.tables.data import verify_data

    verify_data(name, data_dir, terminal.console)
