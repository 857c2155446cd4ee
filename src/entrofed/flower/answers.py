"""What a client tells of its labels: counts that leave it once, and an app that answers when it is asked."""

import json
import logging
import os
import re
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp
from numpy.typing import ArrayLike, NDArray

from entrofed.core.parts import Fact, LabelFact
from entrofed.errors import ConfigError, DataError
from entrofed.files import data_folder, held, write_whole
from entrofed.flower.legacy import Legacy, is_legacy
from entrofed.flower.secure_client import COUNTS, STAGES, answer_secure, masked_counts
from entrofed.flower.wire import CONFIG
from entrofed.privacy.counts import release
from entrofed.registry import build

log = logging.getLogger("entrofed")

ASK = "query.entrofed"
"""The type of our questions; what is asked stands in ``config``."""

UNSAFE = r"[^A-Za-z0-9._+-]+"
"""What is not taken over from a client's name into that of a file."""

Answer = Callable[[dict[str, Any], Message, Context], dict[str, Any]]
"""Answers a question: a plain table for a plain table."""


def client_name(context: Context) -> str:
    """How a client is called, whatever node it is: ``name``, else ``partition-id`` of its node configuration."""
    config = context.node_config
    return str(config.get("name", config.get("partition-id", f"node-{context.node_id}")))


def default_store() -> Path:
    """Where a client remembers what it has released: $ENTROFED_CLIENT_STORE, else in the user's data folder."""
    return Path(os.environ.get("ENTROFED_CLIENT_STORE") or data_folder() / "clients")


def client_file(name: str, store: Path | None, ending: str) -> Path:
    """Where a client of that name keeps something."""
    return (store or default_store()) / f"{re.sub(UNSAFE, '-', name)}-{sha256(name.encode()).hexdigest()[:8]}{ending}"


def released_counts(
    labels: ArrayLike, classes: int, name: str, epsilon: float | None, store: Path | None
) -> dict[str, Any]:
    """A client's label counts as they leave it; noise is drawn once, kept on disk, and never drawn again.

    To noise the same counts twice would spend the budget twice: whoever averages the two sees more.
    """
    counts = counted(labels, classes)
    if epsilon is None:
        return {"counts": counts.tolist(), "spent": None}
    digest = sha256(f"{name} {counts.tolist()} {epsilon}".encode()).hexdigest()
    path = client_file(name, store, ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    with held(path.with_suffix(".lock")):  # two first questions at once must not draw twice
        return _kept_or_drawn(path, counts, epsilon, digest)


def _kept_or_drawn(path: Path, counts: NDArray[np.int64], epsilon: float, digest: str) -> dict[str, Any]:
    classes = len(counts)
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        before, known, spent = kept["counts"], kept["digest"], kept["spent"]
        if len(before) != classes:
            raise DataError(f"{path}: {len(before)} classes were released, now there are {classes}; take another store")
        if known != digest:
            log.warning(
                "%s: data or epsilon have changed since the counts were released; what was released stays", path
            )
        return {"counts": before, "spent": spent}
    except FileNotFoundError:
        pass
    except (ValueError, KeyError, TypeError):
        raise DataError(
            f"{path}: not readable, so it is not known what was released; delete it to draw anew, which spends again"
        ) from None
    fresh = release(counts[None], epsilon, "add_remove")
    answer = {"counts": fresh.counts[0].tolist(), "spent": fresh.spent}
    write_whole(path, json.dumps({"digest": digest, **answer}) + "\n")  # before it leaves
    return answer


def counted(labels: ArrayLike, classes: int) -> NDArray[np.int64]:
    """How many of each label there are.

    >>> counted([0, 2, 2], 3).tolist()
    [1, 0, 2]
    """
    found = np.asarray(labels)
    if found.ndim != 1 or (len(found) and (found.dtype.kind not in "iu" or found.min() < 0 or found.max() >= classes)):
        raise DataError(f"labels are whole numbers from 0 to {classes - 1} in a row, found {str(found)[:100]}")
    return np.bincount(found.astype(np.int64), minlength=classes)


def answers_about_labels(
    labels: Callable[[Context], ArrayLike],
    classes: Callable[[Context], int],
    epsilon: float | None,
    store: Path | None,
) -> Answer:
    """Who a client is, and what its labels are: what can be answered without a model."""
    if epsilon is not None and not 0 < epsilon < float("inf"):
        raise ConfigError(f"epsilon = {epsilon} must be finite and above 0, or None for counts without noise")

    def answer(question: dict[str, Any], message: Message, context: Context) -> dict[str, Any]:
        name = client_name(context)
        if question["what"] == "hello":
            return {"name": name}
        if question["what"] in STAGES:
            return answer_secure(question, context)
        if question["what"] == COUNTS:
            released = released_counts(labels(context), classes(context), name, epsilon, store)
            return masked_counts(question, np.array(released["counts"], np.float64), context)
        fact = asked_fact(question)
        if not isinstance(fact, LabelFact):
            raise ConfigError(f"this client does not tell {fact.name!r}; build it with entrofed.flower.client_app")
        found = released_counts(labels(context), classes(context), name, epsilon, store)
        told = fact.of_counts(np.array(found["counts"], np.float64))  # made of what was released
        return {"value": told.tolist(), "spent": found["spent"]}

    return answer


def asked_fact(question: dict[str, Any]) -> Fact:
    """The fact that a question is about."""
    if question["what"] != "fact":
        raise ConfigError(f"this client does not answer {question['what']!r}")
    fact: Fact = build("fact", question["fact"])
    return fact


def answering(
    app: ClientApp,
    *,
    labels: Callable[[Context], ArrayLike],
    classes: int,
    epsilon: float | None = None,
    store: Path | None = None,
) -> ClientApp:
    """Extend an existing ClientApp so that it also answers what our methods ask about its labels.

    ``labels(context)`` gives a client's training labels. With ``epsilon`` their counts are noised at the client, once:
    the noised counts are kept in ``store`` and given again after a restart. Use one store for each set of data.
    """
    return answered(app, answers_about_labels(labels, lambda context: classes, epsilon, store))


def answered(app: ClientApp, answer: Answer) -> ClientApp:
    """The app with an answer to our questions; one of the older style is wrapped, all others get a query function."""

    def reply(message: Message, context: Context) -> Message:
        question = json.loads(str(message.content.config_records[CONFIG]["ask"]))
        answers = json.dumps(answer(question, message, context))
        return Message(RecordDict({CONFIG: ConfigRecord({"answer": answers})}), reply_to=message)

    if is_legacy(app):
        return Legacy(app, {ASK: reply})
    app.query(ASK.removeprefix("query."))(reply)
    return app
