"""One federated round: select, train, admit, weigh, aggregate, record.

Read this first. Everything a round needs comes in as an argument, everything it changes goes out in the new
:class:`~entrofed.types.State`; nothing here knows which method runs or where the work is done.
"""

import logging
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from entrofed.admit import NonFinite, admit
from entrofed.client import WorkOrder
from entrofed.evaluate import evaluate, figures
from entrofed.federation import Federation
from entrofed.info.entropy import effective_cohort, entropy_of_counts
from entrofed.params import Layout
from entrofed.seeds import stream
from entrofed.types import Backend, Context, Method, State, Training, Update, Weigher, Weights

log = logging.getLogger("entrofed")


@dataclass(frozen=True)
class Rules:
    """What is the same in every round of a run, besides the method."""

    seed: int
    cohort: int
    quorum: int
    nonfinite: NonFinite
    training: Training
    lr_decay: float
    evaluate_every: int


def run_round(
    state: State, method: Method, rules: Rules, federation: Federation, layout: Layout, backend: Backend
) -> tuple[State, dict[str, Any]]:
    """Play one round; returns the state after it and its record."""
    clock = _Clock()
    among = federation.participants[federation.sizes[federation.participants] > 0]
    rng = stream(rules.seed, "select", state.round)
    chosen, selector = method.selector.select(state.selector, among, rules.cohort, rng)
    clock.lap("select")

    training = replace(rules.training, lr=rules.training.lr * rules.lr_decay**state.round)
    orders = [
        WorkOrder(
            client=client,
            round=state.round,
            seed=rules.seed,
            params=state.params,
            objective=method.objective,
            training=training,
            cost=int(federation.sizes[client]),
            memory=state.memory.get(client, {}),
        )
        for client in chosen
    ]
    answers = backend.run(orders)
    clock.lap("train")

    updates, refused = admit(chosen, answers, layout, rules.nonfinite)
    for client, reason in refused.items():
        log.warning("round %d: client %d refused: %s", state.round, client, reason)
    clock.lap("admit")

    context = Context(state.params, state.round, federation.label_counts)
    enough = len(updates) >= rules.quorum
    if enough:
        weights = safe_weights(method.weigher, updates, context)
        clock.lap("weigh")
        params, server = method.server.apply(state.params, updates, weights, state.server)
    else:
        log.warning(
            "round %d: %d usable updates, quorum is %d: the model stays",
            state.round,
            len(updates),
            rules.quorum,
        )
        weights, params, server = np.zeros(0), state.params, state.server
    clock.lap("aggregate")

    after = State(
        round=state.round + 1,
        params=params,
        selector=selector,
        server=server,
        memory={**state.memory, **{update.client: update.memory for update in updates if update.memory}},
        skipped=0 if enough else state.skipped + 1,
    )
    test = None
    if after.round % rules.evaluate_every == 0:
        test = figures(evaluate(backend, params, "test", np.arange(len(federation.data.test_y))))
    clock.lap("evaluate")
    record = {
        "round": state.round,
        "lr": training.lr,
        "cohort": chosen,
        "cohort_entropy": float(entropy_of_counts(federation.label_counts[chosen].sum(axis=0), base="bits")),
        "clients": [
            {
                "client": update.client,
                "examples": update.num_examples,
                "steps": update.num_steps,
                "weight": float(weights[i]) if enough else 0.0,
                "train_loss": update.train_loss,
                "train_loss_last_epoch": update.train_loss_last_epoch,
            }
            for i, update in enumerate(updates)
        ],
        "refused": [{"client": client, "reason": reason} for client, reason in refused.items()],
        "skipped": not enough,
        "effective_cohort": float(effective_cohort(weights)) if enough else 0.0,
        "train_loss": float(np.mean([update.train_loss for update in updates])) if updates else None,
        "bytes_down": len(chosen) * layout.nbytes,
        "bytes_up": len(updates) * layout.nbytes,
        "test": test,
        "seconds": {**clock.laps, "clients": sum(update.seconds for update in updates)},
    }
    return after, record


def safe_weights(weigher: Weigher, updates: list[Update], context: Context) -> Weights:
    """The weigher's weights; where they are no weights at all, data-size weights, and a word about it."""
    weights: Weights = np.asarray(weigher.weigh(updates, context), np.float64)
    if weights.shape == (len(updates),) and np.isfinite(weights).all() and (weights >= 0).all() and weights.sum() > 0:
        weights = weights / weights.sum()
    else:
        log.warning("round %d: %s gave unusable weights %s: data size is used", context.round, weigher.name, weights)
        sizes = np.array([update.num_examples for update in updates], np.float64)
        weights = sizes / sizes.sum()
    return weights


class _Clock:
    """Seconds by phase."""

    def __init__(self) -> None:
        self.laps: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, phase: str) -> None:
        now = time.perf_counter()
        self.laps[phase] = now - self._last
        self._last = now
