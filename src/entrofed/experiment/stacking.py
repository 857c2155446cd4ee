"""Whether the clients of an experiment train together: ``engine.stack``."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from entrofed.backends import FLOWER
from entrofed.backends.stacked import StackedBackend
from entrofed.client.stacked.forms import Form, form_of
from entrofed.core.parts import Objective
from entrofed.data.federation import Federation
from entrofed.experiment.config import Experiment

LARGEST = 2**20
"""Parameters times samples of a batch up to which ``auto`` stacks; see ``benchmarks/stacked.py``."""
SMALLEST_COHORT = 4


@dataclass(frozen=True)
class Stacking:
    """How clients train together; not at all where there is no form, for the reason given."""

    form: Form | None = None
    why: str = ""

    def record(self, backend: StackedBackend | None) -> dict[str, Any]:
        """What a summary says of it."""
        apart = {} if backend is None else {"one_by_one": dict(backend.apart)} if backend.apart else {}
        return {"form": self.form, **({"why": self.why} if self.why else {}), **apart}


def stacking_of(
    experiment: Experiment, model: torch.nn.Module, objective: Objective, federation: Federation
) -> Stacking:
    """What ``engine.stack`` comes to: a pure function of the experiment and its data."""
    asked = experiment.engine.stack
    if asked is False:
        return Stacking(None, "engine.stack = false")
    if experiment.engine.backend == FLOWER:
        return Stacking(None, "on Flower every client trains by itself")
    sample = tuple(federation.data.train_x.shape[1:])
    form, why = form_of(model, objective, sample)
    if asked is True:
        return Stacking(form, why)
    if form != "chain":
        return Stacking(None, why)
    cohort = experiment.method.cohort_size(len(federation.participants))
    if experiment.topology is not None:
        cohort = len(federation.shards)
    if cohort < SMALLEST_COHORT:
        return Stacking(None, f"cohorts of {cohort} are below {SMALLEST_COHORT}")
    batch = min(experiment.method.batch_size, int(np.median(federation.sizes[federation.participants])))
    work = sum(parameter.numel() for parameter in model.parameters()) * max(batch, 1)
    if work > LARGEST:
        return Stacking(None, f"{work} parameters times samples of a batch are above {LARGEST}")
    return Stacking("chain")
