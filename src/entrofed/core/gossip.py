"""One decentralized round, made of the same parts: every node (or a share of them) trains, and every node weighs its
neighbourhood and pools.

There is no server. A node's model goes to its neighbours; each node pools what it has got, its own model included, by
:func:`entrofed.core.round.pool`, as a server does. All models of a run lie in one
:class:`~entrofed.core.types.State`: ``server`` holds them as rows, with each node's state of the rule, and ``params``
is their mean.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.admission import CLAIMED, credible
from entrofed.core.arrivals import arrivals, update_bytes
from entrofed.core.graphs import closed_neighbourhoods, mixing_matrix, spectral_gap
from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.parts import ALL_CLIENTS, VALIDATION, Method
from entrofed.core.records import ClientRecord, PeerRecord, Refusal, RoundRecord, Scalars, Stopwatch
from entrofed.core.round import Evaluation, PeersEvaluated, Pooled, admitted, told_bytes
from entrofed.core.tasks import Backend, ConsensusTask, PoolTask, TrainTasks
from entrofed.core.types import Failure, PartState, State, Update
from entrofed.core.validation import check_first
from entrofed.errors import ConfigError, EntrofedError
from entrofed.info.entropy import effective_cohort

log = logging.getLogger("entrofed")

MAX_NODES_FOR_GAP = 200
"""Nodes up to which the spectral gap of each round is recorded."""


def check(method: Method) -> None:
    """Raise a ConfigError if a method needs a server."""
    for need, words in ((VALIDATION, "with a validation set"), (ALL_CLIENTS, "that sees all clients")):
        for kind, part in (("weigher", method.weigher), ("server rule", method.server)):
            if need in part.needs:
                raise ConfigError(
                    f"{kind} {part.name!r} needs a server {words}, and a topology has none; choose another or leave "
                    "out [topology]"
                )


class Rows:
    """The models of all peers, one below the other; an array is made of them only when one is wanted."""

    def __init__(self, models: Sequence[Params], part: str) -> None:
        self.models, self._part = models, part

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        """The rows, stacked."""
        return np.stack([getattr(model, self._part) for model in self.models]).astype(dtype, copy=False)


def first_state(job: Job, params: Params) -> PartState:
    """What lies in a state's ``server`` before the first round: the same model for all."""
    _, views = _neighbourhoods(job)
    states = [job.method.server.init(params, view.clients, view.participants) for view in views]
    return _join([params] * len(views), states)


@lru_cache(maxsize=1)
def _neighbourhoods(job: Job) -> tuple[list[NDArray[np.int64]], list[Job]]:
    """The closed neighbourhood of each node, and the job as the node knows it; the same in every round."""
    if job.network is None:
        raise EntrofedError("a decentralized round needs a network of peers")
    hoods = closed_neighbourhoods(job.network.graph)
    return hoods, [view_of(job, node, hood) for node, hood in enumerate(hoods)]


def view_of(job: Job, node: int, hood: NDArray[np.int64]) -> Job:
    """What one peer knows (:meth:`Job.at`); a neighbour has no more examples than can be believed beside the others."""
    view = job.at(node, hood)
    if job.rules.admission == "off":
        return view
    sizes = view.clients.sizes.copy()
    limit = credible(sizes)
    for i in np.flatnonzero((sizes > limit) & (hood != node)):
        log.warning(CLAIMED, hood[i], sizes[i], int(limit))
        sizes[i] = int(limit)
    return replace(view, clients=replace(view.clients, sizes=sizes))


def seen_by(view: Job, hood: NDArray[np.int64], updates: Sequence[Update]) -> tuple[Update, ...]:
    """Updates numbered as in a peer's view, and with no more examples than the sender has there."""
    places = np.searchsorted(hood, [update.client for update in updates])
    sizes = view.clients.sizes[places].tolist()
    if view.rules.admission == "off":
        sizes = [0] * len(updates)
    return tuple(
        replace(update, client=place, num_examples=min(update.num_examples, size or update.num_examples))
        for update, place, size in zip(updates, places.tolist(), sizes, strict=True)
    )


def _join(models: Sequence[Params], states: Sequence[PartState]) -> PartState:
    rows: dict[str, Any] = {"values": Rows(models, "values"), "counters": Rows(models, "counters")}
    named = [{f"{node}/{name}": array for name, array in state.items()} for node, state in enumerate(states)]
    return rows | {name: array for state in named for name, array in state.items()}


def _split(state: PartState, nodes: int) -> tuple[list[Params], list[PartState]]:
    """The inverse of :func:`_join`; after a checkpoint, the rows are arrays."""
    values, counters = state["values"], state["counters"]
    models = list(values.models) if isinstance(values, Rows) else list(map(Params, values, counters))
    own: list[dict[str, NDArray[Any]]] = [{} for _ in range(nodes)]
    for name, array in state.items():
        node, slash, rest = name.partition("/")
        if slash:
            own[int(node)][rest] = array
    return models, list(own)


