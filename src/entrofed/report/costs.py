"""What a run costs: traffic, time, what clients reveal, updates that came to nothing."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from entrofed.charts.report import refusals_chart, stacked_chart, tradeoff_chart
from entrofed.report.blocks import Block, Grid, Picture, Section, Sheets, View, Words
from entrofed.report.collect import Group
from entrofed.report.course import course, spread_out
from entrofed.report.lines import WIDE, course_view
from entrofed.report.results import LAST_10, by_accuracy, percent
from entrofed.report.targets import targets
from entrofed.suite.words import privacy_words

NOT_RECORDED = "not recorded: made before version 0.2"


def costs(groups: Sequence[Group], sheets: Sheets, shared: str, target: float | None = None) -> Section | None:
    """Bytes and seconds; also to a target accuracy."""
    played = [group for group in groups if any(run.rounds for run in group.runs)]
    if not played:
        return None
    ways = {"traffic": "both ways", "up": "from the clients", "down": "to the clients"}
    if not any(run.series["down"].any() for group in played for run in group.runs):
        ways = {"traffic": "between peers"}
    ranked = by_accuracy(played)
    views = [course_view(ranked, shared, metric, "MB", ",.3~f", label=label) for metric, label in ways.items()]
    reading = "Megabytes sent since the start, the mean over seeds: models, and what a method asks for besides."
    pictures: list[Block] = [Picture("Bytes sent", reading, views), _seconds(played, sheets)]
    if (clocked := _virtual(played)) is not None:
        pictures.append(clocked)
    known = [group for group in played if group.values(LAST_10) and any(run.series["up"].any() for run in group.runs)]
    if len(known) > 1:
        pictures.insert(0, _tradeoff(known, sheets))
    if (reached := targets(played, target)) is not None:
        pictures.insert(0, reached)
    return Section("costs", "Traffic and time", pictures)


def _tradeoff(groups: Sequence[Group], sheets: Sheets) -> Picture:
    traffic = [float(np.mean([run.series["traffic"][-1] for run in group.runs if run.rounds])) for group in groups]
    accuracy = [group.mean(LAST_10) for group in groups]
    names = [group.name for group in groups]
    data = sheets.add("tradeoff", {"experiment": names, "traffic": traffic, "accuracy": accuracy})
    logarithmic = max(traffic) > WIDE * min(traffic)
    ranked = sorted(zip(traffic, names, accuracy, strict=True))
    lines = [[name, f"{sent:,.1f}", percent(reached)] for sent, name, reached in ranked]
    best = max(ranked, key=lambda found: found[2])
    words = (
        f"Most accurate: {best[1]}, {percent(best[2])} % for {best[0]:,.1f} MB; "
        f"least sent: {lines[0][0]}, {lines[0][2]} % for {lines[0][1]} MB."
    )
    reading = (
        "A dot is an experiment: megabytes of a whole run, and accuracy in the last ten evaluations, means over seeds. "
        "Further up is better, further left is cheaper." + (" The axis of MB is logarithmic." if logarithmic else "")
    )
    table = Grid(["Experiment", "MB", "Accuracy %"], lines, "The cheapest first.")
    return Picture("Accuracy for the traffic", reading, [View(tradeoff_chart(data, logarithmic), words, table)])


def _seconds(groups: Sequence[Group], sheets: Sheets) -> Picture:
    phases = list(dict.fromkeys(phase for group in groups for run in group.runs for phase in run.seconds))
    means = {
        group.name: {phase: float(np.mean([run.seconds.get(phase, 0.0) for run in group.runs])) for phase in phases}
        for group in groups
    }
    ranked = sorted(means, key=lambda name: -sum(means[name].values()))
    columns: dict[str, list[Any]] = {
        "experiment": [name for name in ranked for _ in phases],
        "kind": phases * len(ranked),
        "order": list(range(len(phases))) * len(ranked),
        "amount": [means[name][phase] for name in ranked for phase in phases],
    }
    chart = stacked_chart(sheets.add("seconds", columns), ranked, phases, "Seconds")
    lines = [[name, *(f"{means[name][phase]:,.2f}" for phase in phases)] for name in ranked]
    words = f"{ranked[0]} took longest, {sum(means[ranked[0]].values()):,.1f} s."
    reading = "Seconds of a whole run by phase on the server's clock, the mean over seeds; the longest first."
    return Picture("Time by phase", reading, [View(chart, words, Grid(["Experiment", *phases], lines))])


def _virtual(groups: Sequence[Group]) -> Grid | None:
    """Time on the virtual clock; None where there is none."""
    lines = []
    for group in groups:
        runs = [run for run in group.runs if run.virtual is not None]
        whole = [run.virtual[-1] for run in runs if run.virtual]
        if whole:
            rounds = [float(np.median(np.diff([0.0, *(run.virtual or ())]))) for run in runs]
            lines.append([group.name, f"{np.mean(whole):,.1f}", f"{np.mean(rounds):,.2f}"])
    if not lines:
        return None
    caption = "What clients of the experiment's devices would have taken: means over seeds."
    return Grid(["Experiment", "Virtual seconds", "Median round"], lines, caption, sortable=True)


def reveals(groups: Sequence[Group]) -> Section:
    """What leaves the clients, and what that cost in privacy; experiments that reveal the same share a row."""
    alike: dict[tuple[str, str, str], list[str]] = {}
    for group in groups:
        found = group.first.reveals
        told = (found["once"], found["each_round"]) if found is not None else ([NOT_RECORDED], [NOT_RECORDED])
        once, each = ("; ".join(words) or "nothing" for words in told)
        privacy = group.first.experiment.privacy
        if privacy is not None and privacy.secure:
            each = f"under masks, so that the server gets the sum alone: {each}"
        spent = privacy_words(group.first.summary or {}).removeprefix("privacy: ") or "no noise"
        alike.setdefault((once, each, spent), []).append(group.name)
    to_whom = "its neighbours" if all(group.first.experiment.topology for group in groups) else "the server"
    lines = [[", ".join(names), *words] for words, names in alike.items()]
    blocks: list[Block] = [
        Words(f"Data stays with the clients. What a client lets {to_whom} know, as its method declares it:"),
        Grid(["Experiments", "Once", "In each round that it takes part in", "Privacy"], lines),
    ]
    return Section("reveals", "What leaves each client", blocks)


def refusals(groups: Sequence[Group], sheets: Sheets) -> Section | None:
    """Updates that were admitted and refused."""
    played = [group for group in groups if any(run.rounds for run in group.runs)]
    if not played:
        return None
    admitted = int(sum(run.series["admitted"].sum() for group in played for run in group.runs))
    reasons = {group.name: sum((run.reasons for run in group.runs), Counter[str]()) for group in played}
    refused = sum(sum(counts.values()) for counts in reasons.values())
    blocks: list[Block] = [Words(f"{admitted:,} updates were admitted, {refused:,} refused.")]
    views = [_refusals(group, sheets) for group in played if reasons[group.name]]
    if views:
        reading = "Updates of a round that could be used (admitted) and that could not (refused), the mean over seeds."
        blocks.append(Picture("Admitted and refused", reading, views))
        lines = [[name, reason, f"{n:,}"] for name, counts in reasons.items() for reason, n in counts.most_common(10)]
        blocks.append(Grid(["Experiment", "Reason", "Times"], lines, "All seeds together."))
    return Section("refusals", "Admitted and refused updates", blocks)


def _refusals(group: Group, sheets: Sheets) -> View:
    means = {kind: course([run.series[kind] for run in group.runs]).mean for kind in ("admitted", "refused")}
    kept = spread_out(np.arange(len(means["admitted"])))
    columns = {
        "round": (kept + 1).tolist() * 2,
        "kind": ["admitted"] * len(kept) + ["refused"] * len(kept),
        "updates": [*means["admitted"][kept].tolist(), *means["refused"][kept].tolist()],
    }
    chart = refusals_chart(sheets.add("refusals", columns), list(means))
    rounds = [[str(kept[i] + 1), *(f"{means[kind][kept[i]]:.1f}" for kind in means)] for i in range(0, len(kept), 20)]
    admitted, refused = (means[kind].mean() for kind in means)
    words = f"{group.name}: on average {admitted:.1f} admitted and {refused:.1f} refused per round."
    return View(chart, words, Grid(["Round", "Admitted", "Refused"], rounds), group.name)
