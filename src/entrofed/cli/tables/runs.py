"""What the commands print: tables of runs, parts and datasets."""

import io
import math
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, Literal

import altair
from rich.console import Console
from rich.table import Table

from entrofed.charts.partition import partition_chart
from entrofed.core.gossip import Network
from entrofed.core.graphs import components
from entrofed.data.catalog import CATALOG, data_directory
from entrofed.data.federation import Federation
from entrofed.data.fetch import verify
from entrofed.errors import ConfigError, DataError
from entrofed.experiment.build import Setup
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder, find_runs
from entrofed.files import write_whole
from entrofed.registry import PART_KINDS, known

BARS = "▁▂▃▄▅▆▇█"


def sparkline(values: Sequence[float], width: int = 60) -> str:
    """Values between 0 and 1 as a line of bars.

    >>> sparkline([0.0, 0.5, 1.0])
    '▁▅█'
    """
    step = max(1, math.ceil(len(values) / width))
    return "".join(BARS[min(int(v * len(BARS)), len(BARS) - 1)] for v in values[::step])


def runs_table(folder: Path) -> Table:
    """All runs below a folder, with how far they are."""
    table = Table("run", "data", "method", "rounds", "status", "accuracy", "best")
    table.columns[0].no_wrap = True
    for run in find_runs([folder]):
        experiment, summary = run.experiment(), run.summary()
        tests = [record["test"]["accuracy"] for record in run.records() if record["test"] is not None]
        table.add_row(
            run.label,
            experiment.data.name,
            experiment.method.name,
            f"{len(run.records())}/{experiment.rounds}",
            "unfinished" if summary is None else "finished",
            f"{tests[-1]:.4f}" if tests else "",
            f"{max(tests):.4f}" if tests else "",
        )
    return table


def show_run(run: RunFolder, console: Console) -> None:
    """One run: setting, course, outcome."""
    experiment, records, summary = run.experiment(), run.records(), run.summary()
    method = experiment.method
    setting = Table.grid(padding=(0, 2))
    setting.add_row("data", f"{experiment.data.name}, {experiment.data.partition}, seed {experiment.seed}")
    setting.add_row("model", str(experiment.model))
    recipe = method.recipe()
    setting.add_row("method", f"{method.name}: " + ", ".join(str(getattr(recipe, kind)) for kind in PART_KINDS))
    setting.add_row("rounds", f"{len(records)} of {experiment.rounds}" + ("" if summary else " (unfinished)"))
    console.rule(run.label)
    console.print(setting)
    tests = [record for record in records if record["test"] is not None]
    if not tests:
        return
    console.print("accuracy", sparkline([record["test"]["accuracy"] for record in tests]))
    table = Table(
        "round",
        "cohort",
        "effective",
        "entropy",
        "train loss",
        "test loss",
        "accuracy",
        "macro F1",
        "refused",
    )
    table.caption = "effective: 1 / sum of squared weights; entropy: of the cohort's pooled labels, in bits"
    shown = tests if len(tests) <= 12 else [*tests[:: math.ceil(len(tests) / 11)], tests[-1]]
    for record in {r["round"]: r for r in shown}.values():
        table.add_row(
            str(record["round"] + 1),
            str(len(record["cohort"])),
            f"{record['effective_cohort']:.1f}",
            f"{record['cohort_entropy']:.3f}",
            "" if record["train_loss"] is None else f"{record['train_loss']:.4f}",
            f"{record['test']['loss']:.4f}",
            f"{record['test']['accuracy']:.4f}",
            f"{record['test']['macro_f1']:.4f}",
            str(len(record["refused"])),
        )
    console.print(table)
    if summary is not None:
        console.print(
            f"accuracy {summary['accuracy']:.4f} (mean of last 10: {summary['accuracy_last_10']:.4f}, "
            f"best {summary['accuracy_best']:.4f}), {summary['bytes'] / 1e6:.1f} MB sent, {summary['seconds']:.1f} s"
        )
        if summary.get("accuracy_id") is not None:
            console.print(f"in distribution, on the held-out data of the last cohort: {summary['accuracy_id']:.4f}")
        if words := privacy_words(summary):
            console.print(words, highlight=False)


def privacy_words(summary: dict[str, Any]) -> str:
    """What the clients paid for their label counts; empty if nothing was noised.

    >>> spent = {"epsilon": 0.5, "neighbours": "add_remove", "mechanism": "Laplace (OpenDP)", "scale": 2.0}
    >>> privacy_words({"privacy": spent})
    'privacy: each client spent epsilon 0.5 once on its label counts (add_remove neighbours, Laplace (OpenDP), scale 2)'
    """
    if not (spent := summary.get("privacy")):
        return ""
    how = f"{spent['neighbours']} neighbours, {spent['mechanism']}, scale {spent['scale']:g}"
    return f"privacy: each client spent epsilon {spent['epsilon']:g} once on its label counts ({how})"


