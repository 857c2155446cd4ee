"""One decentralized round, made of the same parts: every node trains, weighs its neighbourhood, and pools.

There is no server. A node's model goes to its neighbours; each node weighs what it has got, its own model included, and
applies the server rule by itself, with a state of its own. All models of a run lie in one
:class:`~entrofed.types.State`: ``server`` holds them as rows, with each node's state of the rule, and ``params`` is
their mean.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from entrofed.accounts import Clock
from entrofed.admit import admit
from entrofed.errors import ConfigError, EntrofedError
from entrofed.evaluate import PIECE, EvaluateOrder, Tally, figures
from entrofed.federation import Federation
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.info.prediction import Predictions
from entrofed.orders import Orders, Rules
from entrofed.params import Layout, Params
from entrofed.seeds import stream
from entrofed.topology import closed_neighbourhoods, live_edges, mixing_matrix, spectral_gap
from entrofed.types import (
    VALIDATION,
    Backend,
    Context,
    Failure,
    Ledger,
    Method,
    PartState,
    State,
)
from entrofed.weigh import safe_weights

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
    if VALIDATION in method.weigher.needs:
        raise ConfigError(
            f"weigher {method.weigher.name!r} needs a server with a validation set, and a topology has none; choose "
            "another weigher or leave out [topology]"
        )
    if method.server.name == "concat":
        raise ConfigError(
            f"server rule {method.server.name!r} needs a server that sees all clients; choose another or leave out "
            "[topology]"
        )


def begin(method: Method, params: Params, ledger: Ledger, network: Network) -> PartState:
    """What lies in a state's ``server`` before the first round: the same model for all."""
    hoods = closed_neighbourhoods(network.graph)
    state: dict[str, NDArray[Any]] = {
        "values": np.tile(params.values, (len(hoods), 1)),
        "counters": np.tile(params.counters, (len(hoods), 1)),
    }
    for node, hood in enumerate(hoods):
        state |= _named(node, method.server.init(params, _seen_from(ledger, hood), np.arange(len(hood))))
    return state


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
    clock = Clock()
    nodes = len(network.graph)
    models = [Params(state.server["values"][i], state.server["counters"][i]) for i in range(nodes)]
    own = [_of_node(node, state.server) for node in range(nodes)]
    orders = Orders(state, method, rules, federation)
    there = np.flatnonzero(rules.faults.present(rules.seed, state.round, rules.rounds, nodes) & (ledger.sizes > 0))
    gone = rules.faults.dropped(rules.seed, state.round, there.tolist())
    awake = [node for node in there.tolist() if node not in gone]
    senders = network.senders(rules.seed, state.round)
    clock.lap("select")

    work = [orders.make(node, models[node], method.server.broadcast(own[node])) for node in awake]
    answers = backend.run(work)
    clock.lap("train")
    updates, refused = admit(awake, answers, layout, rules.nonfinite)
    for node, reason in refused.items():
        log.warning("round %d: the model of node %d is refused: %s", state.round, node, reason)
    sent = {update.client: update for update in updates}
    clock.lap("admit")

    hoods = closed_neighbourhoods(network.graph)
    after: dict[str, NDArray[Any]] = {
        "values": state.server["values"].copy(),
        "counters": state.server["counters"].copy(),
    }
    pooled: list[dict[str, Any]] = []
    arrived = 0
    for node in range(nodes):
        got = [sent[k] for k in senders[node].tolist() if k in sent] if node in awake else []
        if not got:  # asleep, or nothing usable came: the node keeps its model
            after |= _named(node, own[node])
            pooled.append({"node": node, "from": [node], "weights": [1.0]})
            continue
        arrived += sum(update.client != node for update in got)
        local = [replace(update, client=int(np.searchsorted(hoods[node], update.client))) for update in got]
        seen = _seen_from(ledger, hoods[node])
        context = Context(models[node], state.round, seen, layout, rules.seed * nodes + node, _nowhere)
        weighing = safe_weights(method.weigher, local, context)
        params, following = method.server.apply(local, weighing.weights, context, own[node])
        after["values"][node], after["counters"][node] = params.values, params.counters
        after |= _named(node, following)
        entry: dict[str, Any] = {"node": node, "from": [u.client for u in got], "weights": weighing.weights.tolist()}
        if weighing.origins:
            entry["origins"] = weighing.origins
        pooled.append(entry)
    clock.lap("aggregate")

    mean = after["values"].mean(axis=0, dtype=np.float64)
    distances = np.sqrt(((after["values"] - mean) ** 2).sum(axis=1))
    following_state = State(
        round=state.round + 1,
        params=Params(mean.astype(np.float32), after["counters"].max(axis=0)),
        selector=state.selector,
        server=after,
        memory=state.memory | {update.client: update.memory for update in updates if update.memory},
    )
    test = None
    if following_state.round % rules.evaluate_every == 0:
        found = _evaluate(backend, after, np.arange(len(federation.data.test_y)))
        for entry, one in zip(pooled, found, strict=True):
            entry |= {"accuracy": one["accuracy"], "macro_f1": one["macro_f1"]}
        test = {key: np.mean([one[key] for one in found], axis=0).tolist() for key in found[0]}
    clock.lap("evaluate")
    weights = {entry["node"]: dict(zip(entry["from"], entry["weights"], strict=True)) for entry in pooled}
    matrix = mixing_matrix([np.array(e["from"]) for e in pooled], [np.array(e["weights"]) for e in pooled])
    record = {
        "round": state.round,
        "lr": orders.training.lr,
        "available": len(there),
        "cohort": awake,
        "reasons": [],
        "cohort_entropy": float(entropy_of_counts(federation.label_counts[awake].sum(axis=0), base="bits")),
        "clients": [
            {
                "client": update.client,
                "examples": update.num_examples,
                "steps": update.num_steps,
                "weight": weights[update.client].get(update.client, 0.0),
                "train_loss": update.train_loss,
                "train_loss_last_epoch": update.train_loss_last_epoch,
                **({"loss_terms": dict(update.terms)} if update.terms else {}),
            }
            for update in updates
        ],
        "refused": [{"client": node, "reason": reason} for node, reason in refused.items()]
        + [{"client": node, "reason": "dropped out"} for node in sorted(gone)],
        "skipped": not updates,
        "effective_cohort": float(np.mean([effective_cohort(entry["weights"]) for entry in pooled])),
        "train_loss": float(np.mean([update.train_loss for update in updates])) if updates else None,
        "bytes_down": 0,
        "bytes_up": arrived * layout.nbytes + _summaries(state, ledger, hoods),
        "test": test,
        "id": None,
        "peers": pooled,
        "consensus": float(distances.mean()),
        "spectral_gap": spectral_gap(matrix) if nodes <= MATRIX else None,
        "seconds": {**clock.laps, "clients": sum(update.seconds for update in updates)},
    }
    return following_state, record


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


