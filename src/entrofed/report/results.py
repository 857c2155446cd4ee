"""How the experiments came out: metrics, ranking, paired comparison, classes."""

from collections.abc import Iterator, Mapping, Sequence
from math import isnan
from statistics import stdev

import altair as alt
import numpy as np

from entrofed.charts.report import SLOTS, heat_chart, numbered, ranking_chart, rows
from entrofed.report.blocks import Block, Facts, Grid, Picture, Section, Sheets, View, Words
from entrofed.report.collect import Group
from entrofed.suite.statistics import Row, compare, few_seeds
from entrofed.suite.words import idle_words, p_value

LAST_10 = "accuracy_last_10"


def percent(value: float) -> str:
    """A share for a table; empty if there is none."""
    return "" if isnan(value) else f"{100 * value:.2f}"


def overview(groups: Sequence[Group], sheets: Sheets) -> Section:
    """What was compared, and what came out."""
    blocks: list[Block] = [Words(warning, notice=True) for warning in _warnings(groups)]
    ranked = [group for group in by_accuracy(groups) if group.values(LAST_10)]
    ranking = [_ranking(ranked, sheets)] if len(ranked) > 1 else []
    table = _table(groups) if len(groups) > 1 else Facts(list(_line(groups[0], asked_titles(groups)).items())[1:])
    blocks += [table, *ranking] if len(groups) <= SLOTS else [*ranking, table]
    blocks += _comparisons(groups, sheets)
    if stopped := [words for group in groups for words in _stopped(group)]:
        blocks.append(Words(f"Stopped early: {'; '.join(stopped[:5])}{'; and more' * (len(stopped) > 5)}."))
    return Section("overview", "Results", blocks)


def by_accuracy(groups: Sequence[Group]) -> list[Group]:
    """The best first; those without any metric last."""
    return sorted(groups, key=lambda group: -group.mean(LAST_10) if group.values(LAST_10) else 1.0)


def reference_of(groups: Sequence[Group]) -> Group:
    """What others are compared with: plain FedAvg if it is there, else the first."""
    by_name = (group for group in groups if group.name.lower() == "fedavg")
    by_method = (group for group in groups if group.first.experiment.method.name == "fedavg")
    return next(by_name, next(by_method, groups[0]))


def _warnings(groups: Sequence[Group]) -> Iterator[str]:
    runs = [run for group in groups for run in group.runs]
    under_way = [run for run in runs if not run.finished]
    if under_way:
        shown = ", ".join(
            f"{run.folder.label} ({run.rounds} of {run.experiment.rounds} rounds)" for run in under_way[:5]
        )
        more = f" and {len(under_way) - 5} more" if len(under_way) > 5 else ""
        yield f"Unfinished, shown as far as they are: {shown}{more}."
    if lost := [f"{run.folder.label}: {words}" for run in runs if (words := (run.summary or {}).get("diverged"))]:
        yield f"{'; '.join(lost[:5])}{'; and more' * (len(lost) > 5)}."
    fewest = min(len(group.runs) for group in groups)
    if warning := few_seeds(fewest):
        yield f"{'The result' if len(groups) == 1 else 'At least one result'} {warning}."
    if idle := [f"{group.name}: {words}" for group in groups for words in idle_words(group.first.summary or {})]:
        yield f"Never acted. {'; '.join(idle[:5])}{'; and more' * (len(idle) > 5)}."


def asked_titles(groups: Sequence[Group]) -> dict[str, str]:
    """The metrics that an experiment asks for, as they are called in summaries, with titles."""
    names = dict.fromkeys(n for g in groups for run in g.runs for n in run.series if n.startswith(("test_", "id_")))
    return {name: name.partition("_")[2].replace("_", " ").capitalize() for name in names}


def _stopped(group: Group) -> list[str]:
    """Why runs ended before their last round."""
    return [f"{run.folder.label} {words}" for run in group.runs if (words := (run.summary or {}).get("stopped"))]


def _spread(group: Group, metric: str) -> str:
    values = group.values(metric)
    if not values:
        return ""
    return percent(group.mean(metric)) + (f" ± {percent(stdev(values))}" if len(values) > 1 else "")


def _plain_spread(group: Group, metric: str) -> str:
    values = group.values(metric)
    spread = f" ± {stdev(values):.4f}" if len(values) > 1 else ""
    return f"{group.mean(metric):.4f}{spread}" if values else ""


