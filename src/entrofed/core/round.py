"""One federated round: select, train, admit, weigh, aggregate, record.

Read this first. What is the same in every round comes in as a :class:`~entrofed.core.job.Job`, what changes as a
:class:`~entrofed.core.types.State`; nothing here knows which method runs or where the work is done.

:func:`run_round` is the whole of it: :func:`plan_round` chooses who trains, the backend lets them train, and
:func:`finish_round` makes the next model of what they send. A deployment, where clients answer in their own time, calls
the two itself. :func:`pool` is what a server and every peer does with the updates it may use.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from entrofed.core.admission import bound
from entrofed.core.arrivals import arrivals, asking_seconds, update_bytes
from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.parts import Fact
from entrofed.core.records import ClientRecord, Metrics, Refusal, RoundRecord, Stopwatch, Traffic, scalars
from entrofed.core.seeds import stream
from entrofed.core.tasks import Backend, FactTask, TrainTask, TrainTasks
from entrofed.core.types import Context, Failure, PartState, Selection, State, Update, Weighing
from entrofed.core.validation import admit, check_first, fact_problem, model_problem, safe_weights
from entrofed.errors import EntrofedError, blamed
from entrofed.info.bounds import Alignment
from entrofed.info.entropy import effective_cohort

log = logging.getLogger("entrofed")

FIRST_UPDATE = "first_update"


@dataclass(frozen=True)
class RoundPlan:
    """Who trains in a round, with which tasks."""

    selection: Selection
    tasks: tuple[TrainTask, ...]
    """Of those chosen that do not drop out."""
    available: int
    """Clients that could have been chosen."""
    broadcast: PartState
    lr: float
    traffic: Traffic
    seconds: dict[str, float]
    virtual_seconds: float = 0.0
    """Spent on the virtual clock before anybody trains for the round."""
    admission: PartState = field(default_factory=dict)
    """How large updates were until now."""


@dataclass(frozen=True)
class Pooled:
    """What came of weighing and aggregating updates, at the server or at a peer."""

    params: Params
    server: PartState
    """What the server rule remembers."""
    weighing: Weighing
    enough: bool
    """Whether there were as many updates as the quorum asks for and a model came of them; if not, the model stays."""
    seconds: dict[str, float] = field(default_factory=dict)
    reason: str = ""
    """Why not, if not."""
    digest: str = ""
    """Equal models of peers have equal digests."""


@dataclass(frozen=True)
class RoundOutcome:
    """What came of a round, and how."""

    state: State
    updates: list[Update]
    weighing: Weighing
    refused: dict[int, str]
    enough: bool
    traffic: Traffic
    seconds: dict[str, float]
    virtual_seconds: float | None = None
    reason: str = ""
    """Why there was not enough."""
    beside: Params | None = None
    """The model that the server rule keeps beside the global one."""

    @property
    def used(self) -> list[int]:
        """The clients whose updates count."""
        pairs = zip(self.updates, self.weighing.weights, strict=True)
        return [update.client for update, weight in pairs if weight > 0]


@dataclass(frozen=True)
class Evaluated:
    """What was measured after a round."""

    cohort_entropy: float | None = None
    test: Metrics | None = None
    in_distribution: Metrics | None = None
    alignment: Alignment | None = None
    averaged: Metrics | None = None
    """Of the model that the server rule keeps beside the global one, on the test data."""
    parts: dict[str, Metrics] = field(default_factory=dict)
    """On other parts of the data."""


@dataclass(frozen=True)
class PeersEvaluated:
    """What was measured of the models of peers; empty in a round that is not evaluated."""

    tests: list[Metrics] = field(default_factory=list)
    """Of each node, on the test data."""
    held_out: list[Metrics | None] = field(default_factory=list)
    """Of each node, on its own held-out data."""
    in_distribution: Metrics | None = None
    """Of all held-out data together."""

    @property
    def mean(self) -> Metrics | None:
        """Over the nodes."""
        if not self.tests:
            return None
        found = [test.to_json() for test in self.tests]
        extra = {key: _mean([test.extra[key] for test in self.tests]) for key in found[0].pop("extra", {})}
        return Metrics(**{key: np.mean([one[key] for one in found], axis=0).tolist() for key in found[0]}, extra=extra)


def _mean(values: Sequence[float | None]) -> float | None:
    """Of those that are defined."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None


