"""What theory says about runs: the terms of the papers' bounds that can be computed, beside the gap that was measured.

Terms of the first seed of each experiment; never a bound, because its constants are not known.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from entrofed.charts.report import course_chart
from entrofed.info.bounds import InfoDivTerms, Sources
from entrofed.info.entropy import Floats
from entrofed.info.theorems import ASSUMPTIONS, ERRATA, READINGS
from entrofed.report import blocks
from entrofed.report.blocks import Block, Grid, Picture, Section, Sheets, Source, View, Words
from entrofed.report.collect import Group, Run
from entrofed.report.course import spread_out

TERMS = ("redundancy_gap", "weighted_entropy", "selected_cross_entropy", "effective_samples", "uncovered_by_cohort")
"""What is worth a picture round by round."""
ALIGNMENT = ("cosine", "error", "stretch")
ONCE = ("clients", "participants", "selected", "absent", "participation_factor", "selection_factor", "joint_entropy")
"""What hardly changes in a run."""


def diagnostics(groups: Sequence[Group], sheets: Sheets) -> Section | None:
    """Terms and measured gaps, with what the theorems assume and what is wrong with them."""
    terms = {group.name: found for group in groups if (found := _terms(group.first))}
    if not terms:
        return None
    columns: dict[str, list[Any]] = {"experiment": [], "round": []}
    gaps = {group.name: group.first.series["inside"] - group.first.series["accuracy"] for group in groups}
    aligned = {group.name: _alignment(group.first) for group in groups}
    for name, rounds in terms.items():
        kept = spread_out(np.array(sorted(rounds), np.int64))
        columns["experiment"] += [name] * len(kept)
        columns["round"] += kept.tolist()
        for key in TERMS:
            columns.setdefault(key, []).extend(float(getattr(rounds[k], key)) for k in kept.tolist())
        columns.setdefault("gap", []).extend(gaps[name][kept - 1].tolist())
        for key in ALIGNMENT:
            columns.setdefault(key, []).extend(aligned[name][key][kept - 1].tolist())
    known = {key: values for key, values in columns.items() if any(value == value for value in values)}
    known |= {f"{key}_{end}": known[key] for key in known.keys() - {"experiment", "round"} for end in ("low", "high")}
    data = str(sheets.add("diagnostics", known).name)
    views = [_view(data, known, key) for key in (*TERMS, "gap", *ALIGNMENT) if key in known]
    reading = (
        "Choose a term. Labels stand in for whole samples, and the first seed for all; what a term means is said below "
        "the picture. The gap that was measured, and the alignment, are there where a run measured them "
        "(data.holdout, alignment_every)."
    )
    warning = "These are terms of bounds, not bounds: the constants that the theorems need are not known."
    content: list[Block] = [
        Words(warning, notice=True),
        Picture("Terms of the bounds, round by round", reading, views),
        _once(terms),
        blocks.Sources("What the theorems assume, and what is wrong with them", [_assumptions(), _errata()]),
    ]
    return Section("diagnostics", "Theory as diagnosis", content)


def _terms(run: Run) -> dict[int, InfoDivTerms]:
    """The terms of every round that made a model, by its number from 1 on."""
    if run.experiment.topology is not None or not len(run.label_counts) or not len(run.weights.round):
        return {}
    facts = run.folder.federation_facts() or {}
    sources = Sources(run.label_counts, facts.get("participants", list(range(len(run.label_counts)))))
    found: dict[int, InfoDivTerms] = {}
    starts = np.flatnonzero(np.diff(run.weights.round, prepend=0))
    for start, stop in zip(starts, [*starts[1:], len(run.weights.round)], strict=True):
        shares, clients = run.weights.share[start:stop], run.weights.client[start:stop]
        if shares.sum() > 0 and run.label_counts[clients].sum(axis=1).all():
            found[int(run.weights.round[start])] = sources.terms(clients, shares / shares.sum())
    return found


def _alignment(run: Run) -> dict[str, Floats]:
    records = run.folder.records() if run.experiment.alignment_every else []
    found = {key: np.full(run.rounds, np.nan) for key in ALIGNMENT}
    for i, record in enumerate(records[: run.rounds]):
        for key in ALIGNMENT:
            value = getattr(record.alignment, key, None)
            found[key][i] = np.nan if value is None else value
    return found


GAP = ("accuracy in distribution less that on the test set", "share", "What the theorems are about, measured.")


def _view(data: str, columns: dict[str, list[Any]], key: str) -> View:
    name, unit, reading = READINGS.get(key, GAP)
    chart = course_chart(alt.NamedData(data), key, unit, ".3~g")
    rows: dict[str, list[float]] = {}
    for experiment, value in zip(columns["experiment"], columns[key], strict=True):
        if value == value:
            rows.setdefault(experiment, []).append(value)
    lines = [[experiment, f"{np.mean(values):.4g}", f"{values[-1]:.4g}"] for experiment, values in rows.items()]
    words = f"{name[0].upper()}{name[1:]}. {reading}"
    return View(chart, words, Grid(["Experiment", "Mean", "Last"], lines), name.split(",")[0])


def _once(terms: dict[str, dict[int, InfoDivTerms]]) -> Grid:
    rows = []
    for name, rounds in terms.items():
        last = rounds[max(rounds)]
        rows.append([name, *(f"{getattr(last, key):.4g}" for key in ONCE)])
    return Grid(["Experiment", *(READINGS[key][0] for key in ONCE)], rows, "What hardly changes in a run; last round.")


def _assumptions() -> Source:
    lines = [
        f"{', '.join(one.theorems)}: {one.says} {'Checked' if one.checkable else 'Not known'}: {one.how}"
        for one in ASSUMPTIONS
    ]
    return Source("Assumptions", "\n".join(lines))


def _errata() -> Source:
    return Source("Errata", "\n".join(f"{', '.join(e.theorems)}, {e.where} ({e.basis}): {e.says}" for e in ERRATA))
