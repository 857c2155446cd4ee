"""The numbers of a round by name, for trackers and exports."""

import math
from collections.abc import Iterator
from typing import Any

from entrofed.core.records import RoundRecord

METRICS = ("loss", "accuracy", "macro_f1", "weighted_f1", "weighted_precision", "weighted_recall")
ALIGNMENT = ("error", "cosine", "step", "gradient", "stretch")
PHASES = ("select", "train", "admit", "weigh", "aggregate", "evaluate", "clients")

WHOLE = ("available", "cohort_size", "refused", "bytes_up", "bytes_down")
"""Numbers of a round that are whole; ``skipped`` is true or false, all others are real."""

PATHS: tuple[tuple[str, ...], ...] = (
    ("lr",),
    ("available",),
    ("cohort_size",),
    ("cohort_entropy",),
    ("effective_cohort",),
    ("refused",),
    ("skipped",),
    ("train_loss",),
    *(("test", metric) for metric in METRICS),
    *(("id", metric) for metric in METRICS),
    ("bytes_up",),
    ("bytes_down",),
    ("consensus",),
    ("spectral_gap",),
    *(("alignment", metric) for metric in ALIGNMENT),
    *(("seconds", phase) for phase in PHASES),
)
"""What is exported of a round, by its path in the line of ``metrics.jsonl``; numbers of lists are their lengths."""


def number(value: Any) -> int | float | bool | None:
    """The value if it is a finite number, else nothing.

    >>> number(2), number(float("nan")), number("2")
    (2, None, None)
    """
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def numbers(record: RoundRecord, separator: str) -> dict[str, int | float | bool | None]:
    """The numbers of a round by name: all of :data:`PATHS`, None where the record has no finite number, and then those
    that an experiment has to ask for.

    >>> found = numbers(RoundRecord(0, cohort=[4, 7], train_loss=0.5), "/")
    >>> found["cohort_size"], found["train_loss"], found["test/loss"]
    (2, 0.5, None)
    """
    groups: dict[str, Any] = {"test": record.test, "id": record.in_distribution, "alignment": record.alignment}
    counted = {"cohort_size": len(record.cohort), "refused": len(record.refused)}
    found: dict[str, int | float | bool | None] = {}
    for path in PATHS:
        match path:
            case ("seconds", phase):
                value: Any = record.seconds.get(phase)
            case (group, name):
                value = getattr(groups[group], name, None)
            case (name,):
                value = counted[name] if name in counted else getattr(record, name)
        found[separator.join(path)] = number(value)
    return found | {separator.join(path): number(value) for path, value in _asked_for(record)}


def _asked_for(record: RoundRecord) -> Iterator[tuple[tuple[str, ...], float | None]]:
    for group, found in (("test", record.test), ("id", record.in_distribution)):
        if found is not None:
            yield from (((group, name), value) for name, value in found.extra.items())
    if record.judged is not None:
        yield ("judged",), record.judged
    if record.virtual_seconds is not None:
        yield ("virtual_seconds",), record.virtual_seconds


def scalars(record: RoundRecord) -> dict[str, float]:
    """The numbers that a round has, named such as ``test/accuracy``."""
    return {name: float(value) for name, value in numbers(record, "/").items() if value is not None}
