"""One federated round: select, train, admit, weigh, aggregate, record.

Read this first. Everything a round needs comes in as an argument, everything it changes goes out in the new
:class:`~entrofed.types.State`; nothing here knows which method runs or where the work is done.
"""

import logging
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.accounts import Clock, Traffic, client_entry
from entrofed.admit import admit
from entrofed.alignment import measure_alignment
from entrofed.backend import Backend
from entrofed.evaluate import EvaluateOrder, evaluate, figures, predictions
from entrofed.federation import Federation
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.orders import Orders, Rules
from entrofed.params import Layout
from entrofed.seeds import stream
from entrofed.types import FIRST_UPDATE, LOSS, Context, Failure, Ledger, Method, State, Weighing
from entrofed.weigh import safe_weights

log = logging.getLogger("entrofed")


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
    clock = Clock()
    traffic = Traffic(layout)
    orders = Orders(state, method, rules, federation)
    broadcast = method.server.broadcast(state.server)
    there = rules.faults.present(rules.seed, state.round, rules.rounds, len(ledger.sizes))
    among = federation.participants[(there & (ledger.sizes > 0))[federation.participants]]
    if state.round == 0:
        traffic.released(ledger, federation.participants)

    selector = state.selector
    if state.round == 0 and FIRST_UPDATE in method.needs:  # everybody trains once; nothing of it is aggregated
        survey = [orders.make(client, state.params, broadcast, purpose="survey") for client in among.tolist()]
        surveyed, _ = admit(among.tolist(), backend.run(survey), layout)
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
    work = [orders.make(client, state.params, broadcast, limits=selection.limits.get(client)) for client in working]
    answers = dict(zip(working, backend.run(work), strict=True))
    clock.lap("train")

    dropped = Failure("dropped out")
    updates, refused = admit(chosen, [answers.get(client, dropped) for client in chosen], layout, rules.nonfinite)
    for client, reason in refused.items():
        log.warning("round %d: client %d refused: %s", state.round, client, reason)
    if rules.sizes_from_counts and ledger.label_counts is not None:
        released = np.maximum(np.rint(ledger.label_counts.sum(axis=1)), 1).astype(int)
        updates = [replace(update, num_examples=int(released[update.client])) for update in updates]
    traffic.models(down=len(chosen), up=len(updates))
    traffic.extras(len(chosen), broadcast, updates)
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
    alignment = None
    if enough and rules.alignment_every and after.round % rules.alignment_every == 0:
        alignment = measure_alignment(
            backend, federation, layout, state.params, updates, weighing.weights, orders.training.lr
        )
    inside, test = None, None
    if after.round % rules.evaluate_every == 0:
        test = figures(*evaluate(backend, [params], "test", np.arange(len(federation.data.test_y))))
        held_out = np.concatenate([federation.holdouts[client] for client in chosen]) if chosen else np.zeros(0, int)
        inside = figures(*evaluate(backend, [params], "train", held_out)) if len(held_out) else None
    clock.lap("evaluate")
    record = {
        "round": state.round,
        "lr": orders.training.lr,
        "available": len(among),
        "cohort": chosen,
        "reasons": selection.reasons,
        "cohort_entropy": float(entropy_of_counts(federation.label_counts[chosen].sum(axis=0), base="bits")),
        "clients": [
            client_entry(update, weight, weighing.origins[i] if weighing.origins else None)
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
        "alignment": alignment,
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