def study_tables(rows: list[dict[str, Any]]) -> Iterator[Table]:
    """The study of selectors for a terminal, a table a partition."""
    for title in dict.fromkeys(row["partition"] for row in rows):
        table = Table("selector", "entropy (bits)", "all labels", "certain", "clients", "fairness", title=title)
        table.columns[0].no_wrap = table.columns[1].no_wrap = True
        table.caption = (
            "all labels: share of cohorts that hold every label; certain: share with more than log2(C-1) bits, which "
            "implies it; clients: chosen at least once; fairness: Jain's index of participation"
        )
        for row in rows:
            if row["partition"] != title:
                continue
            spread = "" if row["entropy_std"] is None else f" ± {row['entropy_std']:.3f}"
            shares = [f"{row[figure]:.2f}" for figure in ("full_coverage", "above")]
            table.add_row(
                row["selector"],
                f"{row['entropy']:.3f}{spread}",
                *shares,
                f"{row['distinct']:.1f}",
                f"{row['fairness']:.2f}",
            )
        yield table


def federation_table(experiment: Experiment, federation: Federation) -> Table:
    """How a partition came out."""
    sizes, classes = federation.sizes, (federation.label_counts > 0).sum(axis=1)
    table = Table("clients", "taking part", "cohort", "samples (min, mean, max)", "classes (min, mean, max)")
    table.add_row(
        str(len(sizes)),
        str(len(federation.participants)),
        str(experiment.method.cohort_size(len(federation.participants))),
        f"{sizes.min()}, {sizes.mean():.1f}, {sizes.max()}",
        f"{classes.min()}, {classes.mean():.2f}, {classes.max()}",
    )
    return table


def save_chart(chart: altair.TopLevelMixin, path: Path) -> None:
    """Write a picture whole, in the format of its ending."""
    formats: dict[str, Literal["png", "svg", "json"]] = {".png": "png", ".svg": "svg", ".json": "json"}
    if path.suffix not in formats:
        raise ConfigError(f"{path}: pictures are written as {', '.join(formats)}")
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: there is no folder {path.parent}; make it first")
    buffer = io.BytesIO() if path.suffix == ".png" else io.StringIO()
    chart.save(buffer, format=formats[path.suffix])
    write_whole(path, buffer.getvalue())


def draw_setup(setup: Setup, path: Path) -> None:
    """A picture of who holds what; where there is no server, of who talks to whom."""
    federation = setup.federation
    if setup.network is None:
        save_chart(partition_chart(federation.label_counts, federation.data.classes), path)
        return
    from entrofed.charts.topology import topology_chart

    save_chart(topology_chart(setup.network.graph, federation.label_counts, "Who talks to whom"), path)


def network_words(network: Network) -> str:
    """A topology in a line."""
    graph, parts = network.graph, components(network.graph)
    degrees = [degree for _, degree in graph.degree]
    connected = "connected" if len(parts) == 1 else f"{len(parts)} parts that never hear of each other"
    return (
        f"{len(graph)} peers, {graph.number_of_edges()} edges ({min(degrees)} to {max(degrees)} a peer), {connected}; "
        "every peer trains in every round"
    )


def parts_tables() -> Iterator[Table]:
    """Every method, part and model with defaults and references."""
    methods = Table("method", *PART_KINDS, title="methods: any part of a recipe can be replaced")
    for name, recipe in known("method").items():
        made = recipe()
        methods.add_row(name, *(getattr(made, kind).name for kind in PART_KINDS))
    yield methods
    for kind in PART_KINDS:
        table = Table(kind, "what it does", "defaults", "reference")
        for name, part in known(kind).items():
            defaults = ", ".join(f"{f.name} = {f.default!r}" for f in fields(part))  # type: ignore[arg-type]
            table.add_row(name, _first_line(part), defaults, getattr(part, "reference", ""))
        yield table
    models = Table("model", "what it is")
    for name, model in known("model").items():
        models.add_row(name, _first_line(getattr(model, "func", model)))
    yield models


def _first_line(thing: Any) -> str:
    return (getattr(thing, "__doc__", "") or "").split("\n")[0]


def data_table(directory: Path | None) -> Table:
    """Every dataset, and whether it is here."""
    root = data_directory(directory)
    table = Table("dataset", "samples", "classes", "shape", "here", "what it is", caption=f"data directory: {root}")
    table.columns[0].no_wrap = True
    for name, entry in CATALOG.items():
        shape = "x".join(str(side) for side in entry.shape)
        table.add_row(
            name,
            f"{entry.samples:,}",
            str(entry.classes),
            shape,
            "yes" if entry.here(root) else "no",
            entry.description,
        )
    return table


def verify_data(name: str | None, directory: Path | None, console: Console) -> None:
    """Print the state of each file; a damaged file, or a named dataset that is incomplete, is an error."""
    bad: list[str] = []
    for dataset in [name] if name else CATALOG:
        for status in verify(dataset, data_directory(directory)):
            line = f"{dataset}  {status.path}  {status.state}"
            console.print(line, highlight=False, markup=False, soft_wrap=True)
            if status.state == "damaged" or (name and status.state == "missing"):
                bad.append(str(status.path))
    if bad:
        raise DataError(f"not intact: {', '.join(bad)}; get them anew with 'entrofed data fetch'")
