"""A client's side of secure aggregation: three questions and one masked message a round, each once.

What it must remember from message to message lies in the state that Flower keeps for it at the node. It tells of
another client either the share of its seed or that of its key, never both; it tells nothing if fewer than the threshold
would be in the sum, and nothing a second time: so no server learns more than one sum of at least so many clients.
"""

import json
from dataclasses import replace
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Context, MetricRecord, RecordDict
from numpy.typing import NDArray

from entrofed.core.params import Layout
from entrofed.core.parts import TrainTask
from entrofed.core.types import Update
from entrofed.errors import DataError
from entrofed.flower.arrays import read_state, write_state
from entrofed.flower.identity import identity_of
from entrofed.flower.masks import Key, digest, fresh_seed, mask, opened, pair_mask, sealed_for, shares_of
from entrofed.flower.wire import METRICS
from entrofed.privacy.fixed_point import Whole, encode
from entrofed.privacy.secure import addend

SECURE, MASKED = "entrofed.secure", "entrofed.masked"
POOLED = "entrofed.pooled"
KEPT, PENDING = "entrofed.kept", "entrofed.pending"
KEYS, SHARES, UNMASK = "secure_keys", "secure_shares", "secure_unmask"
COUNTS = "secure_counts"
LEAST = 2
"""A sum of fewer would be somebody's update."""


def answer_secure(question: dict[str, Any], context: Context) -> dict[str, Any]:
    """One of the three questions."""
    return STAGES[question["what"]](question, context)


def _memory(context: Context, session: Any, stage: str) -> dict[str, Any]:
    """What is remembered of this round; a DataError if another stage is due."""
    record = context.state.config_records.get(SECURE)
    found: dict[str, Any] = {} if record is None else json.loads(str(record["memory"]))
    if found.get("session") != session or found.get("due") != stage:
        raise DataError(f"{stage} is not due in this round; nothing is told")
    return found


def _remember(context: Context, memory: dict[str, Any]) -> None:
    context.state[SECURE] = ConfigRecord({"memory": json.dumps(memory)})


def _keys(question: dict[str, Any], context: Context) -> dict[str, Any]:
    """Two fresh public keys, and what the seed of the own mask is known by."""
    lock, pair, seed = Key.fresh(), Key.fresh(), fresh_seed()
    memory = {
        "session": str(question["session"]),
        "due": SHARES,
        "lock": lock.secret.hex(),
        "pair": pair.secret.hex(),
        "seed": seed.hex(),
    }
    _remember(context, memory)
    keys = {"lock": lock.public.hex(), "pair": pair.public.hex(), "seed": digest(seed).hex()}
    return identity_of(context).signed(memory["session"], keys)


