"""Stored results as a page of Markdown with pictures: what ``entrofed reproduce page`` writes."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import altair as alt

from entrofed.charts.results import results_chart
from entrofed.charts.save import save_chart
from entrofed.files import write_whole
from entrofed.papers.results import Result
from entrofed.papers.tables import METRICS, SPREADS, Paper, Table, papers
from entrofed.papers.verdict import Verdict, outcome, ranking, verdicts
from entrofed.papers.words import gain_cells, line_cells, ordering_words, other_metrics, rank_rows
from entrofed.suite.statistics import Row


def write_page(results: list[Result], output: Path) -> list[Path]:
    """Write the page, and a picture for each table beside it."""
    images = output.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    written, glance, lines = [], [], []
    for paper in papers().values():
        tables = [
            table for table in paper.tables.values() if any(r.table == f"{paper.name}/{table.id}" for r in results)
        ]
        if tables:
            lines += [
                "",
                f"## {paper.title}",
                "",
                f"{', '.join(paper.authors)}. {paper.venue or ''} {paper.year or ''}".strip(),
            ]
        for table in tables:
            path = f"{paper.name}/{table.id}"
            judged = verdicts(path, results, metrics=(table.judged_by,))
            picture = images / f"results-{path.replace('/', '-')}.svg"
            save_chart(_chart(judged), picture)
            written.append(picture)
            glance.append(_at_a_glance(path, table, judged))
            lines += _table(paper, table, judged, f"images/{picture.name}", results)
    write_whole(output, "\n".join([*_head(results), *_rows(GLANCE, glance), *lines]) + "\n")
    return [output, *written]


def _head(results: Sequence[Result]) -> Iterator[str]:
    versions = ", ".join(sorted({found.version for found in results}))
    yield "# Results"
    yield ""
    yield (
        f"{len(results)} runs of {sum(found.rounds for found in results):,} rounds, made with version {versions}; "
        "this page is written by `entrofed reproduce page` from the Parquet files beside it, which hold every round "
        "and the configuration of every run. "
        "`entrofed reproduce TABLE --cell CELL` makes them again."
    )
    yield ""
    yield (
        "Ours is the mean ± the sample standard deviation over n seeds, with the 95 % interval of the mean (t); "
        "*off* is ours less the paper's. Columns marked * are not in the paper: controls and variants of ours. Gains "
        "are differences between runs with the same seed, which share data, partition and first model; p is that of "
        "the paired t-test after Holm's correction over the table's rows; *open*: no difference is shown."
    )
    yield ""
    yield (
        "At a glance, over the cells below: how many of the paper's ordered pairs of columns come out in its order; in "
        "how many comparisons the paper's own method is ahead of another column, there and here; and for how many a "
        "difference is shown (three seeds show only large ones, one seed shows none)."
    )
    yield ""


GLANCE = (
    "table",
    "cells",
    "seeds",
    "pairs in the paper's order",
    "its method, in the paper",
    "here",
    "beside our controls",
)


def _at_a_glance(path: str, table: Table, judged: list[Verdict]) -> list[str]:
    """What a table comes to, in one line."""
    told = [
        (numbers[own].value > numbers[other].value)
        for numbers in (verdict.cell.values.get(verdict.metric, {}) for verdict in judged)
        for own in table.own
        for other in numbers
        if own in numbers and other not in table.own
    ]
    gains = [row for verdict in judged for row in verdict.gains if row.method not in table.own]
    seeds = sorted({line.ours.n for verdict in judged for line in verdict.lines})
    orderings = [verdict.ordering for verdict in judged if verdict.ordering is not None]
    pairs = sum(found.pairs for found in orderings)
    held = sum(found.held for found in orderings)
    return [
        f"[{path}](#{_anchor(f'{path}: {table.caption}')})",
        str(len(judged)),
        f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
        f"{held} of {pairs}" if pairs else "",
        f"ahead in {sum(told)} of {len(told)}" if told else "",
        _ahead([row for row in gains if row.method not in table.controls]),
        _ahead([row for row in gains if row.method in table.controls]),
    ]


def _ahead(gains: Sequence[Row]) -> str:
    differences = [row.paired.difference for row in gains if row.paired is not None]
    if not differences:
        return ""
    words = f"ahead in {sum(difference < 0 for difference in differences)} of {len(differences)}"
    shown = Counter(outcome(row) for row in gains)
    return f"{words}; shown: {shown['better']} better, {shown['worse']} worse"


def _anchor(heading: str) -> str:
    """Where a heading's link points to."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def _table(paper: Paper, table: Table, judged: list[Verdict], picture: str, results: list[Result]) -> Iterator[str]:
    path = f"{paper.name}/{table.id}"
    yield from ["", f"### {path}: {table.caption}", ""]
    yield f"Judged by {METRICS[table.judged_by]}" + (f", gained over {table.gain_over}." if table.gain_over else ".")
    if table.spread:
        yield f"The paper's spread: {SPREADS[table.spread]}."
    yield from ["", f"![{path}: ours and the paper's]({picture})"]
    if found := ranking(path, results):
        rows, meaning = rank_rows(found)
        yield from ["", *_rows(["column", "mean rank", "group"], rows), "", f"{meaning[0].upper()}{meaning[1:]}."]
    for verdict in judged:
        yield from ["", f"#### {verdict.cell.id}", ""]
        yield from _rows(
            ["column", f"ours, {verdict.unit}", "95 % interval", "n", "rounds", "paper", "off"],
            (line_cells(line, verdict.unit) for line in verdict.lines),
        )
        words = [ordering_words(verdict), *verdict.warnings]
        yield from ["", *(f"- {word}" for word in words if word)]
        if verdict.gains:
            head = ["gain of", "over", "n", "gain", "95 % interval", "won, lost", "p", ""]
            yield from ["", *_rows(head, (gain_cells(row, verdict.unit) for row in verdict.gains))]
        head, rows = other_metrics(table, path, verdict.cell.id, results)
        if rows:
            yield from ["", "By other figures, ours (the paper's):", "", *_rows(head, rows)]
    yield from ["", "<details><summary>What to know about this table</summary>", ""]
    yield from (f"- {note}" for note in table.notes)
    yield from ["", "</details>"]


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |"


def _chart(judged: Sequence[Verdict]) -> alt.FacetChart:
    """Every cell of a table."""
    rows = [
        {
            "cell": verdict.cell.id,
            "column": line.column + ("*" if line.control else ""),
            "ours": line.ours.mean,
            "low": line.ours.low,
            "high": line.ours.high,
            "paper": None if line.paper is None else line.paper.value,
        }
        for verdict in judged
        for line in verdict.lines
    ]
    shown = {row["column"] for row in rows}
    order = [name for label in judged[0].cell.columns for name in (label, f"{label}*") if name in shown]
    cells = [verdict.cell.id for verdict in judged]
    return results_chart(rows, cells, order, f"{judged[0].metric}, {judged[0].unit}")