class Evaluation(Protocol):
    """Measures models on data that no client trains on."""

    def after_round(self, before: State, plan: RoundPlan, outcome: RoundOutcome) -> Evaluated:
        """Of a round with a server."""
        ...

    def of_peers(self, models: Sequence[Params], digests: Sequence[str]) -> PeersEvaluated:
        """Of a round without one; models with the same digest are equal."""
        ...

    def cohort_entropy(self, clients: Sequence[int]) -> float | None:
        """Of the pooled labels of clients, bits; None of nobody."""
        ...


Train = Callable[[Job, State, RoundPlan], Sequence[Any]]
"""How a round's tasks get done, where that takes more than a backend: what came of each."""


def plan_round(job: Job, state: State, backend: Backend) -> RoundPlan:
    """Choose who trains."""
    watch, method, rules, clients = Stopwatch(), job.method, job.rules, job.clients
    model, traffic, training, admission = job.layout.nbytes, Traffic(), TrainTasks(job, state), state.admission
    broadcast = method.server.broadcast(state.server)
    present = rules.faults.present(job.seed, state.round, rules.rounds, len(clients.sizes))
    among = job.participants[(present & (clients.sizes > 0))[job.participants]]

    selector, waited = state.selector, 0.0
    if state.round == 0:
        traffic += Traffic(up=int(told_bytes(job)[job.participants].sum()))
        if method.has_fact(FIRST_UPDATE):  # everybody trains once; nothing of it is aggregated
            survey = [training.task(client, broadcast, purpose="survey") for client in among.tolist()]
            answers = backend.run(survey)
            check_first(answers)
            surveyed, _, admission = admitted(job, among.tolist(), survey, answers, admission)
            selector = method.selector.observe(selector, state.params, surveyed)
            traffic += Traffic(len(among) * model, len(surveyed) * model)
            waited += asking_seconds(job, among, trains=True)
    rng = stream(job.seed, "select", state.round)
    with blamed(f"selector {method.selector.name!r}"):
        candidates = method.selector.candidates(clients, among, rules.chosen, rng)
    for fact in method.facts_told("before_round"):
        told = ask(fact, job, state.params, candidates, backend, first=not state.round)
        clients = replace(clients, facts={**clients.facts, fact.name: told})
        traffic += Traffic(len(candidates) * model, sum(value.nbytes for value in told if value is not None))
        waited += asking_seconds(job, candidates)
    with blamed(f"selector {method.selector.name!r}"):
        selection = method.selector.select(selector, clients, candidates, rules.chosen, rng)
    _check_cohort(selection.clients, candidates, len(clients.sizes), method.selector.name)
    selection = replace(selection, reasons=scalars(selection.reasons, f"selector {method.selector.name!r}: reasons"))
    broadcast = {**broadcast, **method.objective.broadcast(clients, selection.clients)}
    gone = rules.faults.dropped(job.seed, state.round, selection.clients)
    tasks = tuple(
        training.task(client, broadcast, limits=selection.limits.get(client))
        for client in selection.clients
        if client not in gone
    )
    watch.lap("select")
    lr = training.training.lr
    return RoundPlan(selection, tasks, len(among), broadcast, lr, traffic, watch.seconds, waited, admission)


def _check_cohort(chosen: Sequence[int], candidates: NDArray[np.int64], clients: int, selector: str) -> None:
    """Raise an EntrofedError unless different clients were chosen among those who are there."""
    there = np.zeros(clients, np.bool_)
    there[candidates] = True
    strangers = [client for client in chosen if not (0 <= client < clients and there[client])]
    if strangers or len(set(chosen)) < len(chosen):
        wrong = f"{min(strangers)}, who is no candidate" if strangers else "somebody twice"
        raise EntrofedError(f"selector {selector!r} chose {wrong}: {list(chosen)[:20]}")


