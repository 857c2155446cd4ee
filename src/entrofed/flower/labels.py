"""What the server learns of the clients' labels, and the ledger that follows from it."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from flwr.serverapp import Grid
from numpy.typing import NDArray

from entrofed.core.params import Layout, Params
from entrofed.core.types import (
    LABEL_COUNTS,
    LABEL_SUMMARY,
    MEAN_PREDICTION,
    Context,
    Failure,
    Ledger,
    Method,
    Update,
)
from entrofed.core.validation import MOST_EXAMPLES
from entrofed.errors import ConfigError, DataError
from entrofed.flower.grid import AGAIN, Roster, Silence, ask
from entrofed.registry import describe

log = logging.getLogger("entrofed")


class Labels:
    """Label counts, or summaries of them, as each client told them once; by name."""

    def __init__(self, method: Method, classes: int | None) -> None:
        needs = method.needs
        self._method, self._classes = method, classes or 0
        self._counts = LABEL_COUNTS in needs
        self._wanted = bool({LABEL_COUNTS, LABEL_SUMMARY} & needs)
        if classes is None and (self._wanted or MEAN_PREDICTION in needs):
            raise ConfigError("the method works with labels; say how many there are, for example classes=10")
        if classes is not None and classes < 1:
            raise ConfigError(f"classes = {classes}: there is at least 1 label")
        self.told: dict[str, list[float]] = {}
        self._slow: set[str] = set()

    def learn(self, grid: Grid, roster: Roster, wait: float, params: Params, layout: Layout) -> None:
        """Ask those who have not told yet; once told, what they told is kept."""
        new = {node: name for name, node in roster.node.items() if name not in self.told}
        if not self._wanted or not new:
            return
        question: dict[str, Any] = {"what": "counts"}
        if not self._counts:
            question = {"what": "summary", "weigher": describe(self._method.weigher)}
        patience = wait if set(new.values()) - self._slow else min(wait, AGAIN)
        answers = ask(grid, list(new), question, patience)
        for node, name in new.items():
            answer = answers[node]
            try:
                if isinstance(answer, Failure):
                    raise DataError(answer.reason)
                self.told[name] = self._checked(answer, params, layout)
                self._slow.discard(name)
            except Exception as error:  # a client that tells nonsense tells nothing, and nobody else is hindered
                self._slow.add(name)
                log.warning("what client %s tells of its labels is not used: %s", name, str(error)[:500])
        silent = any(isinstance(answer, Silence) for answer in answers.values())
        if not self.told and not silent and len(answers) > 1:  # one alone, or none in time: perhaps others come
            raise ConfigError(
                f"the method works with labels, and none of {len(new)} clients tells anything of them that can be used "
                "(the reasons are in the log); build the ClientApp with entrofed.flower.client_app, or wrap yours in "
                f"entrofed.flower.answering(app, labels=..., classes={self._classes})"
            )

    def _checked(self, answer: Mapping[str, Any], params: Params, layout: Layout) -> list[float]:
        what = "counts" if self._counts else "summary"
        row = np.array(answer[what], np.float64)
        if row.ndim != 1 or not (np.abs(row) <= MOST_EXAMPLES).all():
            raise DataError(f"{what}: numbers up to {MOST_EXAMPLES} in a row are expected")
        if self._counts and not (len(row) == self._classes and (row >= 0).all() and 0 < row.sum() <= MOST_EXAMPLES):
            raise DataError(f"{what}: {self._classes} numbers from 0 on, not all 0, are expected, found {row}")
        if not self._counts:
            self._try(row, params, layout)
        found: list[float] = row.tolist()
        return found

    def _try(self, summary: NDArray[np.float64], params: Params, layout: Layout) -> None:
        """Raise unless the weigher can work with a summary."""
        ledger = Ledger(np.ones(1, np.int64), self._classes, trainable=layout.trainable, summaries=(summary,))
        alone = Update(0, params, num_examples=1, num_steps=1, train_loss=1.0, train_loss_last_epoch=1.0)
        nothing: Callable[..., Any] = lambda models: None  # noqa: E731
        with np.errstate(all="ignore"):
            weights = self._method.weigher.weigh([alone], Context(params, 0, ledger, layout, 0, nothing)).weights
        if not np.isfinite(weights).all():
            raise DataError(f"summary: it gives the weight {weights}")

    def ledger(self, names: list[str], trainable: int) -> Ledger:
        """What is known of the clients; who does not tell what the method works with takes no part (size 0)."""
        if not self._wanted:
            return Ledger(np.ones(len(names), np.int64), self._classes, trainable=trainable)
        method, nothing = self._method, np.zeros(self._classes)
        told = [np.array(self.told[name]) if name in self.told else None for name in names]
        if not self._counts:
            sizes = np.array([row is not None for row in told], np.int64)
            summaries = tuple(method.weigher.summary(nothing) if row is None else row for row in told)
            return Ledger(sizes, self._classes, trainable=trainable, summaries=summaries)
        counts = np.array([nothing if row is None else row for row in told]).reshape(len(names), self._classes)
        both = LABEL_SUMMARY in method.needs
        return Ledger(
            np.ceil(counts.sum(axis=1)).astype(np.int64),
            self._classes,
            trainable=trainable,
            label_counts=counts,
            summaries=tuple(method.weigher.summary(row) for row in counts) if both else None,
        )
