"""What was run: configurations, where they differ, and on which machine."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from entrofed.charts.report import SLOTS
from entrofed.experiment.config import to_toml
from entrofed.experiment.toml import flat
from entrofed.report.blocks import Block, Grid, Section, Source, Sources, Words
from entrofed.report.collect import Group, Run


def setup(groups: Sequence[Group]) -> Section:
    """The experiment files and environments."""
    blocks: list[Block] = []
    if len(groups) > 1:
        keys, lines = differences([(group.name, group.first.experiment.decisive()) for group in groups])
        if keys:
            caption = "Settings that are not the same in all experiments (first seeds); all others are."
            blocks.append(Grid(["Experiment", *keys], lines, caption))
        else:
            blocks.append(Words("All experiments have the same settings."))
    texts = [Source(f"experiment.toml of {group.name}", to_toml(group.first.experiment)) for group in groups]
    blocks += texts if len(texts) <= SLOTS else [Sources(f"All {len(texts)} experiment files", texts)]
    where: dict[str, list[Run]] = {}
    for group in groups:
        for run in group.runs:
            where.setdefault(run.environment, []).append(run)
    for text, runs in where.items():
        label = "all runs" if len(where) == 1 else f"{runs[0].folder.label} and {len(runs) - 1} more"
        if text:
            blocks.append(Source(f"environment.json of {label}", text))
    return Section("setup", "Configuration", blocks)


def differences(settings: Sequence[tuple[str, Mapping[str, Any]]]) -> tuple[list[str], list[list[str]]]:
    """The keys whose values are not all the same, and a row of values for each name; a name's own key is left out.

    >>> differences([("a", {"lr": 0.1, "method": {"name": "x"}}), ("b", {"lr": 0.1, "method": {"name": "y"}})])
    (['method.name'], [['a', 'x'], ['b', 'y']])
    """
    tables = [(name, flat(table)) for name, table in settings]
    keys = dict.fromkeys(key for _, table in tables for key in table if key not in ("name", "seed"))
    found = [key for key in keys if len({_word(table.get(key)) for _, table in tables}) > 1]
    return found, [[name, *(_word(table.get(key)) for key in found)] for name, table in tables]


def _word(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
