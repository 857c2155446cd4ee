"""One federated round: select, train, admit, weigh, aggregate, record.

Read this first. Everything a round needs comes in as an argument, everything it changes goes out in the new
:class:`~entrofed.types.State`; nothing here knows which method runs or where the work is done.
"""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.admit import NonFinite, admit
from entrofed.client import WorkOrder
from entrofed.evaluate import EvaluateOrder, evaluate, figures, predictions
from entrofed.faults import Faults
from entrofed.federation import Federation
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.params import Layout
from entrofed.seeds import stream
from entrofed.types import (
    FIRST_UPDATE,
    LOSS,
    Backend,
    Context,
    Failure,
    Ledger,
    Method,
    PartState,
    Selection,
    State,
    Training,
    Update,
    Weighing,
)
from entrofed.weigh import safe_weights

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class Rules:
    """What is the same in every round of a run, besides the method."""

    seed: int
    rounds: int
    cohort: int
    training: Training
    lr_decay: float = 1.0
    quorum: int = 1
    nonfinite: NonFinite = "drop"
    evaluate_every: int = 1
    faults: Faults = field(default_factory=Faults)
    sizes_from_counts: bool = False
    """Take a client's number of examples from its released (noised) label counts."""


def run_round(
    state: State,
    method: Method,
    rules: Rules,
    ledger: Ledger,
    federation: Federation,
    layout: Layout,
    backend: Backend,
) -> tuple[State, dict[str, Any]]:
    """Play one round; returns the state after it and its record."""
    clock = _Clock()
    traffic = _Traffic(layout)
    orders = _Orders(state, method, rules, federation)
    there = rules.faults.present(rules.seed, state.round, rules.rounds, len(ledger.sizes))
    among = federation.participants[(there & (ledger.sizes > 0))[federation.participants]]
    if state.round == 0:
        traffic.released(ledger, federation.participants)

    selector = state.selector
    if state.round == 0 and FIRST_UPDATE in method.needs:  # everybody trains once; nothing of it is aggregated
        surveyed, _ = admit(among.tolist(), backend.run(orders.make(among.tolist(), "survey")), layout)
        selector = method.selector.observe(selector, state.params, surveyed)
        traffic.models(down=len(among), up=len(surveyed))
    rng = stream(rules.seed, "select", state.round)
    candidates = method.selector.candidates(ledger, among, rules.cohort, rng)
    if LOSS in method.needs:
        ledger = replace(ledger, losses=measure_losses(state, candidates, federation, backend))
        traffic.losses(len(candidates))
    selection = method.selector.select(selector, ledger, candidates, rules.cohort, rng)
    chosen = selection.clients
    clock.lap("select")

    gone = rules.faults.dropped(rules.seed, state.round, chosen)
    working = [client for client in chosen if client not in gone]
    answers = dict(zip(working, backend.run(orders.make(working, "train", selection)), strict=True))
    clock.lap("train")

    dropped = Failure("dropped out")
    updates, refused = admit(chosen, [answers.get(client, dropped) for client in chosen], layout, rules.nonfinite)
    for client, reason in refused.items():
        log.warning("round %d: client %d refused: %s", state.round, client, reason)
    if rules.sizes_from_counts and ledger.label_counts is not None:
        released = np.maximum(np.rint(ledger.label_counts.sum(axis=1)), 1).astype(int)
        updates = [replace(update, num_examples=int(released[update.client])) for update in updates]
    traffic.models(down=len(chosen), up=len(updates))
    traffic.extras(len(chosen), orders.broadcast, updates)
    clock.lap("admit")

    enough = len(updates) >= rules.quorum
    if enough:
        predict = partial(predictions, backend, federation.data.validation_size)
        context = Context(state.params, state.round, ledger, layout, rules.seed, predict)
        weighing = safe_weights(method.weigher, updates, context)
        clock.lap("weigh")
        params, server = method.server.apply(updates, weighing.weights, context, state.server)
        memory = state.memory | {update.client: update.memory for update in updates if update.memory}
    else:
        log.warning("round %d: %d usable updates, quorum %d: the model stays", state.round, len(updates), rules.quorum)
        weighing, params, server = Weighing(np.zeros(len(updates))), state.params, state.server
        memory = state.memory
    clock.lap("aggregate")

    after = State(
        round=state.round + 1,
        params=params,
        selector=method.selector.observe(selection.state, state.params, updates),
        server=server,
        memory=memory,
        skipped=0 if enough else state.skipped + 1,
    )
    inside, test = None, None
    if after.round % rules.evaluate_every == 0:
        test = figures(evaluate(backend, params, "test", np.arange(len(federation.data.test_y))))
        held_out = np.concatenate([federation.holdouts[client] for client in chosen]) if chosen else np.zeros(0, int)
        inside = figures(evaluate(backend, params, "train", held_out)) if len(held_out) else None
    clock.lap("evaluate")
    record = {
        "round": state.round,
        "lr": orders.training.lr,
        "available": len(among),
        "cohort": chosen,
        "reasons": selection.reasons,
        "cohort_entropy": float(entropy_of_counts(federation.label_counts[chosen].sum(axis=0), base="bits")),
        "clients": [
            {
                "client": update.client,
                "examples": update.num_examples,
                "steps": update.num_steps,
                "weight": float(weight),
                "train_loss": update.train_loss,
                "train_loss_last_epoch": update.train_loss_last_epoch,
                **({"loss_terms": dict(update.terms)} if update.terms else {}),
                **({"origin": weighing.origins[i]} if weighing.origins else {}),
            }
            for i, (update, weight) in enumerate(zip(updates, weighing.weights, strict=True))
        ],
        "refused": [{"client": client, "reason": reason} for client, reason in refused.items()],
        "skipped": not enough,
        "effective_cohort": float(effective_cohort(weighing.weights)) if enough else 0.0,
        "train_loss": float(np.mean([update.train_loss for update in updates])) if updates else None,
        "bytes_down": traffic.down,
        "bytes_up": traffic.up,
        "test": test,
        "id": inside,
        "seconds": {**clock.laps, "clients": sum(update.seconds for update in updates)},
    }
    return after, record


