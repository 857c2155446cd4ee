"""What is wrong with an update, and what is done about it: refused, with a reason, before anything is weighed.

A refused update changes nothing but the record: it stretches no histogram, moves no median, enters no sum. What a
weigher says is looked at in the same way: weights that are none are replaced.
"""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from entrofed.core.job import Job
from entrofed.core.params import Params
from entrofed.core.parts import Fact, Weigher
from entrofed.core.records import scalars
from entrofed.core.types import Context, Failure, Update, Weighing
from entrofed.errors import DataError, EntrofedError, LostModelsError, blamed

log = logging.getLogger("entrofed")

WHOLE, NUMBERS = (int, np.integer), (int, float, np.integer, np.floating)
MAX_EXAMPLES = 10**9
"""A client that claims more training examples than this is not believed."""

EXPLODED = 1e4
"""A model that is further than this times the length of the one before, and of a vector of ones, is none."""


def as_numbers(value: Any) -> NDArray[np.float64]:
    """What somebody else sent, as real numbers; an empty table if it is none (no fact is one)."""
    try:
        found = np.asarray(value)
    except (TypeError, ValueError):
        found = np.zeros((0, 0))
    return found.astype(np.float64) if found.dtype.kind in "iuf" else np.zeros((0, 0))


def fact_problem(fact: Fact, value: Any, classes: int) -> str | None:
    """What is wrong with what a client told, or None; a fact that cannot judge a value refuses it."""
    try:
        with np.errstate(all="ignore"):
            return fact.problem(value, classes)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def problem(answer: Any, client: int, job: Job) -> str | None:
    """The first thing wrong with what a client sent, or None; what cannot even be looked at is refused, too."""
    if isinstance(answer, Failure):
        return answer.reason
    if not isinstance(answer, Update):
        return f"not an update: {type(answer).__name__}"
    try:
        return _problem(answer, client, job)
    except LostModelsError:
        raise
    except Exception as error:
        return f"it cannot be read: {type(error).__name__}: {error}"


def _problem(answer: Update, client: int, job: Job) -> str | None:
    if not _is_whole(answer.client) or answer.client != client:
        return f"answer in the name of client {answer.client}"
    if not isinstance(answer.params, Params):
        return f"no model but {type(answer.params).__name__}"
    if (wrong := answer.params.problem(job.layout)) is not None:
        return wrong
    for what, number in (("examples", answer.num_examples), ("steps", answer.num_steps)):
        if type(number) is int and 0 < number <= MAX_EXAMPLES:
            continue
        if not _is_whole(number):
            return f"number of {what} is not an integer: {str(number)[:50]}"
        if number < 0 or number > MAX_EXAMPLES:
            return f"absurd number of {what}: {number}"
        if number == 0:
            return f"no {what}"
    if job.rules.nonfinite != "propagate" and (count := answer.params.nonfinite):
        return f"{count} non-finite parameters"
    for what, value in (
        ("training loss", answer.train_loss),
        ("training loss of the last epoch", answer.train_loss_last_epoch),
        ("time", answer.seconds),
        *((f"{term} of the loss", value) for term, value in answer.terms.items()),
    ):
        if type(value) is float:
            continue
        if not isinstance(value, NUMBERS):
            return f"its {what} is not a number: {str(value)[:50]}"
        if isinstance(value, int) and value.bit_length() > 63:  # numpy would make an array of objects of it
            return f"its {what} has {value.bit_length()} bits; at most 63 are read"
    for what, array in answer.client_state.items():
        if not isinstance(what, str) or not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
            return f"{str(what)[:50]}, which it keeps, is not an array of numbers"
    for what, fact in answer.facts.items():
        if not isinstance(fact, np.ndarray) or fact.dtype.kind not in "iuf" or not np.isfinite(fact).all():
            return f"{what} is not an array of finite numbers"
    for asked in job.method.facts_told("with_update"):
        if asked.name not in answer.facts:
            return f"the reply lacks {asked.name}"
        if (wrong := fact_problem(asked, answer.facts[asked.name], job.clients.classes)) is not None:
            return f"{asked.name}: {wrong}"
    return None


def _is_whole(number: Any) -> bool:
    return isinstance(number, WHOLE) and not isinstance(number, bool)


def model_problem(job: Job, before: Params, after: Params, server: Mapping[str, Any]) -> str | None:
    """Why what a server rule made cannot be the next model, or None."""
    if (wrong := after.problem(job.layout)) is not None:
        return wrong
    if job.rules.nonfinite == "propagate":
        return None
    if count := after.nonfinite:
        return f"{count} of its values are not finite"
    for name, array in server.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            return f"what it remembers as {name!r} is not finite"
    moved = after.moved(before, job.layout)
    for what, far, length, number in (
        ("parameters", moved.parameters, moved.parameters_before, job.layout.trainable),
        ("buffers", moved.buffers, moved.buffers_before, job.layout.floats - job.layout.trainable),
    ):
        if job.rules.admission != "off" and far > EXPLODED * (length + number**0.5):
            return f"its {what} moved by {far:.3g}, from a norm of {length:.3g}"
    return None


def admit(job: Job, clients: Sequence[int], answers: Sequence[Any]) -> tuple[list[Update], dict[int, str]]:
    """Split answers into usable updates and refused clients with reasons; for the server as for peers.

    ``answers[i]`` came from ``clients[i]``; of several answers of one client the first is kept. Where exact sizes do
    not leave the clients, an update's number of examples is the one that was released.
    """
    admitted: dict[int, Update] = {}
    refused: dict[int, str] = {}
    for client, answer in zip(clients, answers, strict=True):
        if client in refused or client in admitted:
            refused[client] = "duplicate answer; the first was kept"
        elif (reason := problem(answer, client, job)) is None:
            sizes = job.clients.sizes
            admitted[client] = replace(answer, num_examples=int(sizes[client])) if job.rules.released_sizes else answer
        elif job.rules.nonfinite == "raise" and isinstance(answer, Update) and reason.endswith("non-finite parameters"):
            raise EntrofedError(f"client {client} sent {reason}, and nonfinite = 'raise' was chosen")
        else:
            refused[client] = reason
    return list(admitted.values()), refused


def check_first(answers: Sequence[Any]) -> None:
    """Raise what all tasks of a first round raised in the same line: no client is at fault there, but the code."""
    failures = [answer for answer in answers if isinstance(answer, Failure) and answer.where]
    if failures and len(failures) == len(answers) and len({failure.where for failure in failures}) == 1:
        first = failures[0]
        raise first.error or EntrofedError(f"every client failed in the same line: {first.reason} ({first.where})")


def safe_weights(weigher: Weigher, updates: Sequence[Update], context: Context) -> Weighing:
    """The weigher's weights; where they are no weights at all, data-size weights, and a word about it."""
    with blamed(f"weigher {weigher.name!r}"), np.errstate(all="ignore"):
        weighing = weigher.weigh(updates, context)
    weights = np.asarray(weighing.weights, np.float64)
    usable = weights.shape == (len(updates),) and np.isfinite(weights).all() and (weights >= 0).all()
    if not usable or weights.sum() <= 0:
        log.warning("round %d: %s gave unusable weights %s: data size is used", context.round, weigher.name, weights)
        weights = np.array([update.num_examples for update in updates], np.float64)
    origins = scalars(weighing.origins, f"weigher {weigher.name!r}: origins")
    if len(origins) not in (0, len(updates)):
        raise DataError(
            f"weigher {weigher.name!r}: {len(origins)} origins for {len(updates)} updates; give one each, or none"
        )
    return Weighing(weights / weights.sum(), origins if any(origins) else [])
