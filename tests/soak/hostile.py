"""Hostile updates for every server rule and weigher: nothing raises, and no model is ruined."""

import sys
import traceback
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch

from entrofed.core.job import Job, Rules
from entrofed.core.params import Layout, Params
from entrofed.core.parts import TrainTask
from entrofed.core.records import Traffic
from entrofed.core.round import Evaluated as Nothing
from entrofed.core.round import RoundPlan, admitted, finish_round, round_record
from entrofed.core.types import ClientTable, State, Update
from entrofed.experiment.config import MethodSection
from entrofed.experiment.run_folder import json_line
from entrofed.info.prediction import Predictions
from entrofed.models.classifier import Classifier
from entrofed.registry import known

CLIENTS, CLASSES, CROWDS = 12, 3, 8
WEIRD = (np.nan, np.inf, -np.inf, 3.4e38, -3.4e38, 1e30, -1e20, 1e7, 0.0, -1.0, 1e-40)
NUMBERS: tuple[Any, ...] = (
    *(0, -1, 1, 10**9, 10**9 + 1, 2**63 - 1, 2**70, True, None, "7", 3.5, np.nan, np.inf, [], np.ones(3)),
    *(np.int8(5), np.int64(10**8), np.float64(4.0), np.bool_(True), 1 + 2j),
)


def network() -> torch.nn.Module:
    """A small one with BatchNorm."""
    return Classifier(torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.BatchNorm1d(5)), torch.nn.Linear(5, CLASSES))


def predict(models: Any) -> Predictions:
    """What models say of four samples: something that depends on each, and is a distribution."""
    with np.errstate(all="ignore"):
        logits = np.stack([np.resize(np.clip(model.values, -50, 50), (4, CLASSES)) for model in models])
    odds = np.exp(logits.astype(np.float64))
    return Predictions.of(odds / odds.sum(axis=2, keepdims=True))


@dataclass(frozen=True)
class Stage:
    """A job that is ready for its first round."""

    job: Job
    state: State


def pairs() -> list[tuple[str, str]]:
    """Every server rule with every weigher; of those around another one, what they are around by default."""
    return [(server, weigher) for server in known("server") for weigher in known("weigher")]


@cache
def stage(server: str, weigher: str) -> Stage:
    """For a server rule and a weigher."""
    objective = "branch" if server == "concat" else None
    rule: Any = {"name": server, "clusters": 2, "encoder_rounds": 2} if server == "concat" else server
    spec: Any = {"name": weigher, "weigher": "label_entropy"} if weigher == "estimated_counts" else weigher
    more = {} if server == "concat" else {"selector": "oort"}  # the one that listens to what comes with updates
    section = MethodSection(server=rule, weigher=spec, objective=objective, batch_size=5, lr=0.1, epochs=2, **more)
    method = section.recipe
    with torch.random.fork_rng():
        torch.manual_seed(1)
        layout = Layout.of(first := method.server.network(network)())
    rng = np.random.default_rng(1)
    counts = rng.integers(1, 9, (CLIENTS, CLASSES)).astype(np.float64)
    facts: dict[str, Any] = {}
    for fact in method.facts_told("once"):
        told = [fact.of_counts(row) for row in counts]  # type: ignore[attr-defined]
        facts[fact.name] = np.array(told) if fact.name == "label_counts" else told
    sizes = counts.sum(axis=1).astype(np.int64)
    table = ClientTable(sizes, CLASSES, "iid", layout.trainable, facts, sized=True)
    rules = Rules(rounds=4, cohort=6, training=section.training())
    everybody = np.arange(CLIENTS)
    job = Job(method, rules, table, everybody, layout, 7, predict)
    params = layout.read(first)
    selector = method.selector.init(table, everybody)
    return Stage(job, State(0, params, selector, method.server.init(params, table, everybody)))


