"""Private and secure rounds on a grid."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.serverapp import Grid

from entrofed.core.job import Job
from entrofed.core.parts import Method, TrainTask
from entrofed.core.round import RoundPlan, Train
from entrofed.core.types import ClientTable, Context, Failure, State, Update
from entrofed.core.validation import safe_weights
from entrofed.errors import ConfigError
from entrofed.experiment.protection import protect
from entrofed.experiment.sections.method import MethodSection
from entrofed.experiment.sections.privacy import PrivacySection
from entrofed.flower.arrays import Format
from entrofed.flower.grid import PATIENCE, Roster, content_of, exchange, message, most_bytes
from entrofed.flower.secure_client import SECURE
from entrofed.flower.secure_server import Session
from entrofed.flower.wire import write_task
from entrofed.privacy.secure import MaskedSum, SealedParams, Secure, addend_size

NOT_A_NUMBER = float("nan")


def check_privacy(privacy: PrivacySection, section: MethodSection, method: Method, nodes: int) -> None:
    """Raise a ConfigError for what a strategy cannot protect."""
    try:
        privacy.check(method, peers=False, quorum=section.quorum, cohort=section.cohort_size(nodes))
    except ValueError as error:
        raise ConfigError(f"EntroStrategy: {error}") from None
    if privacy.sizes:
        raise ConfigError(
            "EntroStrategy: privacy.sizes cannot act here: clients say their own number of examples; leave it out"
        )
    if privacy.epsilon is not None and privacy.updates is None:
        raise ConfigError(
            "EntroStrategy: privacy.epsilon noises nothing here: clients noise their own label counts, with "
            f"entrofed.flower.client_app(..., epsilon={privacy.epsilon:g}); leave it out"
        )
    if privacy.updates is not None and privacy.updates.noise is None:
        raise ConfigError(
            "EntroStrategy: privacy.updates.noise is needed, because nobody knows beforehand how many clients come; "
            "'entrofed privacy plan' finds it"
        )


def protected_method(
    privacy: PrivacySection | None, section: MethodSection, method: Method, *, nodes: int, rounds: int
) -> Method:
    """The method as the privacy section asks for it; sampling is not claimed to help, for clients come and go."""
    if privacy is None:
        return method
    if privacy.updates is None:
        return Method(
            method.selector,
            method.weigher,
            method.objective,
            Secure(method.server) if privacy.secure else method.server,
            method.name,
        )
    return protect(
        privacy,
        method,
        ClientTable(np.zeros(0, np.int64)),
        participants=nodes,
        cohort=section.cohort_size(nodes),
        rounds=rounds,
        quorum=section.quorum,
        amplify=False,
    ).method


class SecureRound:
    """One round whose updates come under masks."""

    def __init__(self, job: Job, state: State, nodes: Mapping[int, int], grid: Grid, timeout: float) -> None:
        length = addend_size(job.method.server.client, job.layout)
        self._job, self._session = job, Session(grid, nodes, length, timeout)
        self._session.prepare()
        clients = sorted(self._session.shares)
        self.weights: dict[int, float] = {}
        if clients:
            context = Context(state.params, state.round, job.clients, job.layout, job.seed, job.predict)
            found = safe_weights(job.method.weigher, [self._update(k, SealedParams()) for k in clients], context)
            self.weights = dict(zip(clients, found.weights.tolist(), strict=True))

    def _update(self, client: int, params: SealedParams) -> Update:
        return Update(client, params, int(self._job.clients.sizes[client]), 1, NOT_A_NUMBER, NOT_A_NUMBER)

    def orders(self, client: int, content: RecordDict) -> bool:
        """Add to a task what masking needs; whether the client takes part."""
        if client not in self.weights:
            return False
        order = {**self._session.order(client), "weight": self.weights[client]}
        content[SECURE] = ConfigRecord({"order": json.dumps(order)})
        return True

    def answers(self, tasks: Sequence[TrainTask], contents: Mapping[int, RecordDict | Failure]) -> list[Any]:
        """What came of each task: of all who are in the sum, the sum; of the others, why they are not."""
        session = self._session
        read = {client: session.read(client, content) for client, content in contents.items() if client in self.weights}
        masked = {client: values for client, values in read.items() if values is not None}
        total = session.total(masked)
        reasons = session.reasons
        if total is None:
            masked = {}
        weight = 1.0 if len(masked) == len(self.weights) else sum(self.weights[client] for client in masked)
        if total is None or not weight > 0:
            return [Failure(reasons.get(task.client, "not in the sum")) for task in tasks]
        cover = MaskedSum(total, weight)
        return [
            self._update(task.client, cover)
            if task.client in masked
            else Failure(reasons.get(task.client, "not in the sum"))
            for task in tasks
        ]


def masked_training(grid: Grid, roster: Roster, timeout: float) -> Train:
    """How the tasks of an experiment's round are done under masks."""

    def train(job: Job, state: State, plan: RoundPlan) -> list[Any]:
        roster.refresh(grid, min(timeout, PATIENCE))
        there = {task.client: roster.node_of(task.client) for task in plan.tasks}
        nodes = {client: node for client, node in there.items() if node is not None}
        secure, form = SecureRound(job, state, nodes, grid, timeout), Format.by_layout(job.layout)
        sent: dict[int, Message] = {}
        for task in plan.tasks:
            content = write_task(task, form, ConfigRecord())
            if task.client in nodes and secure.orders(task.client, content):
                sent[task.client] = message(content, nodes[task.client], "train", timeout)
        replies = exchange(grid, list(sent.values()), timeout)
        most = most_bytes(job.layout)
        return secure.answers(plan.tasks, {client: content_of(replies.get(nodes[client]), most) for client in sent})

    return train
