"""Whether an update is of a size that training gives: beside the cohort's, and beside those of recent rounds.

One client that is wrong by a factor of a million ruins every average. So the distance that each update went from where
it started (trainable parameters over the round's learning rate, and float buffers) is compared with those of the
others of the round and of the last :data:`MEMORY` that were admitted. It is too far if it is above

    ``exp(m + max(log FACTOR, SCALES s))``, m the median of the logarithms and s their scaled median deviation,

and also above the length of the model that it started from. The deviation counts up to a factor of :data:`MOST`. Where
there is nothing to compare with, above :data:`ALONE` times the length of the model and of a vector of ones.

:data:`FACTOR` is far above what clients do that only differ: in 145 settings of ``benchmarks/admission.py`` no honest
update went further than 11.4 times the median; in trials at rates where training fails, 22 times. Who stays inside can
still lie: against that are the robust server rules.

A peer does not know where its neighbours started: it takes its own model for it. What goes along with a neighbour's
model and depends on its start (a control variate's change) can then not be recomputed, and must be no longer than
:data:`FACTOR` times what would follow.

Numbers of examples are bounded by what the client released or, where nothing is known, by what clients say of
themselves; numbers of steps by what was ordered.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import exp, inf, isnan, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.job import Job
from entrofed.core.params import Moved, Params, distance
from entrofed.core.parts import TrainTask
from entrofed.core.types import LABEL_COUNTS, PartState, Training, Update

logger = logging.getLogger("entrofed")

FACTOR, SCALES, MOST, ALONE = 100.0, 5.0, 1e4, 100.0
MEMORY = 128
FEW = 16
"""Up to so many distances, an update's own is left out where it is compared: it would move the median."""
SIZES = 10.0
"""How many times the median number of examples a client may at least claim."""
GROWTH, NOISE = 2.0, 100.0
"""How many times its first claim, or the sum of its released counts and so many more, which may be noised."""

PARAMETERS, BUFFERS, CLAIMS = "parameters", "buffers", "claims"
CLAIMED = "client %d claims %d examples; it counts for %d"


def ordered_steps(training: Training, examples: int, most: int | None = None) -> tuple[int, int]:
    """The fewest and the most steps that training on so many examples can take: BatchNorm skips a batch of one.

    >>> from entrofed.experiment.config import MethodSection
    >>> ordered_steps(MethodSection(epochs=2, batch_size=4).training(), 9)
    (4, 6)
    """
    low, high = examples // training.batch_size, -(-examples // training.batch_size)
    limit = high * training.epochs if most is None else most
    return max(min(low * training.epochs, limit), 1), max(min(high * training.epochs, limit), 1)