def gossip_round(job: Job, state: State, backend: Backend, evaluation: Evaluation) -> tuple[State, RoundRecord]:
    """Play one round; returns the state after it and its record."""
    watch, rules, server = Stopwatch(), job.rules, job.method.server
    hoods, views = _neighbourhoods(job)
    nodes = len(hoods)
    models, own = _split(state.server, nodes)
    present = rules.faults.present(job.seed, state.round, rules.rounds, nodes)
    there = np.flatnonzero(present & (job.clients.sizes > 0)).tolist()
    gone = rules.faults.dropped(job.seed, state.round, there)
    awake = [node for node in there if node not in gone]
    senders, trained = hoods, awake
    if job.network is not None:
        senders, trained = job.network.senders(job.seed, state.round), job.network.trained(job.seed, state.round, awake)
    watch.lap("select")

    training = TrainTasks(job, state)
    tasks = [training.task(k, server.broadcast(own[k]), params=models[k]) for k in trained]
    answers = backend.run(tasks)
    if not state.round:
        check_first(answers)
    updates, refused, admission = admitted(job, trained, tasks, answers, state.admission)
    links = [len(hood) - 1 for hood in hoods]
    in_time = arrivals(job, tasks, updates, len(trained), job.layout.nbytes, links)
    updates, refused = in_time.updates, {**refused, **in_time.late}
    for node, reason in refused.items():
        log.warning("round %d: the model of node %d is refused: %s", state.round, node, reason)
    sent = {update.client: update for update in updates}
    watch.lap("train")

    received = {node: [k for k in senders[node].tolist() if k in sent] for node in awake}
    pooled: dict[int, Pooled] = {}
    enough = {node: got for node, got in received.items() if len(got) >= rules.quorum}  # all others keep their model
    poolings = [
        PoolTask(
            views[node],
            state.round,
            models[node],
            own[node],
            seen_by(views[node], hoods[node], [sent[k] for k in got]),
        )
        for node, got in enough.items()
    ]
    for node, outcome in zip(enough, backend.run(poolings), strict=True):
        found: Pooled = usable(outcome)
        if found.enough:
            pooled[node], models[node], own[node] = found, found.params, found.server
        else:
            log.warning("round %d: node %d: %s: its model stays", state.round, node, found.reason)
    watch.lap("aggregate")

    mean, distances = usable(backend.run([ConsensusTask(tuple(models))])[0])
    used = {k for got in enough.values() for k in got}
    after = State(
        round=state.round + 1,
        params=mean,
        selector=state.selector,
        server=_join(models, own),
        client_states=state.client_states | {k: sent[k].client_state for k in sorted(used) if sent[k].client_state},
        skipped=0 if pooled else state.skipped + 1,
        admission=admission,
    )
    evaluated = PeersEvaluated()
    if rules.evaluated(after.round):
        digests = [pooled[node].digest if node in pooled else f"node {node}" for node in range(nodes)]
        evaluated = evaluation.of_peers(models, digests)
    peers = [peer_record(node, received.get(node, []), pooled.get(node), evaluated) for node in range(nodes)]
    counted = sorted({k for node in pooled for k, weight in peers[node].mixing.items() if weight > 0})
    arrived = [sent[k] for node, got in received.items() for k in got if k != node]
    told = 0
    if not state.round:
        each = told_bytes(job)
        told = int(sum(each[hood].sum() for hood in hoods) - each.sum())  # everybody but the node itself
    watch.lap("evaluate")
    return after, RoundRecord(
        round=state.round,
        lr=training.training.lr,
        available=len(there),
        cohort=trained,
        cohort_entropy=evaluation.cohort_entropy(counted),
        clients=[ClientRecord.of(update, peers[node].mixing.get(node, 0.0)) for node, update in sent.items()],
        refused=[Refusal(node, why) for node, why in {**dict.fromkeys(sorted(gone), "dropped out"), **refused}.items()],
        skipped=not pooled,
        effective_cohort=float(np.mean([effective_cohort(peer.weights) for peer in peers])),
        train_loss=float(np.mean([update.train_loss for update in sent.values()])) if sent else None,
        bytes_up=sum(update_bytes(job, update) for update in arrived) + told,
        test=evaluated.mean,
        in_distribution=evaluated.in_distribution,
        peers=peers,
        consensus=float(distances.mean()),
        spectral_gap=_gap(peers) if nodes <= MAX_NODES_FOR_GAP else None,
        virtual_seconds=in_time.seconds,
        seconds={**watch.seconds, "clients": sum(update.seconds for update in sent.values())},
    )


def _gap(peers: Sequence[PeerRecord]) -> float:
    """The spectral gap of the weights that nodes gave each other."""
    return spectral_gap(mixing_matrix([np.array(peer.senders) for peer in peers], [peer.weights for peer in peers]))


def peer_record(node: int, received: list[int], pooled: Pooled | None, evaluated: PeersEvaluated) -> PeerRecord:
    """What is written down of one node; without ``pooled`` it kept its model."""
    senders, weights, origins = [node], [1.0], list[Scalars]()
    if pooled is not None:
        senders, weights, origins = received, pooled.weighing.weights.tolist(), pooled.weighing.origins
    test = evaluated.tests[node] if evaluated.tests else None
    held_out = evaluated.held_out[node] if evaluated.held_out else None
    return PeerRecord(
        node,
        senders,
        weights,
        origins,
        None if test is None else test.accuracy,
        None if test is None else test.macro_f1,
        None if held_out is None else held_out.accuracy,
    )


def usable(outcome: Any) -> Any:
    """What came of a task that must not fail."""
    if isinstance(outcome, Failure):
        where = f" ({outcome.where})" if outcome.where else ""
        raise outcome.error or EntrofedError(outcome.reason + where)
    return outcome