def honest(task: TrainTask, size: int, rng: np.random.Generator, layout: Layout) -> Update:
    """What a client may well send."""
    values = task.params.values.copy()
    moves = rng.normal(0, 0.01 * rng.uniform(0.2, 5), len(values)).astype(np.float32)
    moves[layout.trainable :] = np.abs(moves[layout.trainable :])
    steps = task.training.epochs * -(-size // task.training.batch_size)
    steps = steps if task.rule is None or (most := task.rule.max_steps(task)) is None else min(most, steps)
    update = Update(task.client, Params(values + moves, task.params.counters + steps), size, steps, 1.0, 0.9)
    soft = rng.dirichlet(np.ones(CLASSES))
    facts = {fact.name: soft if fact.name == "mean_prediction" else np.array(soft[0]) for fact in task.facts}
    update = replace(update, facts=facts)
    return update if task.rule is None else task.rule.report(task, update)


def spoil(update: Update, task: TrainTask, rng: np.random.Generator) -> Any:
    """Something that a client should not send, or not so."""
    values, counters = update.params.values.copy(), update.params.counters.copy()
    place = rng.integers(len(values), size=int(rng.integers(1, 4)))
    kind = int(rng.integers(14))
    number = NUMBERS[int(rng.integers(len(NUMBERS)))]
    if kind == 0:
        values[place] = WEIRD[int(rng.integers(len(WEIRD)))]
    elif kind == 1:
        with np.errstate(all="ignore"):
            factor = 10.0 ** rng.uniform(-2, 38) * rng.choice([-1, 1])
            values = (task.params.values + factor * (values - task.params.values)).astype(np.float32)
    elif kind == 2:
        values = values[: int(rng.integers(len(values)))]
    elif kind == 3:
        values = values.astype(rng.choice(["f8", "f2", "i4", "c8", "?"]))
    elif kind == 4:
        counters = np.array(rng.choice([-1, 2**62, 0, 10**9], len(counters)), np.int64)
    elif kind == 5:
        return replace(update, num_examples=number)
    elif kind == 6:
        return replace(update, num_steps=number)
    elif kind == 7:
        return replace(update, train_loss=number, train_loss_last_epoch=number)
    elif kind == 8:
        bad = {name: _other(fact, rng) for name, fact in update.facts.items()}
        return replace(update, facts=bad if rng.random() < 0.8 else number)
    elif kind == 9:
        return replace(update, facts={**update.facts, "more": np.full(2, WEIRD[int(rng.integers(len(WEIRD)))])})
    elif kind == 10:
        return replace(update, client_state=number if rng.random() < 0.5 else {"velocity": number})
    elif kind == 11:
        return replace(update, client=number)
    elif kind == 12:
        return replace(update, params=number)
    elif kind == 13:
        lied = replace(update, num_examples=int(10 ** rng.uniform(0, 9)), num_steps=int(10 ** rng.uniform(0, 9)))
        return lied if task.rule is None else task.rule.report(task, replace(lied, facts={}))
    return replace(update, params=Params(values, counters))


def _other(fact: Any, rng: np.random.Generator) -> Any:
    choice = int(rng.integers(6))
    if choice == 0:
        return fact * (1 + 10.0 ** rng.uniform(-8, 3))
    if choice == 1:
        return np.full_like(fact, WEIRD[int(rng.integers(len(WEIRD)))])
    if choice == 2:
        return fact.ravel()[:-1]
    if choice == 3:
        return fact.astype(object)
    if choice == 4:
        return NUMBERS[int(rng.integers(len(NUMBERS)))]
    return -fact


def round_of(chosen: Stage, seed: int, hostile: int) -> tuple[State, int]:
    """The state after a round of six clients, some of them hostile; and how many inputs were."""
    job, state = chosen.job, chosen.state
    rng = np.random.default_rng([seed, hostile])
    selection = job.method.selector.select(state.selector, job.clients, np.arange(CLIENTS), 6, rng)
    cohort = selection.clients
    broadcast = job.method.server.broadcast(state.server)
    tasks = tuple(
        TrainTask(
            client,
            state.round,
            job.seed,
            state.params,
            job.method.objective,
            job.training_in(state),
            facts=job.method.facts_told("with_update"),
            rule=job.method.server.client,
            broadcast=broadcast,
            client_state=state.client_states.get(client, {}),
        )
        for client in cohort
    )
    answers: list[Any] = [honest(task, int(job.clients.sizes[task.client]), rng, job.layout) for task in tasks]
    for i in range(hostile):
        with np.errstate(all="ignore"):
            answers[i] = spoil(answers[i], tasks[i], rng)
    plan = RoundPlan(selection, tasks, 12, broadcast, 0.1, Traffic(), {}, state.admission)
    outcome = finish_round(job, state, plan, answers)
    record = round_record(plan, outcome, Nothing(), {})
    json_line(record)
    return outcome.state, hostile + _at_the_door(job, tasks, outcome.state, rng)


def _at_the_door(job: Job, tasks: tuple[TrainTask, ...], state: State, rng: np.random.Generator) -> int:
    """Cohorts that are hostile as a whole, up to admission; raises if one gets in that is no model, or too far."""
    good = [honest(task, int(job.clients.sizes[task.client]), rng, job.layout) for task in tasks]
    for _ in range(CROWDS):
        with np.errstate(all="ignore"):
            answers = [spoil(update, task, rng) for update, task in zip(good, tasks, strict=True)]
        usable, _, _ = admitted(job, [task.client for task in tasks], tasks, answers, state.admission)
        for update in usable:
            moved = update.params.moved(tasks[0].params, job.layout)
            if update.params.nonfinite or moved.parameters > 1000 * (1 + moved.parameters_before):
                raise AssertionError(f"an update that went {moved.parameters:g} far was admitted")
            if update.num_examples > job.clients.sizes[update.client]:
                raise AssertionError(f"{update.num_examples} examples were believed")
    return CROWDS * len(tasks)


def campaign(seed: int, rounds: int = 4) -> dict[str, int]:
    """One seed: every server rule and weigher, some rounds with hostile clients; what came of it, counted."""
    found = {"inputs": 0, "nonfinite": 0, "poisoned": 0, "raised": 0}
    for server, weigher in pairs():
        chosen = stage(server, weigher)
        for number in range(rounds):
            before = chosen.state
            try:
                after, inputs = round_of(chosen, 1000 * seed + number, hostile=1 + (seed + number) % 2)
            except Exception:
                found["raised"] += 1
                sys.stderr.write(f"{server}, {weigher}, seed {seed}, round {number}:\n{traceback.format_exc()}")
                continue
            found["inputs"] += inputs
            found["nonfinite"] += bool(after.params.nonfinite)
            far = after.params.moved(before.params, chosen.job.layout)
            found["poisoned"] += far.parameters > 100 * (1 + far.parameters_before)
            chosen = replace(chosen, state=after)
    return found
