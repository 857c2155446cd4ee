"""What an experiment file stands for: its data dealt out, its model built, its rules, what the server knows."""

import logging
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from entrofed.backends import HERE
from entrofed.backends.base import Workload
from entrofed.client.augment import NEED_COLOUR
from entrofed.client.device import check_device
from entrofed.client.metrics import Metric
from entrofed.client.native import replace_blocks
from entrofed.core.gossip import first_state
from entrofed.core.job import Job, Network, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.parts import VALIDATION, LabelFact, Method
from entrofed.core.seeds import stream, torch_stream
from entrofed.core.types import LABEL_COUNTS, ClientTable, FactTable, PartState, State
from entrofed.data.catalog import load
from entrofed.data.dealing import Deal
from entrofed.data.federation import Federation, deal
from entrofed.errors import ConfigError, blamed
from entrofed.experiment.chosen import chosen_metrics
from entrofed.experiment.config import Experiment
from entrofed.experiment.judge import judged_on
from entrofed.experiment.network import OwnNetwork, builder
from entrofed.experiment.protection import Protection, protect
from entrofed.experiment.run_folder import RunFolder
from entrofed.experiment.sections.data import DataSection
from entrofed.experiment.stacking import Stacking, stacking_of
from entrofed.privacy.counts import Release, checked_counts, release
from entrofed.privacy.fixed_point import decode, encode
from entrofed.privacy.secure import Secure, unjudged
from entrofed.privacy.updates import check_layout
from entrofed.registry import completed

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class Setup:
    """What an experiment file stands for, with the data at hand."""

    experiment: Experiment
    method: Method
    federation: Federation
    build: Callable[[], torch.nn.Module]
    layout: Layout
    network: Network | None = None
    """The peers' connections, where there is no server."""
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    """What is measured besides accuracy, loss and F1, by name."""
    judged: str | None = None
    """The data that judges which model is the best; see :mod:`entrofed.experiment.judge`."""
    stacking: Stacking = field(default_factory=Stacking)
    """Whether clients train together."""

    @property
    def params(self) -> Params:
        """The model before the first round, built anew: who goes on from it need not keep it."""
        with torch_stream(self.experiment.seed, "init"):
            return self.layout.read(self.build())

    @property
    def workload(self) -> Workload:
        """What a backend is opened with."""
        engine = self.experiment.engine
        return Workload(
            self.federation,
            self.build,
            self.layout,
            engine.compile,
            engine.device,
            engine.precision,
            self.experiment.rounds,
        )


def compiler() -> tuple[str, bool]:
    """The C++ compiler that torch would call, and whether it is there."""
    name = os.environ.get("CXX", "clang++" if sys.platform == "darwin" else "g++")
    return name, shutil.which(name) is not None


def prepare(
    experiment: Experiment,
    data_directory: Path | None = None,
    *,
    federation: Federation | None = None,
    model: Any = None,
    method: Method | None = None,
    metrics: Mapping[str, Metric] | None = None,
) -> Setup:
    """Load and deal out the data, build the model, and check that method, model and data go together.

    Args:
        experiment: What is to be run.
        data_directory: Where datasets lie; None for the default.
        federation: In place of the data that the experiment names.
        model: In place of the experiment's: see :func:`~entrofed.experiment.network.builder`.
        method: In place of the experiment's.
        metrics: Functions at hand, by their names in the experiment; see :func:`~entrofed.experiment.chosen.named`.
    """
    handed = {"data": federation, "method": method, "model": model}
    if lacking := [what for what, thing in handed.items() if thing is None and experiment.was_given(what)]:
        raise ConfigError(
            f"the run was given its {' and '.join(lacking)} from Python, and a file cannot say it; continue it there: "
            "entrofed.run(..., resume=True)"
        )
    method = experiment.method.recipe if method is None else completed(method)
    try:
        experiment.check(method)
    except ValueError as error:
        raise ConfigError(str(error)) from None
    called, there = compiler()
    here = experiment.engine.backend in HERE
    if here:
        check_device(experiment.engine.device)
    if experiment.engine.compile and here and not there:
        raise ConfigError(
            f"engine.compile needs a C++ compiler, and there is no {called!r}; install one, name another in the "
            "environment variable CXX, or leave engine.compile out"
        )
    if federation is None:
        federation = federate(experiment.data, experiment.seed, data_directory)
    data = federation.data
    for name in experiment.method.augment:
        if data.kind != "image":
            raise ConfigError(f"method.augment: {name!r} is for images, and {data.name!r} holds none; leave it out")
        if name in NEED_COLOUR and data.train_x.shape[1] != 3:
            raise ConfigError(f"method.augment: {name!r} is for colour images, and those of {data.name!r} are gray")
    if VALIDATION in method.needs and not data.validation_size:
        raise ConfigError(
            f"method {experiment.method.name!r} weighs by predictions on a validation set, and {data.name!r} has none; "
            "let the server keep a share of the training data, for example data.validation = 0.1"
        )
    if "validation" in experiment.evaluate_on and not data.validation_size:
        raise ConfigError(
            f"evaluate_on names the validation set, and {data.name!r} has none; set for example data.validation = 0.1, "
            "or leave it out"
        )
    _check_cohort(experiment, method, len(federation.participants))
    network = builder(experiment.model if model is None else model, data)
    if isinstance(network, OwnNetwork):
        network = network.fitted(method.server.network, federation)
    build = method.server.network(network)
    with torch_stream(experiment.seed, "init"):
        first = build()
    method.objective.check(first)
    method.objective.check_classes(len(data.classes))
    layout = Layout.of(first)
    if experiment.privacy is not None and experiment.privacy.updates is not None:
        check_layout(layout)
    if experiment.engine.compile == "native" and here:
        replace_blocks(build(), data.train_x.shape[1:] if data.kind == "image" else ())
    return Setup(
        experiment,
        method,
        federation,
        build,
        layout,
        _peers(experiment, federation),
        chosen_metrics(experiment, federation, metrics),
        judged_on(experiment, federation),
        stacking_of(experiment, first, method.objective, federation),
    )


