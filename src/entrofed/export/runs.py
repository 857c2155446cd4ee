"""What all formats take from a run: its label, its settings, its figures by round."""

import json
import math
from typing import Any

from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import Record
from entrofed.experiment.toml import flat

FIGURES = ("loss", "accuracy", "macro_f1", "weighted_f1", "weighted_precision", "weighted_recall")
ALIGNMENT = ("error", "cosine", "step", "gradient", "stretch")
PHASES = ("select", "train", "admit", "weigh", "aggregate", "evaluate", "clients")

WHOLE = ("available", "cohort_size", "refused", "bytes_up", "bytes_down")
"""Figures of a round that are whole numbers; ``skipped`` is true or false, all others are real numbers."""

PATHS: tuple[tuple[str, ...], ...] = (
    ("lr",),
    ("available",),
    ("cohort_size",),
    ("cohort_entropy",),
    ("effective_cohort",),
    ("refused",),
    ("skipped",),
    ("train_loss",),
    *(("test", figure) for figure in FIGURES),
    *(("id", figure) for figure in FIGURES),
    ("bytes_up",),
    ("bytes_down",),
    ("consensus",),
    ("spectral_gap",),
    *(("alignment", figure) for figure in ALIGNMENT),
    *(("seconds", phase) for phase in PHASES),
)
"""Where the figures of a round lie in its record."""


def label(experiment: Experiment) -> str:
    """How a run is called wherever it is exported to."""
    return f"{experiment.name}/seed-{experiment.seed}"


def number(value: Any) -> int | float | bool | None:
    """The value if it is a finite number, else nothing.

    >>> number(2), number(float("nan")), number("2")
    (2, None, None)
    """
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def figures(record: Record, separator: str) -> dict[str, int | float | bool | None]:
    """The figures of a round by name, all of :data:`PATHS`; None where the record has no finite number.

    >>> found = figures({"round": 0, "cohort": [4, 7], "test": {"loss": 0.5}, "id": None}, "/")
    >>> found["cohort_size"], found["test/loss"], found["id/loss"]
    (2, 0.5, None)
    """
    counted = {**record, "cohort_size": len(record.get("cohort", ())), "refused": len(record.get("refused", ()))}
    found: dict[str, int | float | bool | None] = {}
    for path in PATHS:
        value: Any = counted
        for step in path:
            value = (value or {}).get(step)
        found[separator.join(path)] = number(value)
    return found


def scalars(record: Record) -> dict[str, float]:
    """The figures that a round has, named such as ``test/accuracy``."""
    return {name: float(value) for name, value in figures(record, "/").items() if value is not None}


def settings(experiment: Experiment) -> dict[str, str | int | float | bool]:
    """The resolved configuration without tables in tables; lists become JSON, what is not set is left out.

    >>> settings(Experiment(name="x"))["data.clients"]
    10
    """
    table = flat(experiment.model_dump(mode="json", exclude_none=True))
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in table.items()}
