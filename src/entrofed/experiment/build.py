"""What an experiment file stands for: its data dealt out, its model built, its rules, what the server knows."""

import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from entrofed.client.augment import NEED_COLOUR
from entrofed.core.params import Layout, Params
from entrofed.core.seeds import stream, torch_stream
from entrofed.core.tasks import Rules
from entrofed.core.types import LABEL_COUNTS, LABEL_SUMMARY, VALIDATION, Ledger, Method
from entrofed.data.federation import Federation, federate
from entrofed.errors import ConfigError
from entrofed.experiment.config import Experiment
from entrofed.experiment.run_folder import RunFolder
from entrofed.models.networks import MODELS
from entrofed.models.networks import build as build_model
from entrofed.privacy.counts import Release, checked_counts, release
from entrofed.registry import find

if TYPE_CHECKING:
    from entrofed.core.gossip import Network


@dataclass(frozen=True)
class Setup:
    """What an experiment file stands for, with the data at hand."""

    federation: Federation
    build: Callable[[], torch.nn.Module]
    layout: Layout
    params: Params
    """The model before the first round."""
    network: "Network | None" = None
    """The peers' connections, where there is no server."""


def compiler() -> tuple[str, bool]:
    """The C++ compiler that torch would call, and whether it is there."""
    name = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return name, shutil.which(name) is not None


def prepare(experiment: Experiment, data_directory: Path | None = None) -> Setup:
    """Load and deal out the data, build the model, and check that method, model and data go together."""
    called, there = compiler()
    if experiment.engine.compile and experiment.engine.backend in ("inline", "processes") and not there:
        raise ConfigError(
            f"engine.compile = true needs a C++ compiler, and there is no {called!r}; install one, name another in the "
            "environment variable CXX, or leave engine.compile out"
        )
    federation = federate(experiment.data, experiment.seed, data_directory)
    data = federation.data
    for name in experiment.method.augment:
        if data.kind != "image":
            raise ConfigError(f"method.augment: {name!r} is for images, and {data.name!r} holds none; leave it out")
        if name in NEED_COLOUR and data.train_x.shape[1] != 3:
            raise ConfigError(f"method.augment: {name!r} is for colour images, and those of {data.name!r} are gray")
    if VALIDATION in experiment.method.recipe().needs and not data.validation_size:
        raise ConfigError(
            f"method {experiment.method.name!r} weighs by predictions on a validation set, and {data.name!r} has none; "
            "let the server keep a share of the training data, for example data.validation = 0.1"
        )
    spec = {"name": experiment.model} if isinstance(experiment.model, str) else dict(experiment.model)
    name = spec.pop("name")
    known = partial(build_model, name) if name in MODELS else find("model", name)
    build = partial(known, data.train_x.shape[1:], len(data.classes), **spec)
    method = experiment.method.recipe()
    wrapped = method.server.wrap(build)
    with torch_stream(experiment.seed, "init"):
        model = wrapped()
    method.objective.check(model)
    layout = Layout.of(model)
    return Setup(federation, wrapped, layout, layout.read(model), _network(experiment, len(federation.shards)))


def _network(experiment: Experiment, nodes: int) -> "Network | None":
    section = experiment.topology
    if section is None:
        return None
    from entrofed.core.gossip import Network
    from entrofed.core.graphs import build_graph

    graph = build_graph(section.kind, nodes, stream(experiment.seed, "topology"), **section.options())
    return Network(graph, section.up, section.message_loss, section.split)


def rules_of(experiment: Experiment, federation: Federation) -> Rules:
    """What holds in every round."""
    section = experiment.method
    return Rules(
        seed=experiment.seed,
        rounds=experiment.rounds,
        cohort=section.cohort_size(len(federation.participants)),
        quorum=section.quorum,
        nonfinite=section.nonfinite,
        training=section.training(),
        lr_decay=section.lr_decay,
        evaluate_every=experiment.evaluate_every,
        evaluate_last=experiment.evaluate_last,
        alignment_every=experiment.alignment_every,
        faults=experiment.faults.faults(),
        sizes_from_counts=experiment.privacy is not None and experiment.privacy.sizes,
    )


def release_once(experiment: Experiment, federation: Federation, method: Method, folder: RunFolder) -> Release | None:
    """The label counts that the clients release, or summarize and release, if the method needs any.

    Noised counts are kept with the run from the moment they are drawn: to draw them again would spend the budget again.
    """
    if not {LABEL_COUNTS, LABEL_SUMMARY} & method.needs:
        return None
    claimed = experiment.faults.faults().claimed(experiment.seed, federation.label_counts)
    counts = checked_counts(claimed, len(federation.data.classes))
    privacy = experiment.privacy
    if privacy is None:
        return Release(counts.astype(np.float64), {})
    before = folder.released()
    if before is not None and before.counts.shape == counts.shape:
        return before
    rng = stream(experiment.seed, "privacy") if privacy.simulate else None
    fresh = release(counts, privacy.epsilon, privacy.neighbours, rng)
    folder.keep_release(fresh)
    return fresh


def open_ledger(experiment: Experiment, setup: Setup, method: Method, released: Release | None) -> Ledger:
    """What the server knows before the first round."""
    counts = released.counts if released is not None else None
    summaries = None
    if counts is not None and LABEL_SUMMARY in method.needs:
        taking_part = np.isin(np.arange(len(counts)), setup.federation.participants)
        summaries = tuple(method.weigher.summary(row) for row in counts * taking_part[:, None])
    return Ledger(
        sizes=setup.federation.sizes,
        classes=len(setup.federation.data.classes),
        partition=experiment.data.partition,
        trainable=setup.layout.trainable,
        label_counts=counts if LABEL_COUNTS in method.needs else None,
        summaries=summaries,
    )
