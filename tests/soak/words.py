"""Hostile facts, and hostile replies of Flower clients: none raises, and none that is no fact is believed."""

import json
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, MetricRecord, RecordDict
from tests.soak.hostile import NUMBERS, WEIRD, honest, stage

from entrofed.core.admission import bound
from entrofed.core.parts import TrainTask
from entrofed.core.types import Failure
from entrofed.core.validation import admit, fact_problem
from entrofed.facts import FACTS
from entrofed.flower.arrays import Format
from entrofed.flower.wire import ARRAYS, METRICS, UPDATE, read_update, write_update

MAY_DIVERGE = ("first_update", "loss", "squared_loss")
"""Not finite of a model that diverged: the parts that listen to these must cope."""
VALUES: tuple[Any, ...] = (0, -1, 2**40, 3.5, float("nan"), float("inf"), 1e300, -0.0, [1.0, 2.0], [])


def campaign(seed: int, number: int = 60) -> dict[str, int]:
    """Facts of every kind, and replies."""
    rng = np.random.default_rng([seed, 1])
    found = {"facts": 0, "replies": 0, "raised": 0, "nonfinite": 0}
    for _ in range(number):
        for fact in FACTS.values():
            value = _value(rng)
            found["facts"] += 1
            try:
                wrong = fact_problem(fact(), value, 3)
                kind = np.asarray(value).dtype.kind if wrong is None else ""
                believed = wrong is None and fact.name not in MAY_DIVERGE
                found["nonfinite"] += believed and (kind not in "iuf" or not np.isfinite(np.asarray(value)).all())
            except Exception:
                found["raised"] += 1
    chosen = stage("average", "data_size")
    job, state = chosen.job, chosen.state
    task = TrainTask(0, 0, 7, state.params, job.method.objective, job.rules.training)
    form = Format.by_layout(job.layout)
    for _ in range(number):
        content = write_update(honest(task, int(job.clients.sizes[0]), rng, job.layout), form)
        _tamper(content, rng)
        found["replies"] += 1
        try:
            answer = read_update(content, task, form, ours=True)
            if not isinstance(answer, Failure):
                updates, _ = admit(job, [0], [answer])
                usable, _, _ = bound(job, {0: task}, updates, {})
                found["nonfinite"] += any(update.params.nonfinite for update in usable)
        except Exception:
            found["raised"] += 1
    return found


def _value(rng: np.random.Generator) -> Any:
    kind = int(rng.integers(5))
    if kind == 0:
        return NUMBERS[int(rng.integers(len(NUMBERS)))]
    shape = tuple(rng.integers(0, 5, int(rng.integers(0, 3))).tolist())
    value = rng.normal(size=shape) * 10.0 ** rng.integers(-3, 12)
    if kind == 1 and value.size:
        value.flat[int(rng.integers(value.size))] = WEIRD[int(rng.integers(len(WEIRD)))]
    if kind == 2:
        return rng.dirichlet(np.ones(3)) * (1 + 10.0 ** rng.uniform(-8, 1))
    return value.astype(object) if kind == 3 else np.abs(value)


def _tamper(content: RecordDict, rng: np.random.Generator) -> None:
    kind = int(rng.integers(4))
    if kind == 0:
        numbers = dict(content.metric_records[METRICS])
        key = str(rng.choice([*numbers, "more"]))
        numbers[key] = VALUES[int(rng.integers(len(VALUES)))]
        content[METRICS] = MetricRecord(numbers)
    elif kind == 1:
        text = str(rng.choice(["{", "[]", "null", '{"a": 1}', json.dumps({"a": [1]}), "[" * 2000]))
        content[UPDATE] = ConfigRecord({"client": int(rng.integers(-1, 3)), "terms": text})
    elif kind == 2:
        del content[str(rng.choice(list(content)))]
    else:
        arrays = content.array_records[ARRAYS]
        name = str(rng.choice(list(arrays)))
        data = bytearray(arrays[name].data)
        data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        arrays[name].data = bytes(data)
