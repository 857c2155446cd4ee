"""Stored results as a page of Markdown with pictures: what ``entrofed reproduce page`` writes."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import altair as alt

from entrofed.charts.results import results_chart
from entrofed.charts.save import save_chart
from entrofed.files import write_whole
from entrofed.papers.claims import judge_claims
from entrofed.papers.course import COURSE_HEAD, course_rows
from entrofed.papers.figures import dealt, dealt_words, drawn_from, figure, lacking, shortened, undrawn
from entrofed.papers.pooled import Pool, shown
from entrofed.papers.reported import METRICS, SPREADS, Figure, Paper, Table
from entrofed.papers.results import LAST, STEADY, Result
from entrofed.papers.tables import papers
from entrofed.papers.verdict import COLLAPSED, Verdict, longest
from entrofed.papers.words import (
    CLAIM,
    GAINS,
    POOLED,
    absent_words,
    claim_cells,
    family_words,
    from_to,
    gain_cells,
    lacking_words,
    line_cells,
    ordering_words,
    other_metrics,
    pooled_cells,
    rank_rows,
    sentences,
)
from entrofed.suite.blocks import Pooled


def write_page(results: list[Result], output: Path) -> list[Path]:
    """Write the page, and a picture for each table beside it."""
    images = output.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    played, results = results, with_shared(results)
    written, glance, told, lines = [], list[list[str]](), list[list[str]](), list[str]()
    for paper in papers().values():
        tables = [
            table for table in paper.tables.values() if any(r.table == f"{paper.name}/{table.id}" for r in results)
        ]
        for table in paper.tables.values():
            path = f"{paper.name}/{table.id}"
            linked = _link(path, table) if table in tables else path
            told += [[linked, *claim_cells(found, table)] for found in judge_claims(path, results)]
        if tables:
            lines += [
                "",
                f"## {paper.title}",
                "",
                f"{', '.join(paper.authors)}. {paper.venue}" + (f" ({paper.year})" if paper.year else ""),
            ]
        for table in tables:
            path = f"{paper.name}/{table.id}"
            pool = Pool(path, results)
            judged, pooled = pool.judged, pool.gains()
            picture = images / f"results-{path.replace('/', '-')}.svg"
            save_chart(_chart(judged), picture)
            written.append(picture)
            glance += _at_a_glance(path, table, judged, pooled)
            lines += _table(paper, pool, pooled, f"images/{picture.name}", results)
        for found in paper.figures if tables else ():
            if (drawn := figure(paper, found, results)) is not None:
                picture = images / f"{paper.name}-{found.id}.svg"
                save_chart(drawn, picture)
                written.append(picture)
                lines += ["", f"### {paper.name}/{found.id}: {found.caption}", "", _said(paper, found, results), ""]
                lines += [f"![{paper.name}/{found.id}: {found.caption}](images/{picture.name})"]
    head = [*_head(played), *table_lines(GLANCE, glance)]
    if told:
        head += ["", "## What is claimed", "", CLAIMS_WORDS, "", *table_lines(("table", *CLAIM), told)]
    if absent := undrawn(papers().values(), results):
        rows = [(f"{paper.name}/{found.id}", found.caption, played_by(paper, found)) for paper, found in absent]
        lines += ["", "## Figures that are not drawn yet", "", ABSENT_WORDS, ""]
        lines += table_lines(("figure", "what it shows", "played by"), rows)
    write_whole(output, "\n".join([*head, *lines]) + "\n")
    return [output, *written]


def _said(paper: Paper, found: Figure, results: Sequence[Result]) -> str:
    """What a figure is drawn from, and what it lacks."""
    if found.deal is not None:
        return f"The partition of the paper's figure, drawn again with its seed. {dealt_words(dealt(found.deal))}"
    many = sorted(Counter((run.cell, run.column) for run in drawn_from(paper, found, results)).values())
    seeds = "one seed" if many[-1] == 1 else f"{from_to(many)} seeds"
    words = "means, with the least and the greatest"
    if found.series == ("confusion",):
        words = "the matrices after the last round, added up"
    said = f"Drawn from the stored runs, {seeds}" + ("." if many[-1] == 1 else f": {words}.")
    if cut := shortened(paper, found, results):
        said += f" Of fewer rounds than the paper's: {'; '.join(cut)}."
    left = lacking(paper, found, results)
    return said + (f" Not run yet: {'; '.join(left)}." if left else "")


def played_by(paper: Paper, found: Figure) -> str:
    """The command that plays what a figure shows, as Markdown."""
    return f"`entrofed reproduce {paper.name}/{found.table}`"


ABSENT_WORDS = "Nothing is stored of what they show; no number stands in for it."
CLAIMS_WORDS = (
    "*holds*: the difference from every other column is shown, over the cells and seeds there are, which may be fewer "
    "than the claim is about (*cells*); *does not hold*: a difference the other way is shown, or none is, the interval "
    "has 0 in it and ends below half of the gain that the paper reports; else *undecided*, also where nothing was run "
    "yet, or with fewer than three seeds in a cell. Of a claim that names the least gain, the difference must reach "
    "it, and an interval that ends below it decides against. Differences are those of the claim's column less the "
    "other's, with their 95 % interval, and the paper's over the same cells; *better*, *worse* and *open* (no "
    "difference is shown) are by the t-test after Holm's correction over the columns that the claim is about, and for "
    "controls over these, so that an interval may lie beside 0 where the test leaves it open, and a column may be open "
    "in its table, where more pairs are corrected together. Cut runs that had not settled decide nothing."
)


def with_shared(results: list[Result]) -> list[Result]:
    """The results, and those that also stand in a cell of another table."""
    found = list(results)
    for paper in papers().values():
        for table in paper.tables.values():
            for cell in table.cells.values():
                found += [
                    replace(one, table=f"{paper.name}/{table.id}", cell=cell.id)
                    for one in list(found)  # a shared cell may be shared on
                    if f"{one.table}/{one.cell}" == cell.also and one.column in cell.columns
                ]
    return found


def _head(results: Sequence[Result]) -> Iterator[str]:
    versions = ", ".join(sorted({found.version for found in results}))
    yield "# Results"
    yield ""
    yield (
        f"{len(results)} runs of {sum(found.rounds for found in results):,} rounds, made with version {versions}; "
        "this page is written by `entrofed reproduce page` from the Parquet files beside it, which hold every round "
        "and the configuration of every run. "
        "`entrofed reproduce TABLE --cell CELL --seeds N` makes them again, with seeds 0 to N - 1 (that of a replay is "
        "fixed), where N is the number in column n."
    )
    yield ""
    yield (
        "Ours is the mean ± the sample standard deviation over n seeds, with the 95 % interval of the mean (t, within "
        "what the metric can be); *off* is ours less the paper's. Columns marked * are not in the paper: controls and "
        "variants of ours. Gains are differences between runs with the same seed, which share data, partition and "
        "first model; p is that of the paired t-test after Holm's correction over all cells of the table; *open*: no "
        "difference is shown. Pooled gains are over all cells of the table: the seeds of each cell give the error "
        "(blocked t-test), Wilcoxon's signed-rank test stands beside it; both after Holm over the table's pairs. "
        "Intervals are not corrected for how many there are: one may lie beside 0 while p leaves the pair open. Three "
        "seeds of one cell never show anything by Wilcoxon's test, whose p then is 0.25 at best, and rarely by the "
        "t-test: with few seeds and many pairs, open means too few runs rather than no difference. "
        "Variants and readings of the paper's own method are no rivals of each other."
    )
    yield ""
    yield (
        f"Runs for fewer rounds than the paper's are marked, and count for nothing unless they had settled: over the "
        f"last {LAST} evaluated rounds the standard deviation is at most {STEADY * 100:g} point, and so is the change "
        f"(slope of the least squares line, times {LAST}). A run is named if its last accuracy is below "
        f"{100 * COLLAPSED:.0f} % of its best, so that it collapsed, or of the median of the column's other seeds."
    )
    yield ""
    yield (
        "At a glance, over the cells below: how many of the paper's ordered pairs of columns come out in its order, on "
        "the seeds that both have; in how many comparisons the table's own method is ahead of another column, there "
        "and here; and for how many of the pooled ones a difference is shown."
    )
    yield ""


GLANCE = (
    "table",
    "its own",
    "cells",
    "seeds",
    "pairs in the paper's order",
    "ahead, in the paper",
    "here",
    "beside our controls",
)


def _at_a_glance(path: str, table: Table, judged: list[Verdict], pooled: Sequence[Pooled]) -> Iterator[list[str]]:
    """What a table comes to, in one line for each of its own columns (or readings of one)."""
    for own in table.own or ("",):
        column = table.told_as(own) or ""
        told = [
            numbers[column].value > numbers[other].value
            for numbers in (verdict.cell.values.get(verdict.metric, {}) for verdict in judged)
            for other in numbers
            if column in numbers and table.readings.get(other, (other,))[0] not in table.own
        ]
        mine = [verdict for verdict in judged if not own or any(line.column == own for line in verdict.lines)]
        if not mine:
            continue
        seeds = sorted({line.ours.n for verdict in mine for line in verdict.lines if not own or line.column == own})
        orderings = [verdict.orderings[own] for verdict in mine if own in verdict.orderings]
        pairs, held = sum(found.pairs for found in orderings), sum(found.held for found in orderings)
        yield [
            _link(path, table),
            own,
            str(len(mine)),
            f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else str(seeds[0]),
            f"{held} of {pairs}" if pairs else "",
            f"in {sum(told)} of {len(told)}" if told else "",
            _ahead(own, mine, pooled, [label for label in table.rivals(own) if label not in table.controls]),
            _ahead(own, mine, pooled, [label for label in table.rivals(own) if label in table.controls]),
        ]


def _ahead(own: str, judged: Sequence[Verdict], pooled: Sequence[Pooled], others: Sequence[str]) -> str:
    rows = [
        (verdict, row)
        for verdict in judged
        for row in verdict.gains
        if row.against == own and row.method in others and row.paired is not None
    ]
    if not rows:
        return ""
    settled = [row for verdict, row in rows if not {own, row.method} & verdict.unsettled]
    ahead = sum(row.paired is not None and row.paired.difference < 0 for row in settled)
    words = [f"in {ahead} of {len(settled)}"] if settled else []
    found = Counter(shown(row) for row in pooled if row.method == own and row.against in others)
    words += [f"shown over all cells: {found['better']} better, {found['worse']} worse"] if settled else []
    words += [f"{len(rows) - len(settled)} unsettled"] if len(settled) < len(rows) else []
    return "; ".join(words)


def _link(path: str, table: Table) -> str:
    return f"[{path}](#{_anchor(f'{path}: {table.caption}')})"


def _anchor(heading: str) -> str:
    """Where a heading's link points to."""
    return re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")


