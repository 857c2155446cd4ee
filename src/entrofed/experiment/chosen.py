"""The metrics that an experiment asks for, ready to be computed."""

from collections.abc import Iterable, Mapping
from dataclasses import fields
from functools import partial
from typing import Any

from entrofed.client.metrics import CLIENT_ACCURACY, METRICS, Metric
from entrofed.core.records import Metrics
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, unknown
from entrofed.experiment.config import Experiment
from entrofed.registry.references import is_reference, load, reference_of

TAKEN = {*METRICS, CLIENT_ACCURACY, *(field.name for field in fields(Metrics))}
"""Names that a user's metric cannot have."""


def named(metrics: Iterable[str | Metric]) -> tuple[list[str], dict[str, Metric]]:
    """Metrics as an experiment names them, and of those that are functions, these by name.

    >>> named(["auroc", max])[0]
    ['auroc', 'builtins:max']
    """
    names: list[str] = []
    own: dict[str, Metric] = {}
    for metric in metrics:
        if not isinstance(metric, str) and not callable(metric):
            raise ConfigError(f"metric {metric!r}: a name or a function of (logits, labels) is expected")
        names.append(metric if isinstance(metric, str) else _reference(metric))
        if not isinstance(metric, str):
            own[names[-1]] = metric
    return names, own


def _reference(metric: Any) -> str:
    while isinstance(metric, partial):
        metric = metric.func
    return reference_of(metric if hasattr(metric, "__qualname__") else type(metric))


def chosen_metrics(
    experiment: Experiment, federation: Federation, own: Mapping[str, Metric] | None = None
) -> dict[str, Metric]:
    """By the name under which they are recorded, all but ``client_accuracy``, which is no function of logits.

    ``own`` are functions at hand, by their name in the experiment. To load others runs the code of their file.
    """
    data, found = federation.data, dict[str, Metric]()
    for name in experiment.metrics:
        if name == CLIENT_ACCURACY:
            if not federation.holdouts.sizes[federation.participants].any():
                raise ConfigError(
                    f"metric {name!r} is measured on data that clients hold out, and none does; "
                    "set for example data.holdout = 0.1"
                )
        elif name in METRICS:
            if name == "auroc" and len(data.classes) != 2:
                raise ConfigError(
                    f"metric 'auroc' is for two classes, and {data.name!r} has {len(data.classes)}; leave it out, "
                    "or take 'balanced_accuracy'"
                )
            found[name] = METRICS[name]
        else:
            short = name.rpartition(":")[2].rpartition(".")[2].strip("<>")
            if short in TAKEN or short in found:
                raise ConfigError(f"metric {name!r}: there is another metric called {short!r}; give it another name")
            found[short] = own[name] if own is not None and name in own else _loaded(name)
    return found


def _loaded(name: str) -> Metric:
    if not is_reference(name):
        raise unknown("metric", name, [*METRICS, CLIENT_ACCURACY])
    if not callable(found := load(name)):
        raise ConfigError(f"metric {name!r} is a {type(found).__name__}; a function of (logits, labels) is expected")
    metric: Metric = found
    return metric