def finish_round(job: Job, state: State, plan: RoundPlan, answers: Sequence[Any]) -> RoundOutcome:
    """Make the next model of what came back; ``answers[i]`` is that to ``plan.tasks[i]``."""
    watch, chosen = Stopwatch(), plan.selection.clients
    if not state.round:
        check_first(answers)
    given = {task.client: answer for task, answer in zip(plan.tasks, answers, strict=True)}
    dropped = Failure("dropped out")
    came = [given.get(client, dropped) for client in chosen]
    updates, refused, admission = admitted(job, chosen, plan.tasks, came, plan.admission)
    down = job.layout.nbytes + sum(array.nbytes for array in plan.broadcast.values())
    arrived = arrivals(job, plan.tasks, updates, len(chosen), down)
    updates, refused = arrived.updates, {**refused, **arrived.late}
    for client, reason in refused.items():
        log.warning("round %d: client %d refused: %s", state.round, client, reason)
    traffic = Traffic(len(chosen) * down, sum(update_bytes(job, update) for update in updates))
    watch.lap("admit")

    seen = list(job.method.server.seen(updates))
    pooled = pool(job, state, seen, plan.selection.draws)
    if not pooled.enough:
        log.warning("round %d: %s: the model stays", state.round, pooled.reason)
    kept = {update.client: update.client_state for update in updates if update.client_state} if pooled.enough else {}
    with blamed(f"selector {job.method.selector.name!r}"):
        selector = job.method.selector.observe(plan.selection.state, state.params, seen)
    after = State(
        round=state.round + 1,
        params=pooled.params,
        selector=selector,
        server=pooled.server,
        client_states=state.client_states | kept,
        skipped=0 if pooled.enough else state.skipped + 1,
        admission=admission if pooled.enough else plan.admission,
    )
    seconds = {**watch.seconds, **pooled.seconds}
    beside = job.method.server.beside(after.server)
    virtual = None if arrived.seconds is None else plan.virtual_seconds + arrived.seconds
    weighing, enough, reason = pooled.weighing, pooled.enough, pooled.reason
    return RoundOutcome(after, seen, weighing, refused, enough, traffic, seconds, virtual, reason, beside)


def admitted(
    job: Job, clients: Sequence[int], tasks: Sequence[TrainTask], answers: Sequence[Any], memory: PartState
) -> tuple[list[Update], dict[int, str], PartState]:
    """What can be used of answers, who is refused and why, and what to remember of sizes; for the server and for peers.

    ``answers[i]`` came from ``clients[i]``; ``tasks`` are what they were asked to do.
    """
    usable, refused = admit(job, clients, answers)
    found, too_far, after = bound(job, {task.client: task for task in tasks}, usable, memory)
    return found, {client: why for client in clients if (why := refused.get(client) or too_far.get(client))}, after


def pool(job: Job, state: State, updates: Sequence[Update], draws: Mapping[int, int] | None = None) -> Pooled:
    """Weigh the updates and make the next model of them, if they are enough: the server, and every peer by itself.

    ``job`` and ``state`` are what the server, or the peer, knows; ``draws``: how often a client was drawn, if not once.
    """
    nobody = Weighing(np.zeros(len(updates)))
    if len(updates) < job.rules.quorum:
        reason = f"{len(updates)} usable updates, quorum {job.rules.quorum}"
        return Pooled(state.params, state.server, nobody, enough=False, reason=reason)
    watch = Stopwatch()
    context = Context(
        state.params, state.round, job.clients, job.layout, job.seed, job.predict, job.node, job.own_labels, draws or {}
    )
    weighing = safe_weights(job.method.weigher, updates, context)
    watch.lap("weigh")
    with blamed(f"server rule {job.method.server.name!r}"), np.errstate(all="ignore"):
        params, server = job.method.server.apply(updates, weighing.weights, context, state.server)
    if (wrong := model_problem(job, state.params, params, server)) is not None:
        reason = f"server rule {job.method.server.name!r} made no model of {len(updates)} updates: {wrong}"
        return Pooled(state.params, state.server, nobody, enough=False, reason=reason)
    watch.lap("aggregate")
    return Pooled(params, server, weighing, enough=True, seconds=watch.seconds)