def measure_losses(
    state: State, candidates: NDArray[np.int64], federation: Federation, backend: Backend
) -> NDArray[np.float64]:
    """The mean loss of the current model on each candidate's training data; NaN for all others and for failures."""
    losses = np.full(len(federation.shards), np.nan)
    orders = [EvaluateOrder(state.params, "train", federation.shards[client]) for client in candidates]
    for client, tally in zip(candidates, backend.run(orders), strict=True):
        if not isinstance(tally, Failure):
            losses[client] = tally.loss / len(federation.shards[client])
    return losses


class _Orders:
    """Makes the work orders of a round."""

    def __init__(self, state: State, method: Method, rules: Rules, federation: Federation) -> None:
        self.state, self.method, self.rules, self.federation = state, method, rules, federation
        self.training = replace(rules.training, lr=rules.training.lr * rules.lr_decay**state.round)
        self.broadcast = method.server.broadcast(state.server)

    def make(self, clients: Iterable[int], purpose: str, selection: Selection | None = None) -> list[WorkOrder]:
        """One order a client; faults decide how many epochs it manages."""
        rules, pool = self.rules, len(self.federation.shards)
        return [
            WorkOrder(
                client=client,
                round=self.state.round,
                seed=rules.seed,
                params=self.state.params,
                objective=self.method.objective,
                training=replace(
                    self.training,
                    epochs=rules.faults.epochs(rules.seed, self.state.round, client, pool, self.training.epochs),
                ),
                cost=int(self.federation.sizes[client]),
                memory=self.state.memory.get(client, {}),
                purpose=purpose,
                needs=self.method.needs,
                limits=selection.limits.get(client) if selection is not None else None,
                rule=self.method.server,
                broadcast=self.broadcast,
            )
            for client in clients
        ]


class _Traffic:
    """Bytes between server and clients: float32 models, numbers of eight bytes."""

    def __init__(self, layout: Layout) -> None:
        self._model = layout.nbytes
        self.down = self.up = 0

    def models(self, *, down: int, up: int) -> None:
        self.down += down * self._model
        self.up += up * self._model

    def released(self, ledger: Ledger, clients: NDArray[np.int64]) -> None:
        """Label counts and their summaries, once."""
        for table in (ledger.label_counts, ledger.summaries):
            self.up += sum(table[client].nbytes for client in clients) if table is not None else 0

    def losses(self, clients: int) -> None:
        self.down += clients * self._model
        self.up += clients * 8

    def extras(self, clients: int, broadcast: PartState, updates: list[Update]) -> None:
        """What goes along with the models, both ways."""
        self.down += clients * sum(array.nbytes for array in broadcast.values())
        self.up += sum(array.nbytes for update in updates for array in update.facts.values())


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = now - self._last
        self._last = now
