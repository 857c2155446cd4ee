"""One decentralized round, made of the same parts: every node trains, weighs its neighbourhood, and pools.

There is no server. A node's model goes to its neighbours; each node weighs what it has got, its own model included, and
applies the server rule by itself, with a state of its own. All models of a run lie in one
:class:`~entrofed.core.types.State`: ``server`` holds them as rows, with each node's state of the rule, and ``params`` is
their mean.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import blake2b
from operator import add
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from entrofed.backends.base import Backend, Pooled
from entrofed.client.evaluate import evaluate, evaluate_own, figures
from entrofed.core.graphs import closed_neighbourhoods, live_edges, mixing_matrix, spectral_gap
from entrofed.core.params import Layout, Params
from entrofed.core.records import Books, client_entry
from entrofed.core.seeds import stream
from entrofed.core.tasks import Orders, Rules
from entrofed.core.types import ALL_CLIENTS, VALIDATION, Context, Failure, Ledger, Method, PartState, State, Update
from entrofed.core.validation import fault
from entrofed.core.weighing import safe_weights
from entrofed.data.federation import Federation
from entrofed.errors import ConfigError, EntrofedError
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.info.prediction import Predictions

log = logging.getLogger("entrofed")

MATRIX = 200
"""Nodes up to which the spectral gap of each round is recorded."""


@dataclass(frozen=True)
class Network:
    """The peers and their edges. ``up``: the probability that an edge works in a round; ``loss``: that a message is
    lost on the way; ``split``: rounds (first, first after) in which the lower and the upper half of the nodes cannot
    reach each other.
    """

    graph: nx.Graph
    up: float = 1.0
    loss: float = 0.0
    split: tuple[int, int] | None = None

    def senders(self, seed: int, number: int) -> list[NDArray[np.int64]]:
        """Whose model reaches each node in this round; its own always does."""
        graph, nodes = self.graph, len(self.graph)
        if self.up < 1:
            graph = live_edges(graph, self.up, stream(seed, "edges", number))
        if self.split is not None and self.split[0] <= number < self.split[1]:
            half = nodes // 2
            graph = nx.Graph(graph)
            graph.remove_edges_from([(a, b) for a, b in self.graph.edges if (a < half) != (b < half)])
        hoods = closed_neighbourhoods(graph)
        if not self.loss:
            return hoods
        rng = stream(seed, "messages", number)
        return [hood[(rng.random(len(hood)) >= self.loss) | (hood == node)] for node, hood in enumerate(hoods)]


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


def begin(method: Method, params: Params, ledger: Ledger, network: Network) -> PartState:
    """What lies in a state's ``server`` before the first round: the same model for all."""
    hoods = closed_neighbourhoods(network.graph)
    states = [method.server.init(params, _seen_from(ledger, hood), np.arange(len(hood))) for hood in hoods]
    return _state([params] * len(hoods), states)


def _state(models: Sequence[Params], states: Sequence[PartState]) -> PartState:
    rows: dict[str, Any] = {"values": Rows(models, "values"), "counters": Rows(models, "counters")}
    named = [{f"{node}/{name}": array for name, array in state.items()} for node, state in enumerate(states)]
    return rows | {name: array for state in named for name, array in state.items()}


def _parts(state: PartState, nodes: int) -> tuple[list[Params], list[dict[str, NDArray[Any]]]]:
    """The inverse of :func:`_state`; after a checkpoint, the rows are arrays."""
    values, counters = state["values"], state["counters"]
    models = list(values.models) if isinstance(values, Rows) else list(map(Params, values, counters))
    own: list[dict[str, NDArray[Any]]] = [{} for _ in range(nodes)]
    for name, array in state.items():
        node, slash, rest = name.partition("/")
        if slash:
            own[int(node)][rest] = array
    return models, own


@dataclass(frozen=True)
class Pooling:
    """One peer weighs what it has got and applies the server rule by itself."""

    params: Params
    updates: tuple[Update, ...]
    method: Method
    round: int
    ledger: Ledger
    layout: Layout
    seed: int
    state: PartState

    def pool(self) -> Pooled:
        """The peer's next model."""
        context = Context(self.params, self.round, self.ledger, self.layout, self.seed, _nowhere)
        weighing = safe_weights(self.method.weigher, self.updates, context)
        params, state = self.method.server.apply(self.updates, weighing.weights, context, self.state)
        return Pooled(params, state, weighing, blake2b(params.values.tobytes() + params.counters.tobytes()).hexdigest())


