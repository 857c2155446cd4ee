"""The page: its sections, and how they become one file."""

from collections.abc import Iterator, Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import altair as alt
import vl_convert
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from entrofed.charts.report import DASHES, SLOTS, specification
from entrofed.errors import ConfigError
from entrofed.experiment.run_folder import RunFolder
from entrofed.files import write_whole
from entrofed.report.blocks import Facts, Grid, Picture, Section, Sheets, Source, Sources, View, Words
from entrofed.report.clients import diversity, participation, partition, weights
from entrofed.report.collect import Group, read_groups
from entrofed.report.costs import costs, refusals, reveals
from entrofed.report.course import shared_courses
from entrofed.report.diagnostics import diagnostics
from entrofed.report.lines import courses, inside_outside
from entrofed.report.peers import peers
from entrofed.report.results import by_accuracy, classes, overview, reference_of
from entrofed.report.setup import setup
from entrofed.suite.target import checked_target

PIXELS = 1500
"""Marks of a chart above which it is drawn as pixels, because as many shapes are slow."""
LEADING = 5
"""Of more experiments than there are colours, so many of the best are coloured at first, and the reference."""


def write_report(
    runs: list[RunFolder],
    output: Path,
    *,
    title: str | None = None,
    refresh: float | None = None,
    target: float | None = None,
) -> None:
    """Write the page of these runs, finished or not; with ``refresh`` it reloads itself every so many seconds.

    ``target``: also what it took to reach this test accuracy.
    """
    if not output.parent.is_dir():
        raise ConfigError(f"{output}: there is no folder {output.parent}; make it first")
    if refresh is not None and not refresh > 0:
        raise ConfigError(f"refresh = {refresh}, but must be a number of seconds above 0")
    if target is not None:
        checked_target(target)
    write_whole(output, page_text(read_groups(runs), title, refresh, target))


def page_text(
    groups: Sequence[Group], title: str | None = None, refresh: float | None = None, target: float | None = None
) -> str:
    """The whole page."""
    sheets = Sheets()
    sections = list(_sections(groups, sheets, target))
    pictures = [block for section in sections for block in section.blocks if isinstance(block, Picture)]
    data = {
        "sheets": sheets.columns,
        "pictures": [[_view(view) for view in picture.views] for picture in pictures],
        "experiments": [group.name for group in by_accuracy(groups)],
        "chosen": _chosen(groups),
        "slots": SLOTS,
        "dashes": DASHES,
        "refresh": refresh,
    }
    environment = Environment(
        loader=PackageLoader("entrofed.report", ""),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    environment.tests |= {
        kind.__name__.lower(): lambda block, kind=kind: isinstance(block, kind)
        for kind in (Facts, Grid, Picture, Source, Sources, Words)
    }
    return environment.get_template("template.html.j2").render(
        title=title or _title(groups),
        subtitle=_subtitle(groups),
        sections=sections,
        number=pictures.index,
        data=data,
        refresh=refresh,
        style=_file("style.css"),
        script=_file("page.js"),
        vega=_vega(),
    )


def _sections(groups: Sequence[Group], sheets: Sheets, target: float | None) -> Iterator[Section]:
    shared, ranked = shared_courses(groups, sheets), by_accuracy(groups)
    found = [
        overview(groups, sheets),
        courses(ranked, sheets, shared),
        classes(ranked, sheets),
        inside_outside(ranked, sheets, shared),
        peers(ranked, sheets, shared),
        weights(ranked, sheets),
        diversity(ranked, sheets, shared),
        participation(ranked, sheets),
        partition(ranked, sheets),
        costs(groups, sheets, shared, target),
        reveals(ranked),
        refusals(ranked, sheets),
        diagnostics(ranked, sheets),
        setup(ranked),
    ]
    yield from (section for section in found if section is not None)


def _view(view: View) -> dict[str, Any]:
    """A view for the page's script."""
    return {
        "label": view.label,
        "words": view.words,
        "spec": specification(view.chart),
        "renderer": "canvas" if view.cells > PIXELS else "svg",
        "table": {"head": view.table.head, "rows": view.table.rows, "caption": view.table.caption},
    }


def _chosen(groups: Sequence[Group]) -> list[str]:
    """The experiments that have a colour at first; few keep theirs however the ranking changes."""
    if len(groups) <= SLOTS:
        return [group.name for group in groups]
    return list(dict.fromkeys(group.name for group in [*by_accuracy(groups)[:LEADING], reference_of(groups)]))


def _title(groups: Sequence[Group]) -> str:
    return groups[0].name if len(groups) == 1 else f"{len(groups)} experiments compared"


def _subtitle(groups: Sequence[Group]) -> str:
    data = sorted({group.data.name for group in groups})
    methods = list(dict.fromkeys(group.first.experiment.method.name for group in groups))
    runs = [run for group in groups for run in group.runs]
    shown = ", ".join(methods[:6]) + (f" and {len(methods) - 6} more" if len(methods) > 6 else "")
    rounds = sum(run.rounds for run in runs)
    return f"{shown} on {', '.join(data)}: {len(runs)} run{'s' * (len(runs) > 1)}, {rounds:,} rounds"


def _file(name: str) -> Markup:
    return Markup(files("entrofed.report").joinpath(name).read_text(encoding="utf-8"))  # noqa: S704 (our own file)


@cache
def _vega() -> Markup:
    """Vega, Vega-Lite and Vega-Embed, in the version that the charts are made for."""
    version = ".".join(alt.VEGALITE_VERSION.split(".")[:2])
    bundle = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]
    return Markup(bundle.replace("</script", r"<\/script"))  # noqa: S704 (the library's own code)