def median(values: NDArray[np.float64]) -> float:
    """What :func:`numpy.median` finds, which takes five times as long for so few values.

    >>> median(np.array([3.0, 1.0, 2.0])), median(np.array([1.0, 2.0])), median(np.array([1.0, np.nan]))
    (2.0, 1.5, nan)
    """
    ordered = np.sort(values)
    low, high, last = ordered[[(len(ordered) - 1) // 2, len(ordered) // 2, -1]].tolist()
    return last if isnan(last) else float(low + high) / 2


def limit_of(distances: NDArray[np.float64]) -> float:
    """The largest distance that is not too far beside these; logarithms in, a factor of the same unit out."""
    middle = median(distances)
    spread = 1.4826 * median(np.abs(distances - middle))
    return middle + min(max(log(FACTOR), SCALES * spread), log(MOST))


def _limit_beside(distances: NDArray[np.float64]) -> float:
    return exp(min(limit_of(distances), 700.0))


class _Scale:
    """One kind of distance: those remembered, and those of this round."""

    def __init__(self, remembered: NDArray[np.float64], found: Sequence[float]) -> None:
        self._logs = np.concatenate([remembered, np.log(np.maximum(found, 1e-300))])
        self._before = len(remembered)
        self._common = _limit_beside(self._logs) if len(self._logs) > FEW else None

    def limit(self, i: int) -> float | None:
        """The largest distance for the i-th update of the round; None if there is nothing to compare with."""
        if self._common is not None:
            return self._common
        others = np.delete(self._logs, self._before + i)
        return _limit_beside(others) if len(others) else None

    def kept(self, admitted: Sequence[int]) -> NDArray[np.float64]:
        """What to remember."""
        return np.concatenate([self._logs[: self._before], self._logs[self._before :][list(admitted)]])[-MEMORY:]


@np.errstate(all="ignore")  # of infinite distances, which nonfinite = "propagate" lets through
def bound(
    job: Job,
    tasks: Mapping[int, TrainTask],
    updates: Sequence[Update],
    memory: PartState,
    *,
    elsewhere: Collection[int] = (),
) -> tuple[list[Update], dict[int, str], PartState]:
    """Split updates into those of a size that can be, and clients that are refused with a reason; and what to remember.

    ``tasks``: what each client was asked to do; ``elsewhere``: who started from a model that is not known here. With
    ``admission = "clip"``, what goes too far is cut back instead.
    """
    refused: dict[int, str] = {}
    usable: list[Update] = []
    moves: list[Moved] = []
    claims = _claims(job, updates, memory)
    for update in _believed(job, updates, claims) if job.rules.admission != "off" else updates:
        task = tasks[update.client]
        checked = _as_ordered(task, update, exact=update.client not in elsewhere)
        if isinstance(checked, str):
            refused[update.client] = checked
            continue
        move = checked.params.moved(task.params, job.layout)
        if move.problem is not None and job.rules.nonfinite != "propagate":
            refused[update.client] = move.problem
            continue
        usable.append(checked)
        moves.append(move)
    if job.rules.admission == "off":
        return usable, refused, memory
    lr = [max(tasks[update.client].training.lr, 1e-300) for update in usable]
    distances = [move.parameters / rate for move, rate in zip(moves, lr, strict=True)]
    parameters = _Scale(_remembered(memory, PARAMETERS), distances)
    buffers = _Scale(_remembered(memory, BUFFERS), [move.buffers for move in moves])
    trained, rest = job.layout.trainable, job.layout.floats - job.layout.trainable
    admitted: list[int] = []
    found: list[Update] = []
    for i, (update, move) in enumerate(zip(usable, moves, strict=True)):
        limits = (
            _limit(parameters.limit(i), lr[i], move.parameters_before, trained),
            _limit(buffers.limit(i), 1.0, move.buffers_before, rest),
        )
        far = _too_far(move, limits)
        if far is not None and not (job.rules.nonfinite == "propagate" and update.params.nonfinite):
            words = _words(far, move, limits)
            if job.rules.admission == "refuse" or update.params.nonfinite:
                refused[update.client] = words
                continue
            logger.warning("client %d is cut back: %s", update.client, words)
            update = _cut(update, tasks[update.client].params, job.layout.trainable, move, limits)
        else:
            admitted.append(i)
        found.append(update)
    after = {PARAMETERS: parameters.kept(admitted), BUFFERS: buffers.kept(admitted)}
    return found, refused, {**after, CLAIMS: _claims(job, found, memory)}


def _too_far(move: Moved, limits: tuple[float, float]) -> str | None:
    """Which distance is above its limit, the first of both; a distance that is no number is."""
    if not move.parameters <= limits[0]:
        return PARAMETERS
    return None if move.buffers <= limits[1] else BUFFERS


def _limit(beside: float | None, unit: float, before: float, length: int) -> float:
    if beside is None:
        return ALONE * (before + sqrt(length))
    return max(beside * unit, before)


def _words(which: str, move: Moved, limits: tuple[float, float]) -> str:
    far, most = (move.parameters, limits[0]) if which == PARAMETERS else (move.buffers, limits[1])
    return f"its {which} went {far:.3g} far; beside what others do, {most:.3g} is the most (method.admission)"


def _cut(update: Update, start: Params, trainable: int, move: Moved, limits: tuple[float, float]) -> Update:
    """The update with the same direction, and no longer than allowed."""
    values = update.params.values.copy()
    places = (slice(0, trainable), slice(trainable, None))
    for place, far, most in zip(places, (move.parameters, move.buffers), limits, strict=True):
        if far > most:
            step = np.subtract(values[place], start.values[place], dtype=np.float64)
            values[place] = start.values[place] + step * (most / far)
    return replace(update, params=Params(values, update.params.counters))


def _remembered(memory: PartState, name: str) -> NDArray[np.float64]:
    return np.asarray(memory.get(name, np.zeros(0)), np.float64)


def _as_ordered(task: TrainTask, update: Update, *, exact: bool) -> Update | str:
    """The update with plain numbers; or what cannot have come of the task; ``exact``: if its start is known."""
    if update.params.hidden:
        return update
    examples, steps = int(update.num_examples), int(update.num_steps)
    rule = task.rule
    low, high = ordered_steps(task.training, examples, None if rule is None else rule.max_steps(task))
    if steps > high:
        return f"{steps} steps on {examples} examples; at most {high} were ordered"
    if rule is not None and rule.sends and steps < low:
        return f"{steps} steps on {examples} examples; at least {low} were ordered"
    expected: Mapping[str, Any] = {}
    moving: Mapping[str, Any] = {}
    if rule is not None and rule.sends:
        expected = rule.report(task, replace(update, facts={})).facts
        moving = {} if exact else rule.report(replace(task, params=update.params), replace(update, facts={})).facts
    wanted = {*expected, *(fact.name for fact in task.facts)}
    if update.facts.keys() != wanted:
        return f"it says {sorted(update.facts)[:5]} besides the model, expected {sorted(wanted)}"
    for name, fact in expected.items():
        given = update.facts[name]
        same = given.dtype == fact.dtype and given.shape == fact.shape
        if same and not exact and not np.array_equal(moving[name], fact):
            same = distance(given.ravel()) <= FACTOR * distance(fact.ravel())
        elif same:
            same = np.allclose(given, fact, rtol=1e-3, atol=1e-5, equal_nan=True)
        if not same:
            return f"{name} does not follow from the model that came with it"
    if type(update.num_examples) is int and type(update.num_steps) is int:
        return update
    return replace(update, num_examples=examples, num_steps=steps)


def _claims(job: Job, updates: Sequence[Update], memory: PartState) -> NDArray[np.int64]:
    """What each client said of its number of examples when it was admitted first; 0 of others."""
    before = np.asarray(memory.get(CLAIMS, np.zeros(0)), np.int64)
    claims = np.zeros(len(job.clients.sizes), np.int64)
    claims[: len(before)] = before[: len(claims)]
    for update in updates:
        if not claims[update.client]:
            claims[update.client] = update.num_examples
    return claims


def credible(claims: NDArray[np.int64]) -> float:
    """The most examples that can be believed of a client beside what all claim (0: nothing); of two, anything can.

    >>> round(credible(np.array([40, 50, 0, 10**9])))
    500
    """
    known = np.log(claims[claims > 0])
    if len(known) <= 2:
        return inf
    middle = float(np.median(known))
    spread = 1.4826 * float(np.median(np.abs(known - middle)))
    return exp(middle + max(log(SIZES), 4 * spread))


def _believed(job: Job, updates: Sequence[Update], claims: NDArray[np.int64]) -> list[Update]:
    """The updates with no more examples than the client is known to have, or than is credible beside the others.

    ``claims``: those of this round included.
    """
    if job.rules.released_sizes:
        return list(updates)
    asked = np.array([update.client for update in updates], np.int64)
    sizes = job.clients.sizes[asked].astype(np.float64)
    if job.clients.sized:
        most = np.where(sizes > 0, sizes, np.inf)
    else:
        most = np.where(claims[asked] > 0, GROWTH * claims[asked], np.inf)
        most = np.minimum(most, credible(claims))
        if LABEL_COUNTS in job.clients.facts:
            most = np.minimum(most, GROWTH * sizes + NOISE)
    found: list[Update] = []
    for update, limit in zip(updates, most.tolist(), strict=True):
        if update.num_examples > limit:
            logger.warning(CLAIMED, update.client, update.num_examples, int(limit))
            update = replace(update, num_examples=max(int(limit), 1))
        found.append(update)
    return found