def gossip_round(
    state: State,
    method: Method,
    rules: Rules,
    ledger: Ledger,
    federation: Federation,
    layout: Layout,
    backend: Backend,
    network: Network,
) -> tuple[State, dict[str, Any]]:
    """Play one round; returns the state after it and its record."""
    books = Books(layout)
    nodes = len(network.graph)
    models, own = _parts(state.server, nodes)
    orders = Orders(state, method, rules, ledger.sizes)
    there = np.flatnonzero(rules.faults.present(rules.seed, state.round, rules.rounds, nodes) & (ledger.sizes > 0))
    gone = rules.faults.dropped(rules.seed, state.round, there.tolist())
    awake = [node for node in there.tolist() if node not in gone]
    hoods, senders = closed_neighbourhoods(network.graph), network.senders(rules.seed, state.round)
    books.lap("select")

    work = [orders.make(node, models[node], method.server.broadcast(own[node])) for node in awake]
    answers = backend.train_peers(work, partial(fault, layout=layout, nonfinite=rules.nonfinite))
    refused = dict.fromkeys(sorted(gone), "dropped out")
    sent: dict[int, Update] = {}
    for node, answer in zip(awake, answers, strict=True):
        if isinstance(answer, Failure):
            log.warning("round %d: the model of node %d is refused: %s", state.round, node, answer.reason)
            refused[node] = answer.reason
        else:
            sent[node] = answer
    books.lap("train")

    hearing = {node: [k for k in senders[node].tolist() if k in sent] for node in awake}
    hearing = {node: heard for node, heard in hearing.items() if heard}  # all others keep their model
    poolings = []
    for node, heard in hearing.items():
        local = [replace(sent[k], client=int(np.searchsorted(hoods[node], k))) for k in heard]
        seen, seed = _seen_from(ledger, hoods[node]), rules.seed * nodes + node
        poolings.append(Pooling(models[node], tuple(local), method, state.round, seen, layout, seed, own[node]))
    pooled = dict(zip(hearing, backend.pool(poolings), strict=True))
    books.lap("aggregate")

    peers: list[dict[str, Any]] = []
    for node in range(nodes):
        entry: dict[str, Any] = {"node": node, "from": [node], "weights": [1.0]}
        if node in pooled:
            models[node], own[node] = pooled[node].params, dict(pooled[node].state)
            entry |= {"from": hearing[node], "weights": pooled[node].weighing.weights.tolist()}
            if pooled[node].weighing.origins:
                entry["origins"] = pooled[node].weighing.origins
        peers.append(entry)
    mean, distances = backend.consensus(models)
    after = State(
        round=state.round + 1,
        params=mean,
        selector=state.selector,
        server=_state(models, own),
        memory=state.memory | {update.client: update.memory for update in sent.values() if update.memory},
        skipped=0 if sent else state.skipped + 1,
    )
    test, inside = None, None
    if rules.evaluated(after.round):
        digests = [pooled[node].digest if node in pooled else f"node {node}" for node in range(nodes)]
        different = {digest: models[node] for node, digest in enumerate(digests)}  # equal models are evaluated once
        tallies = evaluate(backend, list(different.values()), "test", np.arange(len(federation.data.test_y)))
        known = dict(zip(different, map(figures, tallies), strict=True))
        found = [known[digest] for digest in digests]
        for entry, one in zip(peers, found, strict=True):
            entry |= {"accuracy": one["accuracy"], "macro_f1": one["macro_f1"]}
        test = {key: np.mean([one[key] for one in found], axis=0).tolist() for key in found[0]}
        inside = _held_out(models, peers, federation, backend)
    books.lap("evaluate")
    weights = {entry["node"]: dict(zip(entry["from"], entry["weights"], strict=True)) for entry in peers}
    matrix = mixing_matrix([np.array(e["from"]) for e in peers], [np.array(e["weights"]) for e in peers])
    arrived = sum(k != node for node, heard in hearing.items() for k in heard)
    record = {
        "round": state.round,
        "lr": orders.training.lr,
        "available": len(there),
        "cohort": awake,
        "reasons": [],
        "cohort_entropy": float(entropy_of_counts(federation.label_counts[awake].sum(axis=0), base="bits")),
        "clients": [
            client_entry(update, weights[update.client].get(update.client, 0.0), None) for update in sent.values()
        ],
        "refused": [{"client": node, "reason": reason} for node, reason in refused.items()],
        "skipped": not sent,
        "effective_cohort": float(np.mean([effective_cohort(entry["weights"]) for entry in peers])),
        "train_loss": float(np.mean([update.train_loss for update in sent.values()])) if sent else None,
        "bytes_down": 0,
        "bytes_up": arrived * layout.nbytes + _summaries(state, ledger, hoods),
        "test": test,
        "id": inside,
        "peers": peers,
        "consensus": float(distances.mean()),
        "spectral_gap": spectral_gap(matrix) if nodes <= MATRIX else None,
        "seconds": {**books.laps, "clients": sum(update.seconds for update in sent.values())},
    }
    return after, record


def _held_out(
    models: Sequence[Params], peers: list[dict[str, Any]], federation: Federation, backend: Backend
) -> dict[str, Any] | None:
    """Every node's model on that node's own held-out data, noted with the node; the figures of all of it together."""
    holders = [node for node in range(len(models)) if len(federation.holdouts[node])]
    if not holders:
        return None
    tallies = evaluate_own(backend, [(models[node], federation.holdouts[node]) for node in holders], "train")
    for node, tally in zip(holders, tallies, strict=True):
        peers[node]["held_out"] = figures(tally)["accuracy"]
    return figures(reduce(add, tallies))


def _seen_from(ledger: Ledger, hood: NDArray[np.int64]) -> Ledger:
    """What a node knows: its closed neighbourhood, numbered from 0."""
    return replace(
        ledger,
        sizes=ledger.sizes[hood],
        label_counts=None if ledger.label_counts is None else ledger.label_counts[hood],
        summaries=None if ledger.summaries is None else tuple(ledger.summaries[k] for k in hood),
    )


def _summaries(state: State, ledger: Ledger, hoods: Sequence[NDArray[np.int64]]) -> int:
    """Bytes of label counts and summaries along the edges, once."""
    if state.round:
        return 0
    tables = [table for table in (ledger.label_counts, ledger.summaries) if table is not None]
    return sum(table[k].nbytes for table in tables for node, hood in enumerate(hoods) for k in hood if k != node)


def _nowhere(models: Sequence[Params]) -> Predictions:
    raise EntrofedError("there is no server with a validation set in a topology")
