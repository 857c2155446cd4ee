"""One federated round: select, train, admit, weigh, aggregate, record.

Read this first. Everything a round needs comes in as an argument, everything it changes goes out in the new
:class:`~entrofed.core.types.State`; nothing here knows which method runs or where the work is done.

:func:`run_round` is the whole of it: :func:`open_round` chooses who trains, the backend lets them train, and
:func:`close_round` makes the next model of what they send. A deployment, where clients answer in their own time, calls
the two halves itself.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.backends.base import Backend
from entrofed.client.alignment import measure_alignment
from entrofed.client.evaluate import LossOrder, evaluate, figures, predictions
from entrofed.client.train import WorkOrder
from entrofed.core.params import Layout, Params
from entrofed.core.records import Books, client_entry
from entrofed.core.seeds import stream
from entrofed.core.tasks import Orders, Rules
from entrofed.core.types import (
    FIRST_UPDATE,
    LOSS,
    Context,
    Failure,
    Ledger,
    Method,
    PartState,
    Selection,
    State,
    Update,
    Weighing,
)
from entrofed.core.validation import admit
from entrofed.core.weighing import safe_weights
from entrofed.data.federation import Federation
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.info.prediction import Predictions

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class Opened:
    """The first half of a round."""

    available: int
    """Clients that could have been chosen."""
    selection: Selection
    work: tuple[WorkOrder, ...]
    """Of those chosen that do not drop out."""
    broadcast: PartState
    lr: float


@dataclass(frozen=True)
class Closed:
    """The second half of a round: what came of it, and how."""

    state: State
    updates: list[Update]
    weighing: Weighing
    refused: dict[int, str]
    enough: bool
    """Whether there were as many updates as the quorum asks for; if not, the model stays."""


def open_round(
    state: State,
    method: Method,
    rules: Rules,
    ledger: Ledger,
    participants: NDArray[np.int64],
    layout: Layout,
    backend: Backend,
    books: Books,
) -> Opened:
    """Choose who trains."""
    orders = Orders(state, method, rules, ledger.sizes)
    broadcast = method.server.broadcast(state.server)
    there = rules.faults.present(rules.seed, state.round, rules.rounds, len(ledger.sizes))
    among = participants[(there & (ledger.sizes > 0))[participants]]
    if state.round == 0:
        books.released(ledger, participants)

    selector = state.selector
    if state.round == 0 and FIRST_UPDATE in method.needs:  # everybody trains once; nothing of it is aggregated
        survey = [orders.make(client, state.params, broadcast, purpose="survey") for client in among.tolist()]
        surveyed, _ = admit(among.tolist(), backend.run(survey), layout)
        selector = method.selector.observe(selector, state.params, surveyed)
        books.models(down=len(among), up=len(surveyed))
    rng = stream(rules.seed, "select", state.round)
    candidates = method.selector.candidates(ledger, among, rules.cohort, rng)
    if LOSS in method.needs:
        ledger = replace(ledger, losses=measure_losses(state.params, candidates, ledger.sizes, backend))
        books.losses(len(candidates))
    selection = method.selector.select(selector, ledger, candidates, rules.cohort, rng)
    gone = rules.faults.dropped(rules.seed, state.round, selection.clients)
    work = tuple(
        orders.make(client, state.params, broadcast, limits=selection.limits.get(client))
        for client in selection.clients
        if client not in gone
    )
    return Opened(len(among), selection, work, broadcast, orders.training.lr)


def close_round(
    state: State,
    opened: Opened,
    answers: Sequence[Any],
    method: Method,
    rules: Rules,
    ledger: Ledger,
    layout: Layout,
    predict: Callable[[Sequence[Params]], Predictions],
    books: Books,
) -> Closed:
    """Make the next model of what came back; ``answers[i]`` is that to ``opened.work[i]``."""
    chosen = opened.selection.clients
    given = {order.client: answer for order, answer in zip(opened.work, answers, strict=True)}
    dropped = Failure("dropped out")
    updates, refused = admit(chosen, [given.get(client, dropped) for client in chosen], layout, rules.nonfinite)
    for client, reason in refused.items():
        log.warning("round %d: client %d refused: %s", state.round, client, reason)
    if rules.sizes_from_counts and ledger.label_counts is not None:
        released = np.maximum(np.rint(ledger.label_counts.sum(axis=1)), 1).astype(int)
        updates = [replace(update, num_examples=int(released[update.client])) for update in updates]
    books.models(down=len(chosen), up=len(updates))
    books.extras(len(chosen), opened.broadcast, updates)
    books.lap("admit")

    enough = len(updates) >= rules.quorum
    if enough:
        context = Context(state.params, state.round, ledger, layout, rules.seed, predict)
        weighing = safe_weights(method.weigher, updates, context)
        books.lap("weigh")
        params, server = method.server.apply(updates, weighing.weights, context, state.server)
        memory = state.memory | {update.client: update.memory for update in updates if update.memory}
    else:
        log.warning("round %d: %d usable updates, quorum %d: the model stays", state.round, len(updates), rules.quorum)
        weighing, params, server = Weighing(np.zeros(len(updates))), state.params, state.server
        memory = state.memory
    books.lap("aggregate")
    after = State(
        round=state.round + 1,
        params=params,
        selector=method.selector.observe(opened.selection.state, state.params, updates),
        server=server,
        memory=memory,
        skipped=0 if enough else state.skipped + 1,
    )
    return Closed(after, updates, weighing, refused, enough)


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
    books = Books(layout)
    opened = open_round(state, method, rules, ledger, federation.participants, layout, backend, books)
    books.lap("select")
    answers = backend.run(opened.work)
    books.lap("train")
    predict = partial(predictions, backend, federation.data.validation_size)
    closed = close_round(state, opened, answers, method, rules, ledger, layout, predict, books)

    after, chosen = closed.state, opened.selection.clients
    alignment = None
    if closed.enough and rules.alignment_every and after.round % rules.alignment_every == 0:
        step = state.params, closed.updates, closed.weighing.weights, opened.lr
        alignment = measure_alignment(backend, federation, layout, *step)
    inside, test = None, None
    if rules.evaluated(after.round):
        test = figures(*evaluate(backend, [after.params], "test", np.arange(len(federation.data.test_y))))
        held_out = np.concatenate([federation.holdouts[client] for client in chosen]) if chosen else np.zeros(0, int)
        inside = figures(*evaluate(backend, [after.params], "train", held_out)) if len(held_out) else None
    books.lap("evaluate")
    pooled = federation.label_counts[chosen].sum(axis=0)
    measured = {"test": test, "id": inside, "alignment": alignment}
    return after, record_of(opened, closed, books, float(entropy_of_counts(pooled, base="bits")), measured)


def record_of(
    opened: Opened, closed: Closed, books: Books, cohort_entropy: float | None, measured: dict[str, Any]
) -> dict[str, Any]:
    """What is written down of a round."""
    weighing, updates = closed.weighing, closed.updates
    return {
        "round": closed.state.round - 1,
        "lr": opened.lr,
        "available": opened.available,
        "cohort": opened.selection.clients,
        "reasons": opened.selection.reasons,
        "cohort_entropy": cohort_entropy,
        "clients": [
            client_entry(update, weight, weighing.origins[i] if weighing.origins else None)
            for i, (update, weight) in enumerate(zip(updates, weighing.weights, strict=True))
        ],
        "refused": [{"client": client, "reason": reason} for client, reason in closed.refused.items()],
        "skipped": not closed.enough,
        "effective_cohort": float(effective_cohort(weighing.weights)) if closed.enough else 0.0,
        "train_loss": float(np.mean([update.train_loss for update in updates])) if updates else None,
        "bytes_down": books.down,
        "bytes_up": books.up,
        **measured,
        "seconds": {**books.laps, "clients": sum(update.seconds for update in updates)},
    }


def measure_losses(
    params: Params, candidates: NDArray[np.int64], sizes: NDArray[np.int64], backend: Backend
) -> NDArray[np.float64]:
    """The mean loss of a model on each candidate's training data; NaN for all others and for failures."""
    losses = np.full(len(sizes), np.nan)
    orders = [LossOrder(params, int(client), int(sizes[client])) for client in candidates]
    for client, loss in zip(candidates, backend.run(orders), strict=True):
        if not isinstance(loss, Failure):
            losses[client] = loss
    return losses