def _check_cohort(experiment: Experiment, method: Method, clients: int) -> None:
    """Raise a ConfigError if a cohort was asked for that is larger than the federation; the default is cut to it."""
    cohort, default = experiment.method.cohort, type(experiment.method).model_fields["cohort"].default
    if cohort in (default, clients) or experiment.topology is not None or method.selector.name == "full":
        return
    if isinstance(cohort, int) and cohort > clients:
        raise ConfigError(
            f"method.cohort = {cohort}, and {clients} clients take part; choose at most {clients}, or a share like 0.5"
        )


def federate(section: DataSection, seed: int, directory: Path | None = None) -> Federation:
    """Load the data and deal it out; the same seed deals the same way for every method."""
    if section.path is None:
        data = load(section.name, directory)
    else:
        from entrofed.data.files.load import load_path

        data = load_path(section.path, section.choice())
    how = Deal(
        section.partition,
        section.clients,
        section.partition_options(),
        section.holdout,
        section.validation,
        section.participating,
        section.normalize,
        seed,
    )
    return deal(data, how)


def _peers(experiment: Experiment, federation: Federation) -> Network | None:
    section = experiment.topology
    if section is None:
        return None
    from entrofed.core.topologies import build_graph

    rng = stream(experiment.seed, "topology")
    graph = build_graph(section.kind, len(federation.shards), rng, **section.options())
    labels = tuple(np.flatnonzero(row) for row in federation.label_counts)
    return Network(graph, section.up, section.message_loss, section.split, labels, section.training)


def rules_of(experiment: Experiment, clients: int) -> Rules:
    """What holds in every round of a run with so many clients."""
    section = experiment.method
    return Rules(
        rounds=experiment.rounds,
        cohort=section.cohort_size(clients),
        quorum=section.quorum,
        nonfinite=section.nonfinite,
        admission=section.admission,
        training=section.training(),
        lr_decay=section.lr_decay,
        schedule=section.schedule,
        evaluate_every=experiment.evaluate_every,
        evaluate_last=experiment.evaluate_last,
        alignment_every=experiment.alignment_every,
        faults=experiment.faults,
        clock=experiment.clock,
        released_sizes=experiment.privacy is not None and experiment.privacy.sizes,
    )


def release_once(setup: Setup, folder: RunFolder) -> Release | None:
    """The label counts that the clients release, or make something of and release, if the method asks for any.

    Noised counts are kept with the run and in the user's ledger (:mod:`entrofed.privacy.ledger`) from the moment they
    are drawn: to draw them again would spend again. Noise from the run's seed is no release, and in no ledger.
    """
    experiment, federation = setup.experiment, setup.federation
    if not setup.method.pools and not any(isinstance(fact, LabelFact) for fact in setup.method.facts):
        return None
    claimed = experiment.faults.claimed(experiment.seed, federation.label_counts)
    counts = checked_counts(claimed, len(federation.data.classes))
    privacy = experiment.privacy
    if privacy is None or privacy.epsilon is None:
        return Release(counts.astype(np.float64), {})
    before = folder.released()
    if before is not None and before.counts.shape == counts.shape:
        return before
    if privacy.simulate:
        fresh = release(counts, privacy.epsilon, privacy.neighbours, stream(experiment.seed, "privacy"))
    else:
        from entrofed.privacy.ledger import client_digests, release_listed  # a database

        data, name = federation.data, federation.data.name
        clients = client_digests((data.train_x, data.train_y), federation.shards, counts)
        fresh = release_listed(name, clients, counts, privacy.epsilon, privacy.neighbours, str(folder.path.absolute()))
        if fresh.spent["epsilon_before"]:
            words = "label counts of %r: epsilon %g was spent before, %g is with this run (%d clients draw new noise)"
            log.warning(words, name, fresh.spent["epsilon_before"], fresh.spent["epsilon_in_all"], fresh.spent["drawn"])
    folder.keep_release(fresh)
    return fresh