def _table(paper: Paper, pool: Pool, pooled: Sequence[Pooled], picture: str, results: list[Result]) -> Iterator[str]:
    table, judged = pool.table, pool.judged
    path, unit = f"{paper.name}/{table.id}", table.metrics[table.judged_by]
    yield from ["", f"### {path}: {table.caption}", ""]
    yield f"Judged by {METRICS[table.judged_by]}" + (f", gained over {table.gain_over}." if table.gain_over else ".")
    if table.spread:
        yield f"The paper's spread: {SPREADS[table.spread]}."
    for column, readings in table.readings.items():
        yield f"{column} can be read in {len(readings)} ways, each beside the paper's {column}: {', '.join(readings)}."
    said = sentences(table, judged, pooled, unit)
    yield from ["", *(f"- {sentence}" for sentence in (*said, absent_words(table, judged)) if sentence)]
    shown_are = "ours and the paper's" if any(verdict.cell.values for verdict in judged) else "ours"
    yield from ["", f"![{path}: {shown_are}]({picture})"]
    if pooled:
        yield from ["", *table_lines(POOLED, (pooled_cells(row, unit) for row in pooled))]
    if found := pool.ranks():
        rows, meaning = rank_rows(found)
        yield from ["", *table_lines(["column", "mean rank", "group"], rows), "", f"{meaning[0].upper()}{meaning[1:]}."]
    if family := family_words(table, judged):
        yield from ["", f"In the cells: {family[0].lower()}{family[1:]}"]
    for verdict in judged:
        yield from ["", f"#### {verdict.cell.id}", ""]
        yield from table_lines(
            ["column", f"ours, {verdict.unit}", "95 % interval", "n", "rounds", "paper", "off"],
            (line_cells(line, verdict.unit) for line in verdict.lines),
        )
        words = [*ordering_words(verdict), *verdict.warnings, *verdict.collapsed, *lacking_words(verdict)]
        yield from ["", *(f"- {word}" for word in words)]
        yield from ["", "<details><summary>In pairs, by other figures, and what it cost</summary>"]
        if verdict.gains:
            yield from ["", *table_lines(GAINS, (gain_cells(verdict, row) for row in verdict.gains))]
        head, rows = other_metrics(table, path, verdict.cell.id, results)
        if rows:
            yield from ["", "By other figures, ours (the paper's):", "", *table_lines(head, rows)]
        mine = [found for found in longest(results) if (found.table, found.cell) == (path, verdict.cell.id)]
        if rows := course_rows(mine, [line.column for line in verdict.lines]):
            yield from ["", "Who took part, and what it cost (means over rounds and seeds):", ""]
            yield from table_lines(COURSE_HEAD, rows)
        yield from ["", "</details>"]
    yield from ["", "<details><summary>What to know about this table</summary>", ""]
    yield from (f"- {note}" for note in table.notes)
    yield from ["", "</details>"]


def table_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table of Markdown."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', ' ') for cell in row)} |"


def _chart(judged: Sequence[Verdict]) -> alt.FacetChart:
    """Every cell of a table."""
    rows = [
        {
            "cell": verdict.cell.id,
            "column": line.column + ("*" if line.ours_only else ""),
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
    return results_chart(rows, cells, order, f"{METRICS[judged[0].metric].partition(';')[0]}, {judged[0].unit}")
