"""``entrofed data``: datasets."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from entrofed.cli import completion
from entrofed.cli import console as terminal
from entrofed.cli.console import DataDir
from entrofed.cli.machine import AsJson, emit
from entrofed.errors import ConfigError

if TYPE_CHECKING:
    from entrofed.data.describe import Description

data_app = App(name="data", help="Datasets: what there is, fetch it, check it; and describe your own.")


@data_app.command(name="list")
def data_list(*, as_json: AsJson = False, data_dir: DataDir = None) -> None:
    """List the datasets, and which of them are here."""
    from entrofed.cli.tables.data import data_table
    from entrofed.data.catalog import data_directory, datasets

    if as_json:
        root = data_directory(data_dir)
        found = [
            {"name": name, "here": entry.here(root), "samples": entry.samples, "classes": entry.classes}
            | {"shape": entry.shape, "description": entry.description}
            for name, entry in datasets().items()
        ]
        emit("data.list", folder=root, datasets=found)
        return
    terminal.console.print(data_table(data_dir))


@data_app.command(name="fetch")
def data_fetch(
    name: Annotated[str, completion.completed(completion.datasets, help="A dataset, such as fashion-mnist.")],
    *,
    data_dir: DataDir = None,
) -> None:
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
def data_verify(
    name: Annotated[str | None, completion.completed(completion.datasets, help="A dataset; all without.")] = None,
    *,
    as_json: AsJson = False,
    data_dir: DataDir = None,
) -> None:
    """Check the files of one dataset, or of all, against their SHA-256."""
    from entrofed.cli.tables.data import verify_data

    tell = partial(emit, "data.verify") if as_json else None
    verify_data(name, data_dir, terminal.errors if as_json else terminal.console, tell)


@data_app.command(name="describe")
def data_describe(
    path: Annotated[Path, Parameter(help="The table, the file of arrays or the folder.")],
    *,
    label: Annotated[str | None, Parameter(help="The column (or array) that holds the classes.")] = None,
    client: Annotated[str | None, Parameter(help="The column that says whose row it is.")] = None,
    test: Annotated[str | None, Parameter(help="The share of rows for testing, a column, or another file.")] = None,
    features: Annotated[
        tuple[str, ...] | None, Parameter(help="The columns to use; all others are left out.", negative="")
    ] = None,
    drop: Annotated[tuple[str, ...], Parameter(help="Columns to leave out.", negative="")] = (),
    missing: Annotated[
        Literal["refuse", "impute", "drop_rows"], Parameter(help="What to do about missing values.")
    ] = "refuse",
    kind: Annotated[
        Literal["image", "table", "text", "tensor"] | None, Parameter(help="What the samples of arrays are.")
    ] = None,
    size: Annotated[
        tuple[int, int] | None, Parameter(help="Height and width that pictures are resized to.", negative="")
    ] = None,
    plot: Annotated[Path | None, Parameter(help="Draw who holds what, as .png, .svg or .json.")] = None,
    as_json: AsJson = False,
    out: Annotated[Path | None, Parameter(name=["--out", "-o"], help="Write the [data] section to a file.")] = None,
) -> None:
    """Show what is understood of your own table, arrays or pictures, and write the section of an experiment file."""
    from entrofed.cli.tables.describe import print_description
    from entrofed.data.describe import describe_path
    from entrofed.data.tabular.choice import Choice

    found = describe_path(path, Choice(label, client, _share(test), features, drop, missing, kind, size))
    if not found.section and (plot is not None or out is not None):
        raise ConfigError(f"{path}: a picture and a [data] section need the label; say --label")
    if as_json:
        emit("data.describe", **found.to_json())
    else:
        print_description(found, terminal.console)
    if plot is not None:
        _draw(found, plot)
    if out is not None:
        _write(found, out)


def _share(test: str | None) -> float | str | None:
    try:
        return None if test is None else float(test)
    except ValueError:
        return test


def _draw(found: "Description", path: Path) -> None:
    from entrofed.charts.partition import partition_chart
    from entrofed.charts.save import save_chart

    if not found.clients:
        raise ConfigError(f"--plot {path}: draws which client holds which classes, and there are none; say --client")
    save_chart(partition_chart(found.counts, list(found.classes), found.clients, what="samples"), path)
    terminal.errors.print(f"Who holds what: {path}")


def _write(found: "Description", out: Path) -> None:
    """The section, with paths as seen from the file, as an experiment file has them."""
    from entrofed.data.tabular.choice import names_a_file
    from entrofed.experiment.toml import dumps
    from entrofed.files import write_whole

    if out.exists():
        raise ConfigError(f"--out {out}: there is such a file; choose another name")
    if not out.parent.is_dir():
        raise ConfigError(f"--out {out}: there is no folder {out.parent}; make it first")
    paths = {
        key: value for key, value in found.section.items() if key == "path" or (key == "test" and names_a_file(value))
    }
    seen = {key: os.path.relpath(Path(value).resolve(), out.parent.resolve()) for key, value in paths.items()}
    write_whole(out, dumps({"data": {**found.section, **seen}}).lstrip())
    terminal.errors.print(f"The section: {out}")