def pool_once(setup: Setup, released: Release | None) -> Setup:
    """The setup with a method that knows the label counts of all clients together, if it asks: the sum, nobody's alone.

    They are summed as clients on Flower sum them under masks, of whole numbers.
    """
    if not setup.method.pools or released is None:
        return setup
    total = np.zeros(released.counts.shape[1], np.uint64)
    for client in setup.federation.participants.tolist():
        total += encode(released.counts[client])
    return replace(setup, method=setup.method.pooled(decode(total)))


def client_table(setup: Setup, released: Release | None) -> ClientTable:
    """What the server knows before the first round; clients that never take part tell nothing."""
    federation, sizes = setup.federation, setup.federation.sizes
    facts: dict[str, FactTable] = {}
    if released is not None:
        taking_part = np.isin(np.arange(len(sizes)), federation.participants)
        for fact in setup.method.facts:
            if isinstance(fact, LabelFact):
                if fact.name == LABEL_COUNTS:
                    facts[fact.name] = released.counts * taking_part[:, None]
                    continue
                told = iter(fact.of_all(list(released.counts[taking_part])))
                facts[fact.name] = [next(told) if k else None for k in taking_part.tolist()]
        if setup.experiment.privacy is not None and setup.experiment.privacy.sizes:
            sizes = np.where(sizes > 0, np.maximum(np.rint(released.counts.sum(axis=1)), 1), 0).astype(np.int64)
    return ClientTable(
        sizes=sizes,
        classes=len(federation.data.classes),
        partition=federation.dealt,
        trainable=setup.layout.trainable,
        output_bias=setup.layout.output_bias(len(federation.data.classes)),
        rounds=setup.experiment.rounds,
        facts=facts,
        seconds=_round_seconds(setup),
        sized=True,
    )


def _round_seconds(setup: Setup) -> NDArray[np.float64] | None:
    """How long a round takes each client on the virtual clock: the model down, all epochs, the model up."""
    experiment, sizes, model = setup.experiment, setup.federation.sizes, setup.layout.nbytes
    if experiment.clock is None:
        return None
    devices, epochs = experiment.clock.drawn(experiment.seed, len(sizes)), experiment.method.epochs
    whole = [devices.seconds(k, samples=epochs * n, down=model, up=model) for k, n in enumerate(sizes.tolist())]
    return np.array(whole)


def job_of(setup: Setup, clients: ClientTable) -> Job:
    """What is the same in every round of the experiment; its updates are not protected yet."""
    participants = setup.federation.participants
    rules = rules_of(setup.experiment, len(participants))
    clock, seed = rules.clock, setup.experiment.seed
    devices = None if clock is None else clock.drawn(seed, len(clients.sizes))
    return Job(setup.method, rules, clients, participants, setup.layout, seed, network=setup.network, devices=devices)


def protected(setup: Setup, job: Job) -> tuple[Job, Protection | None]:
    """The job with a method whose updates are protected as the experiment asks, and what its rounds then cost."""
    privacy, rules = setup.experiment.privacy, job.rules
    if privacy is None or privacy.updates is None:
        if privacy is None or not privacy.secure:
            return job, None
        method = replace(job.method, server=Secure(job.method.server))
        return replace(job, method=method, rules=replace(rules, admission="off")), None
    protection = protect(
        privacy,
        job.method,
        job.clients,
        participants=len(job.participants),
        cohort=rules.cohort,
        rounds=rules.rounds,
        quorum=rules.quorum,
        peers=job.network is not None,
    )
    return replace(job, method=protection.method, rules=unjudged(rules)), protection


def check_protection(setup: Setup) -> None:
    """Raise a ConfigError if updates cannot be protected as the experiment asks, before any client is asked."""
    protected(setup, job_of(setup, client_table(setup, None)))


def first_state_of(job: Job, params: Params, client_states: Mapping[int, PartState]) -> State:
    """Where a run begins."""
    if job.network is not None:
        return State(0, params, {}, first_state(job, params), client_states)
    with blamed(f"selector {job.method.selector.name!r}"):
        selector = job.method.selector.init(job.clients, job.participants)
    with blamed(f"server rule {job.method.server.name!r}"):
        server = job.method.server.init(params, job.clients, job.participants)
    return State(0, params, selector, server, client_states)