def _table(groups: Sequence[Group]) -> Grid:
    asked = asked_titles(groups)
    lines = [_line(group, asked) for group in by_accuracy(groups)]
    caption = (
        "Mean ± sample standard deviation over seeds, the best mean of the last ten evaluations first. "
        "MB: both ways; seconds: on the server's clock."
    )
    same = {key: lines[0][key] for key in ("Data", "Seeds", "Rounds") if len({line[key] for line in lines}) == 1}
    left_out = set(same) | ({"Method"} if all(line["Method"] == line["Experiment"] for line in lines) else set())
    if same:
        caption += " The same for all: " + "; ".join(f"{key.lower()} {value}" for key, value in same.items()) + "."
    head = [key for key in lines[0] if key not in left_out]
    return Grid(head, [[line[key] for key in head] for line in lines], caption, sortable=True)


def _line(group: Group, asked: Mapping[str, str]) -> dict[str, str]:
    experiment, played = group.first.experiment, [run.rounds for run in group.runs]
    done = all(run.finished for run in group.runs)
    traffic = [float(run.series["traffic"][-1]) for run in group.runs if run.rounds]
    seconds = [sum(run.seconds.values()) for run in group.runs]
    return {
        "Experiment": group.name,
        "Method": experiment.method.name,
        "Data": data_words(group),
        "Seeds": str(len(group.runs)),
        "Rounds": str(max(played)) if done and not _stopped(group) else f"{min(played)} of {experiment.rounds}",
        **{title: _spread(group, metric) for title, metric in METRICS.items()},
        **{title: _plain_spread(group, metric) for metric, title in asked.items()},
        "Sent (MB)": f"{np.mean(traffic):,.1f}" if traffic else "",
        "Seconds": f"{np.mean(seconds):,.1f}",
    }


METRICS = {"Accuracy %": "accuracy", "Last 10 %": LAST_10, "Best %": "accuracy_best", "Macro F1 %": "macro_f1"}
"""Columns of the table of experiments, and what they are in a summary."""


def data_words(group: Group) -> str:
    """The data and how it was dealt out."""
    options = [f"{key} {value}" for key, value in group.data.partition_options().items() if key.startswith("alpha")]
    return ", ".join([f"{group.data.name} {group.data.partition}", *options])


def _ranking(ranked: Sequence[Group], sheets: Sheets) -> Picture:
    names, values = [group.name for group in ranked], [group.values(LAST_10) for group in ranked]
    means = [group.mean(LAST_10) for group in ranked]
    lows, highs = [min(of_seeds) for of_seeds in values], [max(of_seeds) for of_seeds in values]
    data = sheets.add("ranking", {"experiment": names, "mean": means, "low": lows, "high": highs})
    table = Grid(
        ["Experiment", "Mean %", "Least %", "Most %"],
        [[name, *map(percent, values)] for name, *values in zip(names, means, lows, highs, strict=True)],
    )
    words = f"{names[0]} leads with {percent(means[0])} %, {names[-1]} is last with {percent(means[-1])} %."
    return Picture(
        "Ranking",
        "A dot is the mean over seeds of the accuracy in the last ten evaluations; the bar goes from the worst seed to "
        "the best.",
        [View(ranking_chart(data, names, "Accuracy", ".0%"), words, table)],
    )


def _comparisons(groups: Sequence[Group], sheets: Sheets) -> list[Block]:
    """Paired comparisons within each set of experiments on the same data."""
    views, left = [], list(groups)
    while left:
        family = [group for group in left if group.data == left[0].data]
        left = [group for group in left if group not in family]
        accuracies = {
            group.name: {
                run.experiment.seed: run.summary[LAST_10] for run in group.runs if run.finished and run.summary
            }
            for group in family
        }
        found = [row for row in compare(accuracies, reference_of(family).name) if row.paired is not None]
        if found:
            views.append(_gains(found, data_words(family[0]), sheets))
    if not views:
        return []
    reading = (
        "Runs with the same seed, so on the same data in the same hands, are paired. A dot is the mean gain in the "
        "accuracy of the last ten evaluations, in points; the bar is its 95 % interval (t), and goes on where it "
        "reaches the edge. Where a bar crosses the dashed line, there may be no gain. The table has p of the paired "
        "t-test, corrected after Holm."
    )
    tables = [Grid(view.table.head, view.table.rows, view.words, sortable=True) for view in views]
    return [Picture("Against the reference", reading, views), *(table for table in tables if len(table.rows) <= SLOTS)]


