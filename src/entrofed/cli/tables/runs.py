"""Runs: what ``entrofed ls`` and ``entrofed show`` print."""

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table
from rich.text import Text

from entrofed.cli.console import CONTROL
from entrofed.cli.tables.cells import NARROW, cell, sparkline
from entrofed.core.plugins import PART_KINDS
from entrofed.core.records import RoundRecord
from entrofed.errors import EntrofedError
from entrofed.experiment.manifest import damaged_in
from entrofed.experiment.stored import StoredRun, find_stored
from entrofed.experiment.summary import asked_metrics, asked_of, diverged
from entrofed.suite.target import NOT_REACHED, to_target
from entrofed.suite.words import summary_words


def status_of(summary: Mapping[str, Any] | None) -> str:
    """How a run ended, in a word or two."""
    return "unfinished" if summary is None else "stopped early" if summary.get("stopped") else "finished"


def listed(*folders: Path) -> list[dict[str, Any]]:
    """All runs below folders, with how far they are; of a damaged one, where it is."""
    found: list[dict[str, Any]] = []
    for run in find_stored(list(folders)):
        entry: dict[str, Any] = {"run": run.label, "path": run.path, "status": "damaged"}
        found.append(entry)
        try:
            heading, summary, (rounds, last, best) = run.heading(), run.summary(), run.outcome()
        except EntrofedError:
            continue
        entry |= {
            "status": status_of(summary),
            "data": heading.data,
            "method": heading.method,
            "seed": heading.seed,
            "played": rounds,
            "rounds": heading.rounds,
            "accuracy": last,
            "best": best,
        }
    return found


def runs_table(runs: Iterable[Mapping[str, Any]], folder: Path) -> Table:
    """Runs below a folder as :func:`listed` has them; what is too long for its column goes on in the next line."""
    table = Table(*(Column(name, overflow="fold") for name in ("run", "data", "method", "rounds")), **NARROW)
    for name in ("accuracy", "best"):
        table.add_column(name, no_wrap=True)
    for run in runs:
        below = run["path"].relative_to(folder)
        played = [f"{run['played']}/{run['rounds']}"] if "rounds" in run else []
        table.add_row(
            escape(str(below) if len(below.parts) > 1 else run["run"]),
            *(cell(run.get(key)) for key in ("data", "method")),
            " ".join([*played, *([] if run["status"] == "finished" else [run["status"]])]),
            *(cell(run.get(key), ".4f") for key in ("accuracy", "best")),
        )
    return table


def run_facts(run: StoredRun, target: float | None = None) -> dict[str, Any]:
    """One run: setting, course, outcome; and what it took to reach a target accuracy."""
    records, summary = run.records(), run.summary()
    asked = {} if target is None else {"target": target, "reached": to_target(records, target)}
    return {
        "run": run.label,
        "path": run.path,
        "status": status_of(summary),
        "experiment": run.settings(),
        "method": run.method(),
        "records": [record.to_json() for record in records],
        "summary": summary,
        "damaged": damaged_in(run.path),
        **asked,
    }


