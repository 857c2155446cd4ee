"""The mean of what clients found when they evaluated a model."""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from flwr.app import Message, MetricRecord

from entrofed.core.types import Failure
from entrofed.core.validation import MOST_EXAMPLES
from entrofed.flower.grid import MOST_BYTES, content_of
from entrofed.flower.wire import METRICS

log = logging.getLogger("entrofed")

EXAMPLES = "num-examples"


def mean_figures(replies: Iterable[Message]) -> MetricRecord | None:
    """Each figure's mean, weighted by numbers of examples, over those who sent it; figures that few sent are left out.

    A reply with a figure that is not a finite number, or without a number of examples, counts for nothing.
    """
    usable: list[Mapping[str, Any]] = []
    for reply in replies:
        content = content_of(reply, MOST_BYTES)
        figures: Mapping[str, Any] = {} if isinstance(content, Failure) else content.metric_records.get(METRICS, {})
        if sound(figures):
            usable.append(figures)
        else:
            reason = content.reason if isinstance(content, Failure) else "its figures cannot be averaged"
            log.warning("an evaluation of node %d is not used: %s", reply.metadata.src_node_id, reason)
    means: dict[str, Any] = {}
    for key in sorted({key for figures in usable for key in figures} - {EXAMPLES}):
        having = [figures for figures in usable if key in figures]
        if 2 * len(having) > len(usable):
            weights = np.array([figures[EXAMPLES] for figures in having], np.float64)
            means[key] = float(weights @ np.array([figures[key] for figures in having], np.float64) / weights.sum())
    return MetricRecord(means) if means else None


def sound(figures: Mapping[str, Any]) -> bool:
    """Whether the figures of an evaluation can be averaged.

    >>> sound({"num-examples": 10, "loss": 0.5}), sound({"num-examples": -1, "loss": 0.5})
    (True, False)
    """
    examples = figures.get(EXAMPLES)
    if not isinstance(examples, int | float) or not 0 < examples <= MOST_EXAMPLES:
        return False
    return all(isinstance(value, int | float) and np.isfinite(value) for value in figures.values())