def _gains(found: Sequence[Row], label: str, sheets: Sheets) -> View:
    pairs = sorted(((row, row.paired) for row in found if row.paired), key=lambda pair: -pair[1].difference)
    names, means, lows, highs = [row.method for row, _ in pairs], list[float](), list[float](), list[float]()
    lines = []
    for row, pair in pairs:
        low, high = pair.interval.low, pair.interval.high
        means.append(100 * pair.difference)
        lows.append(100 * (pair.difference if low is None else low))
        highs.append(100 * (pair.difference if high is None else high))
        lines.append(
            [
                row.method,
                str(pair.n),
                f"{means[-1]:+.2f}",
                "" if low is None else f"{lows[-1]:+.2f} to {highs[-1]:+.2f}",
                f"{pair.wins}, {pair.losses}",
                p_value(row.t_p_holm),
            ]
        )
    data = sheets.add("gains", {"experiment": names, "mean": means, "low": lows, "high": highs})
    most = 2 * max(map(abs, means)) or 1.0  # intervals over two seeds may be wider than anything
    ends = (min(max(min(lows), -most), 0.0) - most / 50, max(min(max(highs), most), 0.0) + most / 50)
    chart = ranking_chart(data, names, "Gain in points", "+.3~g", ends)
    tested = [row.t_p_holm for row, _ in pairs if row.t_p_holm is not None]
    sure = (
        f"p is below 0.05 for {sum(p < 0.05 for p in tested)} of {len(tested)}"
        if tested
        else "too few seeds for a test"
    )
    words = f"Against {pairs[0][0].against} ({label}): {sure}."
    table = Grid(["Experiment", "Seeds", "Gain", "95 % interval", "Won, lost", "p (Holm)"], lines)
    return View(chart, words, table, label)


def classes(groups: Sequence[Group], sheets: Sheets) -> Section | None:
    """Accuracy on each class at the end."""
    known = [group for group in by_accuracy(groups) if any(run.class_accuracy for run in group.runs)]
    views = []
    for names in dict.fromkeys(map(_class_names, known)):
        family = [group for group in known if _class_names(group) == names]
        means = [np.mean([run.class_accuracy for run in group.runs if run.class_accuracy], axis=0) for group in family]
        cells = [
            (group.name, name, float(v))
            for group, row in zip(family, means, strict=True)
            for name, v in zip(names, row, strict=True)
        ]
        experiment, label, accuracy = zip(*cells, strict=True)
        data = sheets.add("classes", {"experiment": experiment, "class": label, "accuracy": accuracy})
        tooltip = [
            alt.Tooltip("experiment:N", title="Experiment"),
            alt.Tooltip("class:N", title="Class"),
            alt.Tooltip("accuracy:Q", title="Accuracy", format=".2%"),
        ]
        color = alt.Color("accuracy:Q", title="Accuracy", scale=alt.Scale(domain=[0, 1])).legend(format=".0%")
        x = alt.X(**numbered("class", "Class", names))  # type: ignore[arg-type]
        chart = heat_chart(
            data, x, rows([group.name for group in family], grid=False), color, tooltip, 24 * len(family) + 10
        )
        overall = np.mean(means, axis=0)
        hard, easy = int(overall.argmin()), int(overall.argmax())
        words = (
            f"Hardest class on average: {names[hard]} ({percent(overall[hard])} %); "
            f"easiest: {names[easy]} ({percent(overall[easy])} %)."
        )
        table = Grid(
            ["Experiment", *names], [[g.name, *map(percent, row)] for g, row in zip(family, means, strict=True)]
        )
        views.append(View(chart, words, table, data_words(family[0]), len(cells)))
    if not views:
        return None
    reading = "A cell is the share of a class's test samples that the last model gets right, the mean over seeds."
    return Section("classes", "Accuracy by class", [Picture("At the last evaluation", reading, views)])


def _class_names(group: Group) -> tuple[str, ...]:
    count = max(len(run.class_accuracy) for run in group.runs)
    return tuple(group.first.classes) if len(group.first.classes) == count else tuple(map(str, range(count)))
