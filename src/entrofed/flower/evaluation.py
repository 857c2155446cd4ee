"""The mean of what clients found when they evaluated a model."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Message, MetricRecord

from entrofed.core.types import Failure
from entrofed.core.validation import MAX_EXAMPLES
from entrofed.flower.grid import MOST_BYTES, content_of
from entrofed.flower.wire import METRICS

log = logging.getLogger("entrofed")

EXAMPLES = "num-examples"


def mean_metrics(replies: Iterable[Message]) -> MetricRecord | None:
    """Each metric's mean, weighted by numbers of examples, over those who sent it; metrics that few sent are left out.

    A reply with a metric that is not a finite number, or without a number of examples, counts for nothing.
    """
    usable: list[Mapping[str, Any]] = []
    for reply in replies:
        content = content_of(reply, MOST_BYTES)
        metrics: Mapping[str, Any] = {} if isinstance(content, Failure) else content.metric_records.get(METRICS, {})
        if sound(metrics):
            usable.append(metrics)
        else:
            reason = content.reason if isinstance(content, Failure) else "its metrics cannot be averaged"
            log.warning("an evaluation of node %d is not used: %s", reply.metadata.src_node_id, reason)
    means: dict[str, Any] = {}
    for key in sorted({key for metrics in usable for key in metrics} - {EXAMPLES}):
        having = [metrics for metrics in usable if key in metrics]
        if 2 * len(having) > len(usable):
            weights = np.array([metrics[EXAMPLES] for metrics in having], np.float64)
            means[key] = float(weights @ np.array([metrics[key] for metrics in having], np.float64) / weights.sum())
    return MetricRecord(means) if means else None


def sound(metrics: Mapping[str, Any]) -> bool:
    """Whether the metrics of an evaluation can be averaged.

    >>> sound({"num-examples": 10, "loss": 0.5}), sound({"num-examples": -1, "loss": 0.5})
    (True, False)
    """
    examples = metrics.get(EXAMPLES)
    if not isinstance(examples, int | float) or not 0 < examples <= MAX_EXAMPLES:
        return False
    return all(isinstance(value, int | float) and np.isfinite(value) for value in metrics.values())
