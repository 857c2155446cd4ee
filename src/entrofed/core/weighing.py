"""Weights that can be used whatever a weigher says."""

import logging
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from entrofed.core.types import Context, Update, Weigher, Weighing

log = logging.getLogger("entrofed")


def safe_weights(weigher: Weigher, updates: Sequence[Update], context: Context) -> Weighing:
    """The weigher's weights; where they are no weights at all, data-size weights, and a word about it."""
    weighing = weigher.weigh(updates, context)
    weights = np.asarray(weighing.weights, np.float64)
    usable = weights.shape == (len(updates),) and np.isfinite(weights).all() and (weights >= 0).all()
    if not usable or weights.sum() <= 0:
        log.warning("round %d: %s gave unusable weights %s: data size is used", context.round, weigher.name, weights)
        weights = np.array([update.num_examples for update in updates], np.float64)
    return replace(weighing, weights=weights / weights.sum())