def _named(node: int, state: PartState) -> dict[str, NDArray[Any]]:
    return {f"{node}/{name}": array for name, array in state.items()}


def _of_node(node: int, state: PartState) -> PartState:
    prefix = f"{node}/"
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def _nowhere(models: Sequence[Params]) -> Predictions:
    raise EntrofedError("there is no server with a validation set in a topology")


def _evaluate(backend: Backend, state: PartState, rows: NDArray[np.int64]) -> list[dict[str, Any]]:
    """The figures of every node's model on all ``rows``; equal models are evaluated once."""
    different: dict[bytes, int] = {}
    which = [different.setdefault(values.tobytes(), len(different)) for values in state["values"]]
    firsts = [which.index(k) for k in range(len(different))]
    orders = [
        EvaluateOrder(params, "test", rows[i : i + PIECE])
        for params in (Params(state["values"][node], state["counters"][node]) for node in firsts)
        for i in range(0, len(rows), PIECE)
    ]
    tallies: list[Tally] = backend.run(orders)
    for tally in tallies:
        if isinstance(tally, Failure):
            raise EntrofedError(f"the evaluation of a model failed: {tally.reason}")
    pieces = len(tallies) // len(firsts)
    found = []
    for k in range(len(firsts)):
        total, *others = tallies[k * pieces : (k + 1) * pieces]
        for other in others:
            total = total + other
        found.append(figures(total))
    return [found[k] for k in which]
