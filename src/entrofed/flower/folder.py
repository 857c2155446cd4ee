"""The folder of a deployed run, in the form of every run: ``ls``, ``show``, ``report`` and ``export`` read it."""

import json
import logging
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from entrofed.core.params import Layout
from entrofed.core.records import Metrics
from entrofed.core.types import LABEL_COUNTS, State
from entrofed.experiment.config import Experiment
from entrofed.experiment.manifest import write_listed
from entrofed.experiment.model_file import NAME, ModelFile
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.sections.method import MethodSection
from entrofed.experiment.sections.privacy import PrivacySection
from entrofed.experiment.summary import summarize
from entrofed.suite.words import file_name

log = logging.getLogger("flwr")

NAMED = ("macro_f1", "weighted_f1", "weighted_precision", "weighted_recall")


def experiment_of(
    folder: RunFolder, section: MethodSection, privacy: PrivacySection | None, *, seed: int, rounds: int, nodes: int
) -> Experiment:
    """What a strategy plays, as far as it knows: data and network are the app's own."""
    table = {
        "name": file_name(folder.path.resolve().name).lstrip("._+-") or "flower",
        "seed": seed,
        "rounds": rounds,
        "given": ["data", "model"],
        "model": "of-the-app",
        "data": {"name": "of-the-app", "partition": "natural", "clients": nodes},
        "method": section.model_dump(),
        "privacy": None if privacy is None else privacy.model_dump(),
        "engine": {"backend": "flower", "workers": 1},
    }
    return Experiment.model_validate(table, context={"stored": True})


def metrics_of(found: Mapping[str, Any] | None) -> Metrics | None:
    """What an app's evaluation found, in our terms; None without an accuracy, as a share of 1.

    Keys of other names (``eval_acc``, ``server-loss``) count if there is only one that ends so; the rest is ``extra``.

    >>> metrics_of({"eval_acc": 0.5, "loss": 1.25, "auc": 0.75})
    Metrics(loss=1.25, accuracy=0.5, macro_f1=None, weighted_f1=None, weighted_precision=None, weighted_recall=None,
            class_accuracy=[], extra={'auc': 0.75}, confusion=[])
    """
    values = {
        key.replace("-", "_"): float(value)
        for key, value in (found or {}).items()
        if isinstance(value, int | float) and isfinite(value)
    }
    accuracy, loss = _only(values, "accuracy", "acc"), _only(values, "loss")
    if accuracy is None or not 0 <= values[accuracy] <= 1:
        return None
    own: dict[str, Any] = {key: values[key] for key in NAMED if key in values}
    rest = {key: value for key, value in values.items() if key not in {accuracy, loss, "num_examples", *own}}
    return Metrics(loss=None if loss is None else values[loss], accuracy=values[accuracy], **own, extra=dict(rest))


def _only(values: Mapping[str, float], *names: str) -> str | None:
    """The key of one of these names, or the only one that ends with such a name."""
    for name in names:
        if name in values:
            return name
    alike = [key for key in values if key.endswith(tuple(f"_{name}" for name in names))]
    return alike[0] if len(alike) == 1 else None


def finish(folder: RunFolder, layout: Layout, state: State, names: Sequence[str], told: Mapping[str, Any]) -> None:
    """Write what is known after the last round: the model, who holds what, and, if models were tested, a summary."""
    tensors = {entry.name: entry.name for entry in layout.entries}
    ModelFile(folder.path / NAME, layout, tensors, {}).write(state, "the last; of a run on Flower")
    counts = told.get(LABEL_COUNTS, {})
    if counts and all(name in counts for name in names):
        rows = [counts[name] for name in names]
        content = {
            "classes": [str(label) for label in range(len(rows[0]))],
            "participants": list(range(len(rows))),
            "label_counts": rows,
        }
        write_listed(folder.path / "federation.json", json.dumps(content) + "\n")
    records = folder.records()
    if any(record.test is not None for record in records):
        folder.finish(summarize(records))
    else:
        log.info("no test accuracy is recorded: give start(..., evaluate_fn=...) a function that returns 'accuracy'")