def run_round(
    job: Job, state: State, backend: Backend, evaluation: Evaluation, train: Train | None = None
) -> tuple[State, RoundRecord]:
    """Play one round; returns the state after it and its record. ``train``: in place of the backend."""
    plan = plan_round(job, state, backend)
    watch = Stopwatch()
    answers = backend.run(plan.tasks) if train is None else train(job, state, plan)
    watch.lap("train")
    training = watch.seconds
    outcome = finish_round(job, state, plan, answers)
    watch = Stopwatch()
    evaluated = evaluation.after_round(state, plan, outcome)
    watch.lap("evaluate")
    return outcome.state, round_record(plan, outcome, evaluated, {**training, **watch.seconds})


def round_record(
    plan: RoundPlan, outcome: RoundOutcome, evaluated: Evaluated, seconds: dict[str, float]
) -> RoundRecord:
    """What is written down of a round; ``seconds`` are those spent outside of planning and finishing it."""
    weighing, updates, traffic = outcome.weighing, outcome.updates, plan.traffic + outcome.traffic
    return RoundRecord(
        round=outcome.state.round - 1,
        lr=plan.lr,
        available=plan.available,
        cohort=plan.selection.clients,
        reasons=plan.selection.reasons,
        cohort_entropy=evaluated.cohort_entropy,
        clients=[
            ClientRecord.of(update, weight, weighing.origins[i] if weighing.origins else None)
            for i, (update, weight) in enumerate(zip(updates, weighing.weights, strict=True))
        ],
        refused=[Refusal(client, reason) for client, reason in outcome.refused.items()],
        skipped=not outcome.enough,
        reason=outcome.reason or None,
        effective_cohort=float(effective_cohort(weighing.weights)) if outcome.enough else 0.0,
        train_loss=float(np.mean([update.train_loss for update in updates])) if updates else None,
        bytes_down=traffic.down,
        bytes_up=traffic.up,
        test=evaluated.test,
        in_distribution=evaluated.in_distribution,
        alignment=evaluated.alignment,
        averaged=evaluated.averaged,
        parts=evaluated.parts,
        virtual_seconds=outcome.virtual_seconds,
        seconds={**plan.seconds, **outcome.seconds, **seconds, "clients": sum(update.seconds for update in updates)},
    )


def ask(
    fact: Fact, job: Job, params: Params, clients: NDArray[np.int64], backend: Backend, *, first: bool
) -> Sequence[NDArray[Any] | None]:
    """What clients tell of a fact; None for all others, for failures, and for what cannot be used.

    ``first``: nobody was asked before; if all fail alike, the fact is wrong and not a client.
    """
    told: list[NDArray[Any] | None] = [None] * len(job.clients.sizes)
    tasks = [FactTask(fact, int(client), params, int(job.clients.sizes[client])) for client in clients]
    answers = backend.run(tasks)
    if first:
        check_first(answers)
    for client, value in zip(clients.tolist(), answers, strict=True):
        failed = isinstance(value, Failure)
        if (reason := value.reason if failed else fact_problem(fact, value, job.clients.classes)) is None:
            told[client] = value
        else:
            log.warning("what client %d tells of its %s is not used: %s", client, fact.name, reason)
    return told


def tell_once(job: Job, params: Params, backend: Backend) -> Job:
    """The job with what clients tell once of their data; facts about labels alone were told before."""
    facts = dict(job.clients.facts)
    for fact in job.method.facts_told("once"):
        if fact.name != FIRST_UPDATE and fact.name not in facts:
            there = job.participants[job.clients.sizes[job.participants] > 0]
            facts[fact.name] = ask(fact, job, params, there, backend, first=True)
    return replace(job, clients=replace(job.clients, facts=facts))


def told_bytes(job: Job) -> NDArray[np.int64]:
    """Bytes of what each client told once, before the first round."""
    told = np.zeros(len(job.clients.sizes), np.int64)
    for fact in job.method.facts_told("once"):
        table = job.clients.facts.get(fact.name, ())
        if isinstance(table, np.ndarray):
            told += table[0].nbytes if len(table) else 0
        elif len(table):
            told += [0 if value is None else value.nbytes for value in table]
    return told
