"""Courses over the rounds: accuracy, losses, in and out of distribution."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from entrofed.charts.report import course_chart
from entrofed.report.blocks import Grid, Picture, Section, Sheets, View
from entrofed.report.collect import Group
from entrofed.report.results import asked_titles

OVER_SEEDS = ": the mean over its seeds, with a band from the lowest seed to the highest"
WIDE = 20.0
"""Largest by smallest value above which an axis is logarithmic."""


def courses(groups: Sequence[Group], sheets: Sheets, shared: str) -> Section | None:
    """Accuracy and losses over the rounds."""
    pictures = []
    shown = [
        ("accuracy", "Test accuracy", "Accuracy", ".0%"),
        ("loss", "Test loss", "Loss", ".3~g"),
        ("train_loss", "Training loss", "Loss", ".3~g"),
    ]
    for metric, title in asked_titles(groups).items():
        shown.append((metric, f"{title} ({'test' if metric.startswith('test_') else 'held-out data'})", title, ".3~g"))
    for metric, title, axis, form in shown:
        if metric not in sheets.columns[shared]:
            continue
        known = [value for value in sheets.columns[shared][f"{metric}_low"] if value is not None]
        logarithmic = axis == "Loss" and min(known) > 0 and max(known) > WIDE * min(known)
        reading = f"A line is an experiment{OVER_SEEDS if any(len(group.runs) > 1 for group in groups) else ''}."
        if metric == "train_loss":
            reading += " It is the clients' own loss while they train, averaged over the cohort."
        if logarithmic:
            reading += " The axis is logarithmic."
        view = course_view(groups, shared, metric, axis, form, logarithmic=logarithmic)
        pictures.append(Picture(title, reading, [view]))
    return Section("courses", "Course of training", pictures) if pictures else None


def course_view(
    groups: Sequence[Group],
    shared: str,
    metric: str,
    axis: str,
    form: str,
    *,
    label: str = "",
    dashed: str | None = None,
    logarithmic: bool = False,
    levels: Sequence[tuple[float, str]] = (),
) -> View:
    """A line chart of the shared courses with its table: the mean at the start, halfway and at the end."""
    names = [group.name for group in groups]
    chart = course_chart(
        alt.NamedData(shared), metric, axis, form, dashed=dashed, logarithmic=logarithmic, only=names, levels=levels
    )
    found: dict[str, list[float]] = {}
    for group in groups:
        series = [run.values(metric) for run in group.runs]
        known = [values for one in series if len(values := one[~np.isnan(one)])]
        if known:
            ends = ([values[0], values[(len(values) - 1) // 2], values[-1]] for values in known)
            found[group.name] = np.mean(list(ends), axis=0).tolist()
    exact = form.replace(".0%", ".2%").replace("~", "")
    lines = [[name, *(format(value, exact) for value in values)] for name, values in found.items()]
    ranked = sorted(found, key=lambda name: found[name][-1])
    named = ranked if len(ranked) <= 4 else [ranked[0], ranked[-1]]
    last = ", ".join(f"{name} {found[name][-1]:{exact}}" for name in named)
    words = f"{axis} at the end{'' if named is ranked else ', lowest and highest'}: {last}."
    words += "".join(f" Lines that lie on each other: {', '.join(same)}." for same in _alike(groups, metric))
    return View(chart, words, Grid(["Experiment", "First", "Halfway", "Last"], lines), label)


def _alike(groups: Sequence[Group], metric: str) -> list[list[str]]:
    """The names of experiments whose lines lie on each other."""
    found: dict[tuple[bytes, ...], list[str]] = {}
    for group in groups:
        series = [run.values(metric) for run in group.runs]
        if any((~np.isnan(one)).any() for one in series):
            found.setdefault(tuple(sorted(one.tobytes() for one in series)), []).append(group.name)
    return [names for names in found.values() if len(names) > 1]


def inside_outside(groups: Sequence[Group], sheets: Sheets, shared: str) -> Section | None:
    """Accuracy on the clients' own held-out data beside that on the test set."""
    if "inside" not in sheets.columns[shared]:
        return None
    known = [group for group in groups if any((run.series["inside"] >= 0).any() for run in group.runs)]
    inside = course_view(known, shared, "inside", "Accuracy", ".0%", dashed="accuracy")
    outside = {row[0]: row[-1] for row in course_view(known, shared, "accuracy", "Accuracy", ".0%").table.rows}
    lines = [[name, last, outside.get(name, "")] for name, *_, last in inside.table.rows]
    view = View(inside.chart, inside.words, Grid(["Experiment", "In distribution", "Test set"], lines, "At the end."))
    apart = any(group.data.participating is not None for group in known)
    reading = (
        "Solid: accuracy on data that the clients of the cohort hold back (in distribution); dashed: on the test set"
        + (", which also stands for clients that never take part (out of distribution)." if apart else ".")
    )
    return Section("inside", "In and out of distribution", [Picture("Held-out and test accuracy", reading, [view])])