def show_run(run: StoredRun, console: Console, target: float | None = None) -> None:
    """One run: setting, course, outcome; and what it took to reach a target accuracy."""
    heading, records, summary = run.heading(), run.records(), run.summary()
    setting = Table.grid(padding=(0, 2))
    setting.add_row("data", _plain(f"{heading.data}, {heading.partition}, seed {heading.seed}"))
    setting.add_row("model", _plain(heading.model))
    setting.add_row("method", _plain(method_words(run)))
    setting.add_row("rounds", f"{len(records)} of {heading.rounds}" + ("" if summary else " (unfinished)"))
    console.rule(escape(run.label))
    console.print(setting)
    for words in damaged_in(run.path):
        console.print(_plain(words), style="red", highlight=False, soft_wrap=True)
    if summary is None and records and (lost := diverged(records[-1])):
        console.print(_plain(lost), highlight=False, soft_wrap=True)
    tests = [(record, record.test) for record in records if record.test is not None]
    if not tests:
        return
    console.print("accuracy", sparkline([test.accuracy for _, test in tests]))
    table = Table(
        *("round", "cohort", "effective", "entropy", "train\nloss", "test\nloss", "accuracy", "macro\nF1", "refused"),
        **NARROW,
    )
    table.caption = "effective: 1 / sum of squared weights; entropy: of the cohort's pooled labels, in bits"
    some = tests if len(tests) <= 12 else [*tests[:: math.ceil(len(tests) / 11)], tests[-1]]
    shown = list({record.round: (record, test) for record, test in some}.values())
    for record, test in shown:
        table.add_row(
            str(record.round + 1),
            str(len(record.cohort)),
            f"{record.effective_cohort:.1f}",
            cell(record.cohort_entropy, ".3f"),
            *(cell(loss, ".4f" if loss is None or loss < 1e6 else ".2g") for loss in (record.train_loss, test.loss)),
            f"{test.accuracy:.4f}",
            cell(test.macro_f1, ".4f"),
            str(len(record.refused)),
        )
    console.print(table)
    if asked_of(records):
        console.print(_asked_table([record for record, _ in shown]))
    if summary is not None:
        console.print(
            f"accuracy {summary['accuracy']:.4f} (mean of last 10: {summary['accuracy_last_10']:.4f}, "
            f"best {summary['accuracy_best']:.4f}), {summary['bytes'] / 1e6:.1f} MB sent, {summary['seconds']:.1f} s"
            + (f", {virtual:,.1f} s on the virtual clock" if (virtual := summary.get("virtual_seconds")) else "")
        )
        if (ended := summary.get("at_end")) is not None:
            sent = f"{ended['bytes'] / 1e6:.1f} MB sent for it"
            console.print(f"the model made at the end: accuracy {ended['accuracy']:.4f}, {sent}")
        if summary.get("accuracy_id") is not None:
            console.print(f"in distribution, on the held-out data of the last cohort: {summary['accuracy_id']:.4f}")
        for words in summary_words(summary):
            console.print(_plain(words), highlight=False, soft_wrap=True)
    if target is not None:
        reached = to_target(records, target)
        console.print(f"accuracy {target:g}: {NOT_REACHED if reached is None else f'reached after {reached}'}")


def _plain(words: str) -> Text:
    """Text that is no markup, whatever it looks like."""
    return Text(words.translate(CONTROL))


def _asked_table(records: list[RoundRecord]) -> Table:
    """The metrics that the experiment asks for, by round."""
    rows = [asked_metrics(asked_of([record])) for record in records]
    names = list(dict.fromkeys(name for row in rows for name in row))
    table = Table("round", *(escape(name.partition("_")[2].replace("_", " ")) for name in names))
    table.caption = "on the test set; client accuracy: on what all participating clients hold out"
    for record, row in zip(records, rows, strict=True):
        table.add_row(str(record.round + 1), *(cell(row.get(name), ".4f") for name in names))
    return table


def method_words(run: StoredRun) -> str:
    """The method's name and its parts; of runs that have not stored these, the parts that the experiment file names."""
    heading = run.heading()
    parts = (run.method() or {}).get("parts")
    if isinstance(parts, Mapping):
        return f"{heading.method}: " + ", ".join(part_words(parts.get(kind)) for kind in PART_KINDS)
    given = ", ".join(f"{kind} {part_words(spec)}" for kind, spec in heading.parts.items())
    return f"{heading.method}: {given}" if given else heading.method


def part_words(spec: Any) -> str:
    """A part as it is stored: its name, and its hyperparameters, but for those that are None.

    >>> part_words({"name": "capped", "share": 0.6, "weigher": {"name": "data_size"}})
    'capped (share = 0.6, weigher = data_size)'
    """
    if not isinstance(spec, Mapping):
        return "?" if spec is None else str(spec)
    options = [f"{key} = {part_words(value)}" for key, value in spec.items() if key != "name" and value is not None]
    return f"{spec.get('name', '?')}" + (f" ({', '.join(options)})" if options else "")
