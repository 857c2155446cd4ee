"""Datasets and who holds what: what ``entrofed data`` and ``entrofed validate`` print."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from entrofed.core.job import Network
from entrofed.core.topologies import components
from entrofed.data.catalog import CATALOG, data_directory, datasets
from entrofed.data.federation import Federation
from entrofed.data.fetch import verify
from entrofed.errors import DataError
from entrofed.experiment.config import Experiment


def data_table(directory: Path | None) -> Table:
    """Every dataset, and whether it is here."""
    root = data_directory(directory)
    table = Table("dataset", "samples", "classes", "shape", "here", "what it is")
    table.caption = f"data directory: {escape(str(root))}"
    table.columns[0].no_wrap = True
    for name, entry in datasets().items():
        table.add_row(
            name,
            f"{entry.samples:,}",
            str(entry.classes),
            "x".join(str(side) for side in entry.shape),
            "yes" if entry.here(root) else "no",
            entry.description,
        )
    return table


def verify_data(
    name: str | None, directory: Path | None, console: Console, tell: Callable[..., None] | None = None
) -> None:
    """Print the state of each file; a damaged file, or a named dataset that is incomplete, is an error.

    ``tell`` is called with all that was found, before it is judged.
    """
    bad, files = list[str](), list[dict[str, Any]]()
    for dataset in [name] if name else CATALOG:
        for status in verify(dataset, data_directory(directory)):
            line = f"{dataset}  {status.path}  {status.state}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
            files.append({"dataset": dataset, "path": status.path, "state": status.state})
            if status.state == "damaged" or (name and status.state == "missing"):
                bad.append(str(status.path))
    if tell is not None:
        tell(files=files)
    if bad:
        raise DataError(f"not intact: {', '.join(bad)}; get them anew with 'entrofed data fetch'")


def federation_facts(experiment: Experiment, federation: Federation) -> dict[str, Any]:
    """How a partition came out; ``samples`` and ``classes`` are the least, the mean and the most of a client."""
    sizes, classes = federation.sizes, (federation.label_counts > 0).sum(axis=1)
    there = len(federation.participants)
    return {
        "clients": len(sizes),
        "participants": there,
        "cohort": min(experiment.method.cohort_size(there), there),
        "samples": [int(sizes.min()), float(sizes.mean()), int(sizes.max())],
        "classes": [int(classes.min()), float(classes.mean()), int(classes.max())],
        "names": list(federation.data.classes),
    }


def federation_table(experiment: Experiment, federation: Federation) -> Table:
    """How a partition came out."""
    found = federation_facts(experiment, federation)
    table = Table("clients", "taking part", "cohort", "samples (min, mean, max)", "classes (min, mean, max)")
    (least, mean, most), (few, usual, many) = found["samples"], found["classes"]
    table.add_row(
        *(str(found[key]) for key in ("clients", "participants", "cohort")),
        f"{least}, {mean:.1f}, {most}",
        f"{few}, {usual:.2f}, {many}",
    )
    return table


def network_words(network: Network) -> str:
    """A topology in a line."""
    graph, parts = network.graph, components(network.graph)
    degrees = [degree for _, degree in graph.degree]
    connected = "connected" if len(parts) == 1 else f"{len(parts)} parts that never hear of each other"
    return (
        f"{len(graph)} peers, {graph.number_of_edges()} edges ({min(degrees)} to {max(degrees)} a peer), {connected}; "
        "every peer trains in every round"
    )