def _shares(question: dict[str, Any], context: Context) -> dict[str, Any]:
    """Shares of the own key and seed for every client, readable by that one only."""
    memory = _memory(context, str(question["session"]), SHARES)
    publics: dict[str, dict[str, str]] = question["keys"]
    own, threshold = str(question["you"]), int(question["threshold"])
    lock, pair = Key(bytes.fromhex(memory["lock"])), Key(bytes.fromhex(memory["pair"]))
    if publics.get(own, {}).get("pair") != pair.public.hex():
        raise DataError("the list of keys does not hold this client's")
    if not max(LEAST, len(publics) // 2 + 1) <= threshold <= len(publics):
        raise DataError(f"a threshold of {threshold} among {len(publics)} clients; more than half are needed")
    if len({one["pair"] for one in publics.values()}) < len(publics):
        raise DataError("two clients have the same key")
    identity_of(context).check(memory["session"], publics)
    others = sorted(publics, key=int)
    secrets = (bytes.fromhex(memory["seed"]), pair.secret)
    dealt = zip(others, *(shares_of(secret, threshold, len(others)) for secret in secrets), strict=True)
    sealed, kept = {}, {}
    for name, seed, key in dealt:
        words = json.dumps({"from": own, "to": name, "seed": seed.hex(), "key": key.hex()}).encode()
        if name == own:
            kept[name] = {"seed": seed.hex(), "key": key.hex()}
        else:
            sealed[name] = sealed_for(lock.shared(bytes.fromhex(publics[name]["lock"])), words).decode()
    _remember(context, {**memory, "due": "train", "you": own, "threshold": threshold, "keys": publics, "shares": kept})
    return {"shares": sealed}


def kept_here(task: TrainTask, context: Context) -> TrainTask:
    """The task with what the client keeps for itself between rounds: under masks, no server does so for it."""
    return replace(task, client_state=read_state(context.state, KEPT))


def masked_counts(question: dict[str, Any], counts: NDArray[np.float64], context: Context) -> dict[str, Any]:
    """The client's label counts under its masks; in a run, they enter one sum that is unmasked, and no other."""
    if POOLED in context.state:
        raise DataError("this client's label counts are in a sum already; of two, the difference would tell of clients")
    total, memory = _masked(question, encode(counts), context)
    _remember(context, {**memory, "pool": True})
    return {"sum": total.tobytes().hex()}


def masked_update(task: TrainTask, update: Update, content: RecordDict, context: Context, layout: Layout) -> RecordDict:
    """The client's weighted step under its masks, in place of its model.

    What it keeps for its next participation counts once it is asked to unmask a sum that it is in.
    """
    order = json.loads(str(content.config_records[SECURE]["order"]))
    weight = float(order["weight"])
    if not 0 <= weight <= 1:
        raise DataError(f"a weight of {weight}; it is between 0 and 1")
    total, memory = _masked(order, encode(addend(update, task.params, weight, task.rule, layout)), context)
    _remember(context, memory)
    context.state[PENDING] = write_state(update.client_state)
    reply = RecordDict({MASKED: ArrayRecord({"sum": Array(total.view(np.int64))})})
    reply[METRICS] = MetricRecord({"num-examples": 1})
    return reply


def _masked(order: dict[str, Any], total: Whole, context: Context) -> tuple[Whole, dict[str, Any]]:
    """What was encoded, under the client's masks, and what to remember."""
    memory = _memory(context, str(order["session"]), "train")
    own, publics = memory["you"], memory["keys"]
    lock, pair = Key(bytes.fromhex(memory["lock"])), Key(bytes.fromhex(memory["pair"]))
    sent: dict[str, str] = order["shares"]
    if own in sent or not set(sent) < set(publics):
        raise DataError("an order with a list of clients that cannot be")
    if len(sent) + 1 < memory["threshold"]:
        raise DataError(f"only {len(sent) + 1} clients shared their keys; {memory['threshold']} are needed")
    kept = dict(memory["shares"])
    for name, words in sent.items():
        found = json.loads(opened(lock.shared(bytes.fromhex(publics[name]["lock"])), words.encode()))
        if found["from"] != name or found["to"] != own:
            raise DataError("a share that is meant for somebody else")
        kept[name] = {"seed": found["seed"], "key": found["key"]}
    total = total + mask(bytes.fromhex(memory["seed"]), len(total))
    for name in sent:
        total += pair_mask(pair, bytes.fromhex(publics[name]["pair"]), len(total), first=int(own) < int(name))
    return total, {**memory, "due": UNMASK, "shares": kept}


def _unmask(question: dict[str, Any], context: Context) -> dict[str, Any]:
    """Shares of the seeds of those in the sum, and of the keys of those who are missing."""
    memory = _memory(context, str(question["session"]), UNMASK)
    there, shares = {str(name) for name in question["there"]}, memory["shares"]
    if memory["you"] not in there or not there <= set(shares):
        raise DataError("a list of survivors that cannot be; nothing is told")
    if len(there) < memory["threshold"]:
        raise DataError(f"a sum of {len(there)} clients, below the threshold of {memory['threshold']}; nothing is told")
    _remember(context, {"session": memory["session"], "due": "nothing"})  # never again, and nothing is left to tell
    if memory.get("pool"):
        context.state[POOLED] = ConfigRecord({"told": True})
    if PENDING in context.state:
        context.state[KEPT] = context.state.array_records[PENDING]
        del context.state[PENDING]
    seeds = {name: one["seed"] for name, one in shares.items() if name in there}
    return {"seeds": seeds, "keys": {name: one["key"] for name, one in shares.items() if name not in there}}


STAGES = {KEYS: _keys, SHARES: _shares, UNMASK: _unmask}
